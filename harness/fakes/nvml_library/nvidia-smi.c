// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A fake of nvidia-smi, on the fake NVML: the commands that programs and people use.
 *
 *     nvidia-smi -L
 *     nvidia-smi -q -x [-i <index, uuid or address>]
 *     nvidia-smi --gpu-reset [-i ...]
 *     nvidia-smi compute-policy -l | --set-timeslice=<0..3> [-i ...]
 *
 * It refuses all other commands: it never prints what the real program would print otherwise.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Device;
typedef unsigned long long u64;
enum { SUCCESS = 0, NO_PERMISSION = 4, NOT_FOUND = 6, IN_USE = 19 };
#define VERSION(type, version) ((unsigned)sizeof(type) | (unsigned)(version) << 24)
#define DEVICES_MOST 64
#define BIT(number) (1ULL << (number))

static void *library;
/* The functions take pointers and integers of four bytes alone, so that no prototype is needed. */
static int (*nvml(const char *name))()
{
	int (*function)() = (int (*)())dlsym(library, name);

	if (!function) {
		fprintf(stderr, "nvidia-smi (fake): no %s\n", name);
		exit(12);
	}
	return function;
}

static const char *words(int result)
{
	return ((const char *(*)(int))dlsym(library, "nvmlErrorString"))(result);
}

static Device devices[DEVICES_MOST];
static unsigned count;

static const char *address(Device device)
{
	static struct { char legacy[16]; unsigned numbers[5]; char bus_id[32]; } pci;

	nvml("nvmlDeviceGetPciInfo_v3")(device, &pci);
	return pci.bus_id;
}

/* --- Elements of the XML: N/A where NVML says that there is nothing --- */

static int depth;

static void indent(void)
{
	for (int level = 0; level < depth; level++)
		putchar('\t');
}

static void begin(const char *tag) { indent(); printf("<%s>\n", tag); depth++; }
static void end(const char *tag) { depth--; indent(); printf("</%s>\n", tag); }

static void text(const char *tag, const char *value)
{
	indent();
	printf("<%s>", tag);
	for (; *value; value++)
		if (*value == '&')
			printf("&amp;");
		else if (*value == '<')
			printf("&lt;");
		else
			putchar(*value);
	printf("</%s>\n", tag);
}

static void with_unit(const char *tag, int result, u64 value, const char *unit)
{
	char whole[64];

	snprintf(whole, sizeof whole, "%llu%s", value, unit);
	text(tag, result == SUCCESS ? whole : "N/A");
}

static void choice(const char *tag, int result, unsigned value, const char *const *names, unsigned known)
{
	text(tag, result != SUCCESS ? "N/A" : value < known ? names[value] : "Unknown");
}
#define CHOICE(tag, result, value, ...) \
	do { \
		static const char *const names[] = {__VA_ARGS__}; \
		choice(tag, result, value, names, sizeof names / sizeof *names); \
	} while (0)
#define SWITCH(tag, result, value) CHOICE(tag, result, value, "Disabled", "Enabled")
#define YES(tag, result, value) CHOICE(tag, result, value, "No", "Yes")

static void string(const char *tag, Device device, const char *function)
{
	char value[128];

	text(tag, nvml(function)(device, value, (unsigned)sizeof value) == SUCCESS ? value : "N/A");
}

static void number(const char *tag, Device device, const char *function, const char *unit)
{
	unsigned value = 0;
	int result = nvml(function)(device, &value);

	with_unit(tag, result, value, unit);
}

static void number_of(const char *tag, Device device, const char *function, unsigned which, const char *unit)
{
	unsigned value = 0;
	int result = nvml(function)(device, which, &value);

	with_unit(tag, result, value, unit);
}

static void watts(const char *tag, int result, unsigned milliwatts)
{
	char whole[64];

	snprintf(whole, sizeof whole, "%u.%02u W", milliwatts / 1000, milliwatts % 1000 / 10);
	text(tag, result == SUCCESS ? whole : "N/A");
}

static void power(const char *tag, Device device, const char *function)
{
	unsigned value = 0;
	int result = nvml(function)(device, &value);

	watts(tag, result, value);
}

typedef struct { unsigned id, scope; long long time, latency; unsigned type; int result; u64 value; } Field;
static int field(Device device, unsigned id, u64 *value)
{
	Field one = {.id = id};
	int result = nvml("nvmlDeviceGetFieldValues")(device, 1, &one);

	*value = one.type == 1 ? (unsigned)one.value : one.value;
	return result ? result : one.result;
}

static void field_number(const char *tag, Device device, unsigned id, const char *unit)
{
	u64 value = 0;
	int result = field(device, id, &value);
	char whole[64];

	snprintf(whole, sizeof whole, "%d%s", (int)value, unit);
	text(tag, result == SUCCESS ? whole : "N/A");
}

static void field_choice(const char *tag, Device device, unsigned id, const char *const *names, unsigned known)
{
	u64 value = 0;
	int result = field(device, id, &value);

	choice(tag, result, (unsigned)value, names, known);
}

/* --- A GPU --- */

/* nvidia-smi rounds what is used down, and what is free or reserved up: the recordings show it. */
static u64 mib_up(u64 bytes)
{
	return (bytes + (1 << 20) - 1) >> 20;
}

static void show_memory(Device device)
{
	struct { unsigned version; u64 total, reserved, free, used; } memory = {.version = VERSION(memory, 2)};
	int result = nvml("nvmlDeviceGetMemoryInfo_v2")(device, &memory);

	begin("fb_memory_usage");
	with_unit("total", result, memory.total >> 20, " MiB");
	with_unit("reserved", result, mib_up(memory.reserved), " MiB");
	with_unit("used", result, memory.used >> 20, " MiB");
	with_unit("free", result, mib_up(memory.free), " MiB");
	end("fb_memory_usage");
}

static void show_bar1(Device device)
{
	struct { u64 total, free, used; } memory = {0, 0, 0};
	int result = nvml("nvmlDeviceGetBAR1MemoryInfo")(device, &memory);

	begin("bar1_memory_usage");
	with_unit("total", result, memory.total >> 20, " MiB");
	with_unit("used", result, memory.used >> 20, " MiB");
	with_unit("free", result, mib_up(memory.free), " MiB");
	end("bar1_memory_usage");
}

static void show_mig_device(Device device, unsigned index)
{
	struct { unsigned engines[6], gi_slices, ci_slices; u64 memory; } attributes = {.memory = 0};
	static const char *const names[] = {"multiprocessor_count", "copy_engine_count", "decoder_count", "encoder_count", "jpg_count",
	                                    "ofa_count"};
	int result = nvml("nvmlDeviceGetAttributes_v2")(device, &attributes);

	begin("mig_device");
	with_unit("index", SUCCESS, index, "");
	number("gpu_instance_id", device, "nvmlDeviceGetGpuInstanceId", "");
	number("compute_instance_id", device, "nvmlDeviceGetComputeInstanceId", "");
	begin("device_attributes");
	begin("shared");
	for (int engine = 0; engine < 6; engine++)
		with_unit(names[engine], result, attributes.engines[engine], "");
	end("shared");
	end("device_attributes");
	show_memory(device);
	end("mig_device");
}

static void show_mig(Device device)
{
	unsigned current = 0, pending = 0, index, most = 0, shown = 0;
	int result = nvml("nvmlDeviceGetMigMode")(device, &current, &pending);
	Device mig;

	begin("mig_mode");
	SWITCH("current_mig", result, current);
	SWITCH("pending_mig", result, pending);
	end("mig_mode");
	nvml("nvmlDeviceGetMaxMigDeviceCount")(device, &most);
	for (index = 0; index < most; index++)
		if (nvml("nvmlDeviceGetMigDeviceHandleByIndex")(device, index, &mig) == SUCCESS) {
			if (!shown++)
				begin("mig_devices");
			show_mig_device(mig, index);
		}
	if (shown)
		end("mig_devices");
	else
		text("mig_devices", "\n\t\t\tNone\n\t\t");
}

static void show_identity(Device device)
{
	static const char *const actions[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", "Recover IMEX Domain"};
	unsigned value = 0, first = 0, second = 0;
	char whole[96];
	int result;

	string("serial", device, "nvmlDeviceGetSerial");
	string("uuid", device, "nvmlDeviceGetUUID");
	number("minor_number", device, "nvmlDeviceGetMinorNumber", "");
	string("vbios_version", device, "nvmlDeviceGetVbiosVersion");
	result = nvml("nvmlDeviceGetMultiGpuBoard")(device, &value);
	YES("multigpu_board", result, value);
	result = nvml("nvmlDeviceGetBoardId")(device, &value);
	snprintf(whole, sizeof whole, "0x%x", value);
	text("board_id", result == SUCCESS ? whole : "N/A");
	string("board_part_number", device, "nvmlDeviceGetBoardPartNumber");
	begin("inforom_version");
	string("img_version", device, "nvmlDeviceGetInforomImageVersion");
	result = nvml("nvmlDeviceGetInforomVersion")(device, 0, whole, (unsigned)sizeof whole);
	text("oem_object", result == SUCCESS ? whole : "N/A");
	result = nvml("nvmlDeviceGetInforomVersion")(device, 1, whole, (unsigned)sizeof whole);
	text("ecc_object", result == SUCCESS ? whole : "N/A");
	end("inforom_version");
	result = nvml("nvmlDeviceGetGspFirmwareVersion")(device, whole);
	text("gsp_firmware_version", result == SUCCESS ? whole : "N/A");
	field_choice("gpu_recovery_action", device, 230, actions, 6);
	result = nvml("nvmlDeviceGetComputeMode")(device, &value);
	CHOICE("compute_mode", result, value, "Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process");
	result = nvml("nvmlDeviceGetEccMode")(device, &first, &second);
	begin("ecc_mode");
	SWITCH("current_ecc", result, first);
	SWITCH("pending_ecc", result, second);
	end("ecc_mode");
}

static void show_pci(Device device)
{
	struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; } pci;
	char whole[32];

	if (nvml("nvmlDeviceGetPciInfo_v3")(device, &pci) != SUCCESS)
		return;
	begin("pci");
	snprintf(whole, sizeof whole, "%02X", pci.bus);
	text("pci_bus", whole);
	snprintf(whole, sizeof whole, "%02X", pci.device);
	text("pci_device", whole);
	snprintf(whole, sizeof whole, "%04X", pci.domain);
	text("pci_domain", whole);
	snprintf(whole, sizeof whole, "%08X", pci.device_id);
	text("pci_device_id", whole);
	text("pci_bus_id", pci.bus_id);
	snprintf(whole, sizeof whole, "%08X", pci.subsystem_id);
	text("pci_sub_system_id", whole);
	begin("pci_gpu_link_info");
	begin("pcie_gen");
	number("max_link_gen", device, "nvmlDeviceGetMaxPcieLinkGeneration", "");
	number("current_link_gen", device, "nvmlDeviceGetCurrPcieLinkGeneration", "");
	number("max_device_link_gen", device, "nvmlDeviceGetGpuMaxPcieLinkGeneration", "");
	end("pcie_gen");
	begin("link_widths");
	number("max_link_width", device, "nvmlDeviceGetMaxPcieLinkWidth", "x");
	number("current_link_width", device, "nvmlDeviceGetCurrPcieLinkWidth", "x");
	end("link_widths");
	end("pci_gpu_link_info");
	number("replay_counter", device, "nvmlDeviceGetPcieReplayCounter", "");
	field_number("replay_rollover_counter", device, 95, "");
	number_of("tx_util", device, "nvmlDeviceGetPcieThroughput", 0, " KB/s");
	number_of("rx_util", device, "nvmlDeviceGetPcieThroughput", 1, " KB/s");
	end("pci");
}

static void show_events(Device device)
{
	static const struct { const char *name; u64 bits; } reasons[] = {
		{"gpu_idle", BIT(0)}, {"applications_clocks_setting", BIT(1)}, {"sw_power_cap", BIT(2)}, {"hw_slowdown", BIT(3)},
		{"hw_thermal_slowdown", BIT(6)}, {"hw_power_brake_slowdown", BIT(7)}, {"sync_boost", BIT(4)},
		{"sw_thermal_slowdown", BIT(5)}, {"display_clocks_setting", BIT(8)},
	};
	u64 current = 0;
	int result = nvml("nvmlDeviceGetCurrentClocksEventReasons")(device, &current);
	char tag[64];

	begin("clocks_event_reasons");
	for (unsigned index = 0; index < sizeof reasons / sizeof *reasons; index++) {
		snprintf(tag, sizeof tag, "clocks_event_reason_%s", reasons[index].name);
		CHOICE(tag, result, (current & reasons[index].bits) != 0, "Not Active", "Active");
	}
	end("clocks_event_reasons");
}

static void show_ecc(Device device)
{
	static const char *const counters[] = {"volatile", "aggregate"};
	struct { unsigned version; u64 counts[11]; unsigned exceeded; } sram = {.version = VERSION(sram, 1)};
	struct { unsigned version, channel, tpc; } repair = {.version = VERSION(repair, 1)};
	int known = nvml("nvmlDeviceGetSramEccErrorStatus")(device, &sram), result;
	u64 value = 0;

	begin("ecc_errors");
	for (unsigned counter = 0; counter < 2; counter++) {
		const u64 *of = sram.counts + (counter ? 0 : 3); /* the aggregate ones come first */
		begin(counters[counter]);
		result = nvml("nvmlDeviceGetMemoryErrorCounter")(device, 0, counter, 7, &value);
		with_unit("sram_correctable", result, value, "");
		if (known == SUCCESS) {
			with_unit("sram_uncorrectable_parity", known, of[0], "");
			with_unit("sram_uncorrectable_secded", known, of[1], "");
		} else {
			result = nvml("nvmlDeviceGetMemoryErrorCounter")(device, 1, counter, 7, &value);
			with_unit("sram_uncorrectable", result, value, "");
		}
		result = nvml("nvmlDeviceGetMemoryErrorCounter")(device, 0, counter, 2, &value);
		with_unit("dram_correctable", result, value, "");
		result = nvml("nvmlDeviceGetMemoryErrorCounter")(device, 1, counter, 2, &value);
		with_unit("dram_uncorrectable", result, value, "");
		if (counter && known == SUCCESS)
			YES("sram_threshold_exceeded", known, sram.exceeded);
		end(counters[counter]);
	}
	result = nvml("nvmlDeviceGetRepairStatus")(device, &repair);
	YES("channel_repair_pending", result, repair.channel);
	YES("tpc_repair_pending", result, repair.tpc);
	end("ecc_errors");
}

static void show_rows(Device device)
{
	static const char *const levels[] = {"max", "high", "partial", "low", "none"};
	unsigned rows[6], spare[5];
	char tag[64];
	int result = nvml("nvmlDeviceGetRemappedRows_v2")(device, rows);

	if (result != SUCCESS) {
		text("remapped_rows", "N/A");
		return;
	}
	begin("remapped_rows");
	with_unit("remapped_row_corr", result, rows[0], "");
	with_unit("remapped_row_unc", result, rows[2], "");
	with_unit("remapped_row_corr_inactive", result, rows[1], "");
	with_unit("remapped_row_unc_inactive", result, rows[3], "");
	YES("remapped_row_pending", result, rows[4]);
	YES("remapped_row_failure", result, rows[5]);
	result = nvml("nvmlDeviceGetRowRemapperHistogram")(device, spare);
	begin("row_remapper_histogram");
	for (int level = 0; level < 5; level++) {
		snprintf(tag, sizeof tag, "row_remapper_histogram_%s", levels[level]);
		with_unit(tag, result, spare[level], " bank(s)");
	}
	end("row_remapper_histogram");
	end("remapped_rows");
}

static void show_pages(Device device)
{
	unsigned pending = 0;
	int result;

	begin("retired_pages");
	for (unsigned cause = 0; cause < 2; cause++) {
		unsigned found = 0;
		u64 room[1];
		result = nvml("nvmlDeviceGetRetiredPages")(device, cause, &found, room);
		begin(cause ? "double_bit_retirement" : "multiple_single_bit_retirement");
		with_unit("retired_count", result == 7 ? SUCCESS : result, found, ""); /* 7: there are more than there is room for */
		end(cause ? "double_bit_retirement" : "multiple_single_bit_retirement");
	}
	result = nvml("nvmlDeviceGetRetiredPagesPendingStatus")(device, &pending);
	YES("pending_retirement", result, pending);
	end("retired_pages");
}

static void show_power_and_heat(Device device)
{
	struct { unsigned version; int value; } margin = {VERSION(margin, 1), 0};
	unsigned low = 0, high = 0;
	char whole[32];
	u64 limit;
	int result;

	begin("temperature");
	number_of("gpu_temp", device, "nvmlDeviceGetTemperature", 0, " C");
	if (field(device, 193, &limit) == SUCCESS) { /* newer cards count towards their limits */
		result = nvml("nvmlDeviceGetMarginTemperature")(device, &margin);
		snprintf(whole, sizeof whole, "%d C", margin.value);
		text("gpu_temp_tlimit", result == SUCCESS ? whole : "N/A");
		field_number("gpu_temp_max_tlimit_threshold", device, 193, " C");
		field_number("gpu_temp_slow_tlimit_threshold", device, 194, " C");
		field_number("gpu_temp_max_gpu_tlimit_threshold", device, 196, " C");
	} else {
		number_of("gpu_temp_max_threshold", device, "nvmlDeviceGetTemperatureThreshold", 0, " C");
		number_of("gpu_temp_slow_threshold", device, "nvmlDeviceGetTemperatureThreshold", 1, " C");
		number_of("gpu_temp_max_gpu_threshold", device, "nvmlDeviceGetTemperatureThreshold", 3, " C");
	}
	field_number("memory_temp", device, 82, " C");
	end("temperature");
	begin("gpu_power_readings");
	power("average_power_draw", device, "nvmlDeviceGetPowerUsage");
	power("instant_power_draw", device, "nvmlDeviceGetPowerUsage");
	power("current_power_limit", device, "nvmlDeviceGetEnforcedPowerLimit");
	power("requested_power_limit", device, "nvmlDeviceGetPowerManagementLimit");
	power("default_power_limit", device, "nvmlDeviceGetPowerManagementDefaultLimit");
	result = nvml("nvmlDeviceGetPowerManagementLimitConstraints")(device, &low, &high);
	watts("min_power_limit", result, low);
	watts("max_power_limit", result, high);
	end("gpu_power_readings");
}

static void show_clocks(Device device, const char *tag, const char *function)
{
	static const char *const names[] = {"graphics_clock", "sm_clock", "mem_clock", "video_clock"};

	begin(tag);
	for (unsigned type = 0; type < 4; type++)
		number_of(names[type], device, function, type, " MHz");
	end(tag);
}

static void show_supported_clocks(Device device)
{
	unsigned memory[32], graphics[512], memories = 32, found, index;

	if (nvml("nvmlDeviceGetSupportedMemoryClocks")(device, &memories, memory) != SUCCESS) {
		text("supported_clocks", "N/A");
		return;
	}
	begin("supported_clocks");
	for (unsigned one = 0; one < memories; one++) {
		begin("supported_mem_clock");
		with_unit("value", SUCCESS, memory[one], " MHz");
		found = 512;
		if (nvml("nvmlDeviceGetSupportedGraphicsClocks")(device, memory[one], &found, graphics) == SUCCESS)
			for (index = 0; index < found; index++)
				with_unit("supported_graphics_clock", SUCCESS, graphics[index], " MHz");
		end("supported_mem_clock");
	}
	end("supported_clocks");
}

static void show_processes(Device device)
{
	static const char *const functions[] = {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
	                                        "nvmlDeviceGetMPSComputeRunningProcesses_v3"};
	static const char *const kinds[] = {"C", "G", "M+C"};
	struct { unsigned pid; u64 memory; unsigned gi, ci; } list[64];
	char name[256];

	begin("processes");
	for (int kind = 0; kind < 3; kind++) {
		unsigned found = 64;
		if (nvml(functions[kind])(device, &found, list) != SUCCESS)
			continue;
		for (unsigned index = 0; index < found; index++) {
			int whole = list[index].gi == 0xFFFFFFFF;
			begin("process_info");
			with_unit("gpu_instance_id", whole ? NOT_FOUND : SUCCESS, list[index].gi, "");
			with_unit("compute_instance_id", whole ? NOT_FOUND : SUCCESS, list[index].ci, "");
			with_unit("pid", SUCCESS, list[index].pid, "");
			text("type", kinds[kind]);
			text("process_name",
			     nvml("nvmlSystemGetProcessName")(list[index].pid, name, (unsigned)sizeof name) == SUCCESS ? name : "N/A");
			with_unit("used_memory", list[index].memory == ~0ULL ? NOT_FOUND : SUCCESS, list[index].memory >> 20, " MiB");
			end("process_info");
		}
	}
	end("processes");
}

static void show_gpu(Device device)
{
	static const char *const architectures[] = {"", "", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace",
	                                            "Hopper", "Blackwell"};
	static const char *const brands[] = {"Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan", "", "", "", "", "", "Quadro RTX",
	                                     "NVIDIA RTX", "NVIDIA", "GeForce RTX"};
	struct { unsigned gpu, memory; } rates = {0, 0};
	struct { unsigned version, value; } addressing = {VERSION(addressing, 1), 0};
	unsigned value = 0, unused;
	int result;

	indent();
	printf("<gpu id=\"%s\">\n", address(device));
	depth++;
	string("product_name", device, "nvmlDeviceGetName");
	result = nvml("nvmlDeviceGetBrand")(device, &value);
	choice("product_brand", result, value, brands, sizeof brands / sizeof *brands);
	result = nvml("nvmlDeviceGetArchitecture")(device, &value);
	choice("product_architecture", result, value, architectures, sizeof architectures / sizeof *architectures);
	text("display_mode", "Requested functionality has been deprecated");
	result = nvml("nvmlDeviceGetDisplayActive")(device, &value);
	SWITCH("display_active", result, value);
	result = nvml("nvmlDeviceGetPersistenceMode")(device, &value);
	SWITCH("persistence_mode", result, value);
	result = nvml("nvmlDeviceGetAddressingMode")(device, &addressing);
	CHOICE("addressing_mode", result, addressing.value, "None", "HMM", "ATS");
	show_mig(device);
	result = nvml("nvmlDeviceGetAccountingMode")(device, &value);
	SWITCH("accounting_mode", result, value);
	number("accounting_mode_buffer_size", device, "nvmlDeviceGetAccountingBufferSize", "");
	show_identity(device);
	show_pci(device);
	number("fan_speed", device, "nvmlDeviceGetFanSpeed", " %");
	result = nvml("nvmlDeviceGetPerformanceState")(device, &value);
	CHOICE("performance_state", result, value, "P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12");
	show_events(device);
	show_memory(device);
	show_bar1(device);
	begin("utilization");
	result = nvml("nvmlDeviceGetUtilizationRates")(device, &rates);
	with_unit("gpu_util", result, rates.gpu, " %");
	with_unit("memory_util", result, rates.memory, " %");
	result = nvml("nvmlDeviceGetEncoderUtilization")(device, &value, &unused);
	with_unit("encoder_util", result, value, " %");
	result = nvml("nvmlDeviceGetDecoderUtilization")(device, &value, &unused);
	with_unit("decoder_util", result, value, " %");
	result = nvml("nvmlDeviceGetJpgUtilization")(device, &value, &unused);
	with_unit("jpeg_util", result, value, " %");
	result = nvml("nvmlDeviceGetOfaUtilization")(device, &value, &unused);
	with_unit("ofa_util", result, value, " %");
	end("utilization");
	show_ecc(device);
	show_pages(device);
	show_rows(device);
	show_power_and_heat(device);
	show_clocks(device, "clocks", "nvmlDeviceGetClockInfo");
	show_clocks(device, "max_clocks", "nvmlDeviceGetMaxClockInfo");
	show_supported_clocks(device);
	show_processes(device);
	end("gpu");
}

/* --- Commands --- */

static void show_log(const int *chosen)
{
	char driver[96] = "N/A", cuda[32];
	int version = 0;

	printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n");
	begin("nvidia_smi_log");
	nvml("nvmlSystemGetDriverVersion")(driver, (unsigned)sizeof driver);
	text("driver_version", driver);
	nvml("nvmlSystemGetCudaDriverVersion_v2")(&version);
	snprintf(cuda, sizeof cuda, "%d.%d", version / 1000, version % 1000 / 10);
	text("cuda_version", cuda);
	with_unit("attached_gpus", SUCCESS, count, "");
	for (unsigned index = 0; index < count; index++)
		if (chosen[index] && devices[index])
			show_gpu(devices[index]);
	end("nvidia_smi_log");
}

static int list_gpus(void)
{
	char name[192], uuid[96], whole[96];
	unsigned index, inner, most;
	Device mig;

	if (count == 0)
		printf("No devices found.\n");
	for (index = 0; index < count; index++) {
		if (!devices[index]) {
			printf("Unable to determine the device handle for GPU%u: %s\n", index, words(15));
			continue;
		}
		nvml("nvmlDeviceGetName")(devices[index], whole, (unsigned)sizeof whole);
		nvml("nvmlDeviceGetUUID")(devices[index], uuid, (unsigned)sizeof uuid);
		printf("GPU %u: %s (UUID: %s)\n", index, whole, uuid);
		most = 0;
		nvml("nvmlDeviceGetMaxMigDeviceCount")(devices[index], &most);
		for (inner = 0; inner < most; inner++) {
			if (nvml("nvmlDeviceGetMigDeviceHandleByIndex")(devices[index], inner, &mig) != SUCCESS)
				continue;
			nvml("nvmlDeviceGetName")(mig, name, (unsigned)sizeof name);
			nvml("nvmlDeviceGetUUID")(mig, uuid, (unsigned)sizeof uuid);
			printf("  %-15s Device %2u: (UUID: %s)\n", name + strlen(whole) + 1, inner, uuid);
		}
	}
	return count == 0 ? 6 : 0;
}

static int reset(const int *chosen)
{
	int failed = 0, denied = 0;
	unsigned minor = 0;

	for (unsigned index = 0; index < count; index++) {
		int result;
		if (!chosen[index] || !devices[index])
			continue;
		nvml("nvmlDeviceGetMinorNumber")(devices[index], &minor);
		result = nvml("rigwright_reset")(minor);
		denied |= result == NO_PERMISSION;
		failed |= result != SUCCESS;
		if (result == SUCCESS)
			printf("GPU %s was successfully reset.\n", address(devices[index]));
		else
			printf("The following GPUs could not be reset:\n  GPU %s: %s\n", address(devices[index]), words(result));
	}
	if (!failed)
		printf("All done.\n");
	return denied ? 4 : failed ? 3 : 0;
}

static int policy(const int *chosen, const char *timeslice)
{
	static const char *const slices[] = {"Default", "Short", "Medium", "Long"};
	unsigned value = 0;

	if (timeslice && (timeslice[0] < '0' || timeslice[0] > '3' || timeslice[1])) {
		printf("Invalid timeslice: %s. 0=DEFAULT, 1=SHORT, 2=MEDIUM, 3=LONG\n", timeslice);
		return 2;
	}
	if (!timeslice)
		printf("+-------------------------------------+\n| GPU compute policies:               |\n"
		       "| GPU     Name           Value        |\n|=====================================|\n");
	for (unsigned index = 0; index < count; index++) {
		int result;
		if (!chosen[index] || !devices[index])
			continue;
		if (timeslice) {
			result = nvml("rigwright_set_timeslice")(devices[index], timeslice[0] - '0');
			if (result != SUCCESS) {
				printf("Unable to set timeslice policy for GPU %s: %s\n", address(devices[index]), words(result));
				return result;
			}
			printf("Successfully set timeslice policy for GPU %s to %s\n", address(devices[index]), slices[timeslice[0] - '0']);
		} else {
			result = nvml("rigwright_get_timeslice")(devices[index], &value);
			printf("|  %2u   Timeslice       %-14s|\n", index, result == SUCCESS && value < 4 ? slices[value] : "N/A");
		}
	}
	if (!timeslice)
		printf("+-------------------------------------+\n");
	return 0;
}

/* The GPUs that `-i 0,GPU-...` names, or all. */
static int choose(char *wanted, int *chosen)
{
	char *one, uuid[96];
	Device device;

	for (unsigned index = 0; index < count; index++)
		chosen[index] = !wanted;
	for (one = wanted ? strtok(wanted, ",") : NULL; one; one = strtok(NULL, ",")) {
		unsigned index = 0, found = 0;
		int located = nvml("nvmlDeviceGetHandleByPciBusId_v2")(one, &device) == SUCCESS;
		for (; index < count; index++) {
			char digits[12];
			snprintf(digits, sizeof digits, "%u", index);
			uuid[0] = '\0';
			if (devices[index])
				nvml("nvmlDeviceGetUUID")(devices[index], uuid, (unsigned)sizeof uuid);
			if (strcmp(one, digits) == 0 || strcmp(one, uuid) == 0 || (located && devices[index] == device))
				found = chosen[index] = 1;
		}
		if (!found) {
			printf("No devices were found\n");
			return 6;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	enum { NOTHING, LIST, QUERY, RESET, POLICY } what = NOTHING;
	int chosen[DEVICES_MOST], xml = 0, listed = 0, result, argument;
	char *wanted = NULL, *timeslice = NULL;

	for (argument = 1; argument < argc; argument++) {
		char *one = argv[argument];
		if (strcmp(one, "-L") == 0 || strcmp(one, "--list-gpus") == 0)
			what = LIST;
		else if (strcmp(one, "-q") == 0 || strcmp(one, "--query") == 0)
			what = QUERY;
		else if (strcmp(one, "-x") == 0 || strcmp(one, "--xml-format") == 0)
			xml = 1;
		else if (strcmp(one, "-r") == 0 || strcmp(one, "--gpu-reset") == 0)
			what = RESET;
		else if (argument == 1 && strcmp(one, "compute-policy") == 0)
			what = POLICY;
		else if (what == POLICY && (strcmp(one, "-l") == 0 || strcmp(one, "--list") == 0))
			listed = 1;
		else if (what == POLICY && strncmp(one, "--set-timeslice=", 16) == 0)
			timeslice = one + 16;
		else if (what == POLICY && strcmp(one, "--set-timeslice") == 0 && argument + 1 < argc)
			timeslice = argv[++argument];
		else if (strncmp(one, "--id=", 5) == 0)
			wanted = one + 5;
		else if ((strcmp(one, "-i") == 0 || strcmp(one, "--id") == 0) && argument + 1 < argc)
			wanted = argv[++argument];
		else
			what = NOTHING, argument = argc;
	}
	if (what == NOTHING || (what == QUERY && !xml) || (what == POLICY && !listed && !timeslice)) {
		fprintf(stderr, "nvidia-smi (fake) knows: -L, -q -x, --gpu-reset, compute-policy -l, compute-policy --set-timeslice=N; -i\n");
		return 2;
	}
	library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library) {
		printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly"
		       " installed and present in your system.\n");
		return 12;
	}
	result = nvml("nvmlInit_v2")();
	if (result == 9)
		printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is"
		       " installed and running.\n\n");
	else if (result != SUCCESS)
		printf("Failed to initialize NVML: %s\n", words(result));
	if (result != SUCCESS)
		return result == 999 ? 255 : result;
	nvml("nvmlDeviceGetCount_v2")(&count);
	for (unsigned index = 0; index < count; index++)
		if (nvml("nvmlDeviceGetHandleByIndex_v2")(index, &devices[index]) != SUCCESS)
			devices[index] = NULL;
	result = choose(wanted, chosen);
	if (result != 0)
		return result;
	switch (what) {
	case QUERY:
		show_log(chosen);
		return 0;
	case RESET:
		return reset(chosen);
	case POLICY:
		return policy(chosen, timeslice);
	default:
		return list_gpus();
	}
}
