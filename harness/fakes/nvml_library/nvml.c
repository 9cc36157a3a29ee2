// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A fake of NVIDIA's management library, libnvidia-ml.so.1. Types, names and results are those of its API reference (nvml.h of
 * version 13). It exports no other function, so that a binding says FUNCTION_NOT_FOUND and never gets an invented answer.
 *
 * The answers of a GPU are in the state (state.c). The other files connect answers: links.c, use.c, modes.c with ranges and pending modes,
 * health.c, mig.c and compute.c with who is in the way. Every function first enters the call, which knows errors that tests inject, lost GPUs, permissions and the library's users.
 */
#include "api.h"

int number32(Device device, const char *key, unsigned *value)
{
	u64 wide;
	int result = number(device->gpu, &wide, "%s", key);

	if (!value)
		return INVALID_ARGUMENT;
	if (result == SUCCESS)
		*value = (unsigned)wide;
	return result;
}

/* --- The library --- */

int nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	ENTER(NULL, BEFORE_INIT);
	users_of_library(1);
	return SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void)
{
	ENTER(NULL, 0);
	users_of_library(-1);
	return SUCCESS;
}

const char *nvmlErrorString(int result)
{
	static const char *const words[] = {
		"Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized", "Not Found",
		"Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
		"NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
		"GPU access blocked by the operating system", "Driver/library version mismatch", "In use by another client",
		"Insufficient Memory", "No data", "The requested vgpu operation is not available on target device, becasue ECC is enabled",
		"Insufficient Resources", "Frequency is not supported", "Argument version mismatch", "Deprecated", "Not Ready", "GPU not found",
		"Invalid State", "Reset Type Not Supported",
	};
	return result >= 0 && result < (int)(sizeof words / sizeof *words) ? words[result] : "Unknown Error";
}

static int system_text(char *target, unsigned size, const char *key)
{
	const char *value = fact(key);

	return value ? give_text(target, size, value) : NOT_SUPPORTED;
}
/* NVML itself answers these, with or without a driver that fits. */
int nvmlSystemGetDriverVersion(char *value, unsigned size) { ENTER(NULL, 0); return system_text(value, size, "driver.module"); }
int nvmlSystemGetNVMLVersion(char *value, unsigned size) { ENTER(NULL, 0); return system_text(value, size, "driver.nvml"); }

int nvmlSystemGetCudaDriverVersion(int *version)
{
	const char *value;
	ENTER(NULL, 0);
	value = fact("driver.cuda");
	if (!version || !value)
		return version ? NOT_SUPPORTED : INVALID_ARGUMENT;
	*version = (int)parse(&value);
	return SUCCESS;
}
ALIAS(nvmlSystemGetCudaDriverVersion_v2, nvmlSystemGetCudaDriverVersion);

typedef struct { unsigned version; char branch[80]; } Branch;
int nvmlSystemGetDriverBranch(Branch *info, unsigned size)
{
	ENTER(NULL, 0);
	CHECK_VERSION(info, VERSION(Branch, 1));
	return system_text(info->branch, size < sizeof info->branch ? size : sizeof info->branch, "driver.branch");
}

int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size)
{
	int numbers[VISIBLE_MOST], index, position;
	const char *rest, *value;
	ENTER(NULL, 0);
	for (index = visible_gpus(numbers); index > 0; index--)
		for (position = 0; next_fact(numbers[index - 1], "process.", &position, &rest, &value);)
			if (parse(&rest) == pid) {
				for (int field = 0; field < 4 && (value = strchr(value, ' ')); field++)
					value++;
				return value ? give_text(name, size, value) : NOT_FOUND;
			}
	return NOT_FOUND;
}

/* --- Which GPU --- */

int nvmlDeviceGetCount_v2(unsigned *value)
{
	int numbers[VISIBLE_MOST];
	ENTER(NULL, 0);
	return value ? (*value = (unsigned)visible_gpus(numbers), SUCCESS) : INVALID_ARGUMENT;
}
ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

static int give_gpu(int gpu, Device *device)
{
	if (gpu_fact(gpu, "lost"))
		return GPU_IS_LOST;
	*device = handle_of(GPU, gpu, NO_INSTANCE, NO_INSTANCE);
	return *device ? SUCCESS : UNKNOWN;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device)
{
	int numbers[VISIBLE_MOST];
	ENTER(NULL, 0);
	return device && index < (unsigned)visible_gpus(numbers) ? give_gpu(numbers[index], device) : INVALID_ARGUMENT;
}
ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

/* The GPU of which a fact has this text. */
static int find_gpu(const char *key, const char *wanted, Device *device)
{
	int numbers[VISIBLE_MOST], index, seen = visible_gpus(numbers);

	for (index = 0; index < seen; index++) {
		const char *value = gpu_fact(numbers[index], "%s", key);
		if (value && strcmp(value, wanted) == 0)
			return give_gpu(numbers[index], device);
	}
	return NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device)
{
	int numbers[VISIBLE_MOST], index, position;
	const char *rest, *value;
	ENTER(NULL, 0);
	if (!uuid || !device)
		return INVALID_ARGUMENT;
	if (strncmp(uuid, "MIG-", 4) != 0)
		return find_gpu("uuid", uuid, device);
	for (index = visible_gpus(numbers); index > 0; index--)
		for (position = 0; next_fact(numbers[index - 1], "ci.", &position, &rest, &value);)
			if (strcmp(strstr(value, "MIG-") ?: "", uuid) == 0) {
				unsigned gi = (unsigned)parse(&rest);
				*device = handle_of(MIG_DEVICE, numbers[index - 1], gi, (unsigned)parse(&rest));
				return SUCCESS;
			}
	return NOT_FOUND;
}

int nvmlDeviceGetHandleBySerial(const char *serial, Device *device)
{
	ENTER(NULL, 0);
	return serial && device ? find_gpu("serial", serial, device) : INVALID_ARGUMENT;
}

/* `[domain:]bus:device[.function]`, hexadecimal, in any case and with any number of leading zeros. */
u64 address(const char *written)
{
	unsigned part[4] = {0, 0, 0, 0};

	if (sscanf(written, "%x:%x:%x.%x", &part[0], &part[1], &part[2], &part[3]) < 3) {
		part[0] = 0;
		if (sscanf(written, "%x:%x.%x", &part[1], &part[2], &part[3]) < 2)
			return ~0ULL;
	}
	return (u64)part[0] << 32 | part[1] << 16 | part[2] << 8 | part[3];
}

int gpu_at(const char *wanted)
{
	int numbers[VISIBLE_MOST], index;

	for (index = visible_gpus(numbers); index > 0; index--) {
		const char *own = gpu_fact(numbers[index - 1], "pci.address");
		if (own && address(wanted) != ~0ULL && address(own) == address(wanted))
			return numbers[index - 1];
	}
	return -1;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, Device *device)
{
	int gpu;
	ENTER(NULL, 0);
	if (!wanted || !device || address(wanted) == ~0ULL)
		return INVALID_ARGUMENT;
	gpu = gpu_at(wanted);
	return gpu < 0 ? NOT_FOUND : give_gpu(gpu, device);
}
ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

int nvmlDeviceGetIndex(Device device, unsigned *value)
{
	int numbers[VISIBLE_MOST], index, seen;
	ENTER(device, GPU);
	for (index = 0, seen = visible_gpus(numbers); index < seen; index++)
		if (numbers[index] == device->gpu)
			return value ? (*value = (unsigned)index, SUCCESS) : INVALID_ARGUMENT;
	return NOT_FOUND;
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned size)
{
	const char *own;
	ENTER(device, ANY_DEVICE);
	if (device->kind == GPU)
		return text(device->gpu, uuid, size, "uuid");
	own = strstr(gpu_fact(device->gpu, "ci.%u.%u", device->gi, device->ci), "MIG-");
	return own ? give_text(uuid, size, own) : NOT_FOUND;
}

typedef struct { unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class; char bus_id[32]; } PciExt;

int nvmlDeviceGetPciInfo_v3(Device device, Pci *pci)
{
	const char *own;
	u64 at;
	ENTER(device, GPU);
	own = gpu_fact(device->gpu, "pci.address");
	if (!pci || !own)
		return pci ? NOT_SUPPORTED : INVALID_ARGUMENT;
	at = address(own);
	memset(pci, 0, sizeof *pci);
	pci->domain = (unsigned)(at >> 32);
	pci->bus = at >> 16 & 0xFF;
	pci->device = at >> 8 & 0xFF;
	pci->device_id = (unsigned)number_or(device->gpu, 0, "pci.device_id");
	pci->subsystem_id = (unsigned)number_or(device->gpu, 0, "pci.subsystem_id");
	snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "%04X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
	snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
	return SUCCESS;
}
ALIAS(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3);

int nvmlDeviceGetPciInfoExt(Device device, PciExt *ext)
{
	Pci pci;
	int result;

	CHECK_VERSION(ext, VERSION(PciExt, 1));
	result = nvmlDeviceGetPciInfo_v3(device, &pci);
	if (result != SUCCESS)
		return result;
	*ext = (PciExt){ext->version, pci.domain, pci.bus, pci.device, pci.device_id, pci.subsystem_id, 3, 2, ""};
	memcpy(ext->bus_id, pci.bus_id, sizeof ext->bus_id);
	return SUCCESS;
}

int nvmlDeviceGetName(Device device, char *name, unsigned size)
{
	char whole[192];
	ENTER(device, ANY_DEVICE);
	if (device->kind == GPU)
		return text(device->gpu, name, size, "name");
	snprintf(whole, sizeof whole, "%s %s", gpu_fact(device->gpu, "name"),
	         gpu_fact(device->gpu, "ci_name.%u.%u", device->gi, device->ci) ?: "MIG");
	return give_text(name, size, whole);
}

TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "board.part_number")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom.image")
NUMBER(nvmlDeviceGetInforomConfigurationChecksum, "inforom.checksum")
NUMBER64(nvmlDeviceGetSupportedEventTypes, "event_types")
NUMBER(nvmlDeviceGetBrand, "brand")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetBoardId, "board.id")
NUMBER(nvmlDeviceGetMultiGpuBoard, "board.multi_gpu")
NUMBER(nvmlDeviceGetModuleId, "module_id")
NUMBER(nvmlDeviceGetNumaNodeId, "numa_node")
NUMBER(nvmlDeviceGetIrqNum, "irq")
NUMBER(nvmlDeviceGetNumGpuCores, "cores")
NUMBER(nvmlDeviceGetPowerSource, "power.source")
NUMBER(nvmlDeviceGetBusType, "pci.bus_type")
NUMBER(nvmlDeviceGetMemoryBusWidth, "memory.bus_width")
NUMBER(nvmlDeviceGetAdaptiveClockInfoStatus, "clock.adaptive")
NUMBER(nvmlDeviceGetDisplayMode, "display.mode")
NUMBER(nvmlDeviceGetDisplayActive, "display.active")
NUMBER(nvmlDeviceGetVirtualizationMode, "virtualization")
PAIR(nvmlDeviceGetGspFirmwareMode, "gsp.enabled", "gsp.default")
PAIR(nvmlDeviceGetCudaComputeCapability, "capability.major", "capability.minor")

typedef struct { unsigned version; u64 value; } Pdi;
int nvmlDeviceGetPdi(Device device, Pdi *info)
{
	ENTER(device, GPU);
	CHECK_VERSION(info, VERSION(Pdi, 1));
	return number(device->gpu, &info->value, "pdi");
}

int nvmlDeviceGetInforomVersion(Device device, unsigned object, char *version, unsigned size)
{
	ENTER(device, GPU);
	return object < 4 ? text(device->gpu, version, size, "inforom.%u", object) : INVALID_ARGUMENT;
}

int nvmlDeviceGetGspFirmwareVersion(Device device, char *version)
{
	ENTER(device, GPU);
	return text(device->gpu, version, 64, "gsp.version");
}

