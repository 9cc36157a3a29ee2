// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * An imitation of NVIDIA's management library, libnvidia-ml.so.1. Types, names and results are those of its API reference (nvml.h of
 * version 13). What is not imitated is not exported, so that a binding says FUNCTION_NOT_FOUND instead of hearing an invented answer.
 *
 * What a GPU answers stands in the state (state.c). Here is what connects answers: ranges, pending modes, who is in the way. MIG is in
 * mig.c. Every function first enters the call, which knows errors that tests inject, lost GPUs, permissions and the library's users.
 */
#include "state.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef Handle *Device;

/* A versioned structure begins with its size and version, as NVML's macro NVML_STRUCT_VERSION makes it. */
#define VERSION(type, version) ((unsigned)sizeof(type) | (unsigned)(version) << 24)
#define CHECK_VERSION(pointer, wanted) \
	if (!(pointer)) \
		return INVALID_ARGUMENT; \
	if ((pointer)->version != (wanted)) \
	return ARGUMENT_VERSION_MISMATCH
#define ALIAS(alias_name, name) __typeof__(name) alias_name __attribute__((alias(#name)))

static int number32(Device device, const char *key, unsigned *value)
{
	u64 wide;
	int result = number(device->gpu, &wide, "%s", key);

	if (!value)
		return INVALID_ARGUMENT;
	if (result == SUCCESS)
		*value = (unsigned)wide;
	return result;
}

/* A function that answers with one number of the GPU, or with its text. */
#define NUMBER(function, key) \
	int function(Device device, unsigned *value) { ENTER(device, GPU); return number32(device, key, value); }
#define NUMBER64(function, key) \
	int function(Device device, u64 *value) { ENTER(device, GPU); return value ? number(device->gpu, value, key) : INVALID_ARGUMENT; }
#define PAIR(function, first_key, second_key) \
	int function(Device device, unsigned *first, unsigned *second) \
	{ ENTER(device, GPU); return number32(device, first_key, first) ?: number32(device, second_key, second); }
#define TEXT(function, key) \
	int function(Device device, char *value, unsigned size) { ENTER(device, GPU); return text(device->gpu, value, size, key); }
/* A function that answers with one number for each `which`. */
#define NUMBER_OF(function, key) \
	int function(Device device, unsigned which, unsigned *value) \
	{ char name[64]; ENTER(device, GPU); snprintf(name, sizeof name, key, which); return number32(device, name, value); }
/* A function that takes a number, which has to be one of these. */
#define SETTER(function, key, allowed) \
	int function(Device device, unsigned value) { ENTER(device, GPU | WRITES); return set_mode(device->gpu, key, allowed, value); }

static int set_mode(int gpu, const char *key, const char *allowed, u64 value)
{
	u64 old;
	int result = number(gpu, &old, "%s", key);

	if (result != SUCCESS)
		return result;
	while (*allowed)
		if (parse(&allowed) == value)
			return set_gpu_number(gpu, value, "%s", key), SUCCESS;
	return INVALID_ARGUMENT;
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
static u64 address(const char *written)
{
	unsigned part[4] = {0, 0, 0, 0};

	if (sscanf(written, "%x:%x:%x.%x", &part[0], &part[1], &part[2], &part[3]) < 3) {
		part[0] = 0;
		if (sscanf(written, "%x:%x.%x", &part[1], &part[2], &part[3]) < 2)
			return ~0ULL;
	}
	return (u64)part[0] << 32 | part[1] << 16 | part[2] << 8 | part[3];
}

static int gpu_at(const char *wanted)
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

typedef struct {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
} Pci;
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

/* --- Where it is --- */

static int affinity(Device device, const char *key, unsigned size, unsigned long *set)
{
	const char *value = gpu_fact(device->gpu, "%s", key);

	if (!value || !set || size == 0)
		return value ? INVALID_ARGUMENT : NOT_SUPPORTED;
	for (unsigned index = 0; index < size; index++)
		set[index] = parse(&value);
	return SUCCESS;
}

int nvmlDeviceGetCpuAffinity(Device device, unsigned size, unsigned long *set)
{
	ENTER(device, GPU);
	return affinity(device, "affinity.cpu", size, set);
}

int nvmlDeviceGetCpuAffinityWithinScope(Device device, unsigned size, unsigned long *set, unsigned scope)
{
	ENTER(device, GPU);
	return scope < 2 ? affinity(device, "affinity.cpu", size, set) : INVALID_ARGUMENT;
}

int nvmlDeviceGetMemoryAffinity(Device device, unsigned size, unsigned long *set, unsigned scope)
{
	ENTER(device, GPU);
	return scope < 2 ? affinity(device, "affinity.memory", size, set) : INVALID_ARGUMENT;
}

int nvmlDeviceGetTopologyCommonAncestor(Device device, Device other, unsigned *level)
{
	ENTER(device, GPU);
	if (!other || other->kind != GPU || !level)
		return INVALID_ARGUMENT;
	*level = (unsigned)number_or(device->gpu, device->gpu == other->gpu ? 0 : 40, "topology.%d", other->gpu);
	return SUCCESS;
}

int nvmlDeviceGetP2PStatus(Device device, Device other, unsigned capability, unsigned *status)
{
	u64 value;
	int result;
	ENTER(device, GPU);
	if (!other || other->kind != GPU || !status || capability > 4)
		return INVALID_ARGUMENT;
	result = number(device->gpu, &value, "p2p.%u", capability);
	if (result == SUCCESS)
		*status = (unsigned)number_or(device->gpu, value, "p2p.%u.%d", capability, other->gpu);
	return result;
}

int nvmlDeviceOnSameBoard(Device device, Device other, int *same)
{
	ENTER(device, GPU);
	if (!other || other->kind != GPU || !same)
		return INVALID_ARGUMENT;
	*same = device->gpu == other->gpu;
	return SUCCESS;
}

/* --- Links --- */

NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.max_generation")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.gpu_max_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.max_width")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, "pcie.max_speed")
NUMBER(nvmlDeviceGetPcieSpeed, "pcie.speed")
NUMBER_OF(nvmlDeviceGetPcieThroughput, "pcie.throughput.%u")

/* A fact of one link, or what all links of the GPU have. */
static int link_number(Device device, unsigned link, const char *key, unsigned *value)
{
	u64 links, wide = 0;
	int result = number(device->gpu, &links, "nvlink.links");

	if (result != SUCCESS)
		return result;
	if (link >= links || !value)
		return INVALID_ARGUMENT;
	if (!gpu_fact(device->gpu, "nvlink.%u.%s", link, key))
		result = number(device->gpu, &wide, "nvlink.%s", key);
	else
		result = number(device->gpu, &wide, "nvlink.%u.%s", link, key);
	*value = (unsigned)wide;
	return result;
}
#define LINK(function, key) \
	int function(Device device, unsigned link, unsigned *value) { ENTER(device, GPU); return link_number(device, link, key, value); }
LINK(nvmlDeviceGetNvLinkState, "active")
LINK(nvmlDeviceGetNvLinkVersion, "version")
LINK(nvmlDeviceGetNvLinkRemoteDeviceType, "remote.type")

int nvmlDeviceGetNvLinkCapability(Device device, unsigned link, unsigned capability, unsigned *value)
{
	char key[32];
	ENTER(device, GPU);
	snprintf(key, sizeof key, "capability.%u", capability);
	return capability < 6 ? link_number(device, link, key, value) : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, unsigned counter, u64 *value)
{
	char key[32];
	unsigned narrow = 0;
	int result;
	ENTER(device, GPU);
	snprintf(key, sizeof key, "error.%u", counter);
	result = counter < 5 && value ? link_number(device, link, key, &narrow) : INVALID_ARGUMENT;
	if (result == SUCCESS)
		*value = narrow;
	return result;
}

int nvmlDeviceResetNvLinkErrorCounters(Device device, unsigned link)
{
	unsigned unused;
	int result;
	ENTER(device, GPU | WRITES);
	result = link_number(device, link, "error.0", &unused);
	for (unsigned counter = 0; result == SUCCESS && counter < 5; counter++)
		set_gpu_fact(device->gpu, NULL, "nvlink.%u.error.%u", link, counter);
	return result;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, Pci *pci)
{
	unsigned unused;
	const char *remote;
	int result;
	ENTER(device, GPU);
	result = link_number(device, link, "remote.type", &unused);
	if (result != SUCCESS || !pci)
		return result ?: INVALID_ARGUMENT;
	remote = gpu_fact(device->gpu, "nvlink.%u.remote.address", link) ?: gpu_fact(device->gpu, "nvlink.remote.address");
	if (!remote)
		return NOT_SUPPORTED;
	memset(pci, 0, sizeof *pci);
	pci->domain = (unsigned)(address(remote) >> 32);
	pci->bus = address(remote) >> 16 & 0xFF;
	pci->device = address(remote) >> 8 & 0xFF;
	snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
	memcpy(pci->bus_id_legacy, pci->bus_id + 4, 13);
	return SUCCESS;
}

typedef struct { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; } Fabric;
typedef struct { unsigned version; unsigned char cluster[16]; int status; unsigned clique; unsigned char state; unsigned health; } Fabric2;
typedef struct {
	unsigned version;
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned health;
	unsigned char summary;
} Fabric3;

int nvmlDeviceGetGpuFabricInfo(Device device, Fabric *info)
{
	unsigned state = 0;
	int result;
	ENTER(device, GPU);
	result = number32(device, "fabric.state", &state);
	if (result == SUCCESS && info) {
		memset(info, 0, sizeof *info);
		info->state = (unsigned char)state;
		info->status = (int)number_or(device->gpu, 0, "fabric.status");
		info->clique = (unsigned)number_or(device->gpu, 0, "fabric.clique");
	}
	return info ? result : INVALID_ARGUMENT;
}

int nvmlDeviceGetGpuFabricInfoV(Device device, Fabric3 *info)
{
	unsigned state = 0;
	int result;
	ENTER(device, GPU);
	if (!info)
		return INVALID_ARGUMENT;
	if (info->version != VERSION(Fabric2, 2) && info->version != VERSION(Fabric3, 3))
		return ARGUMENT_VERSION_MISMATCH;
	result = number32(device, "fabric.state", &state);
	if (result != SUCCESS)
		return result;
	memset(info->cluster, 0, sizeof info->cluster);
	info->state = (unsigned char)state;
	info->status = (int)number_or(device->gpu, 0, "fabric.status");
	info->clique = (unsigned)number_or(device->gpu, 0, "fabric.clique");
	info->health = (unsigned)number_or(device->gpu, 0, "fabric.health");
	if (info->version == VERSION(Fabric3, 3))
		info->summary = (unsigned char)number_or(device->gpu, 0, "fabric.summary");
	return SUCCESS;
}

/* --- Memory and processes --- */

static u64 used_memory(int gpu, const Handle *mig)
{
	const char *rest, *value;
	u64 used = mig ? 0 : number_or(gpu, 0, "memory.idle");
	int position = 0;

	while (next_fact(gpu, "process.", &position, &rest, &value)) {
		u64 memory, gi, ci;
		value = strchr(value, ' ') + 1; /* <kind> <bytes> <gpu instance> <compute instance> <name> */
		memory = parse(&value);
		gi = parse(&value);
		ci = parse(&value);
		if (memory != ~0ULL && (!mig || (gi == mig->gi && ci == mig->ci)))
			used += memory;
	}
	return used;
}

typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } Memory2;

static int memory(Device device, Memory2 *info)
{
	const Handle *mig = device->kind == MIG_DEVICE ? device : NULL;
	int result = SUCCESS;

	if (mig)
		info->total = number_or(device->gpu, 0, "gi_memory.%u", device->gi) << 20;
	else
		result = number(device->gpu, &info->total, "memory.total");
	info->reserved = mig ? 0 : number_or(device->gpu, 0, "memory.reserved");
	info->used = used_memory(device->gpu, mig);
	info->free = info->total - info->reserved - info->used;
	return result;
}

/* The first version counts what the driver reserves as used, the second names it apart. */
int nvmlDeviceGetMemoryInfo(Device device, Memory *info)
{
	Memory2 second;
	int result;
	ENTER(device, ANY_DEVICE);
	result = info ? memory(device, &second) : INVALID_ARGUMENT;
	if (result == SUCCESS)
		*info = (Memory){second.total, second.free, second.used + second.reserved};
	return result;
}

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2 *info)
{
	ENTER(device, ANY_DEVICE);
	CHECK_VERSION(info, VERSION(Memory2, 2));
	return memory(device, info);
}

int nvmlDeviceGetBAR1MemoryInfo(Device device, Memory *info)
{
	int result;
	ENTER(device, GPU);
	result = info ? number(device->gpu, &info->total, "bar1.total") : INVALID_ARGUMENT;
	if (result == SUCCESS) {
		info->used = number_or(device->gpu, 0, "bar1.used");
		info->free = info->total - info->used;
	}
	return result;
}

typedef struct { unsigned pid; u64 memory; unsigned gi, ci; } Process;
typedef struct { unsigned pid; u64 memory; } Process1;

static int processes(Device device, const char *kind, unsigned *count, void *list, size_t size)
{
	const char *rest, *value;
	unsigned room, found = 0;
	int position = 0;

	if (!count || (*count && !list))
		return INVALID_ARGUMENT;
	room = *count;
	while (next_fact(device->gpu, "process.", &position, &rest, &value)) {
		Process one;
		size_t length = strlen(kind);
		int is_kind = strncmp(value, kind, length) == 0 && value[length] == ' ';

		value = strchr(value, ' ') + 1;
		one.pid = (unsigned)parse(&rest);
		one.memory = parse(&value);
		one.gi = (unsigned)parse(&value);
		one.ci = (unsigned)parse(&value);
		if (!is_kind || (device->kind == MIG_DEVICE && (one.gi != device->gi || one.ci != device->ci)))
			continue;
		if (found < room && size == sizeof one)
			((Process *)list)[found] = one;
		else if (found < room)
			((Process1 *)list)[found] = (Process1){one.pid, one.memory};
		found++;
	}
	*count = found;
	return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
#define PROCESSES(function, kind, type) \
	int function(Device device, unsigned *count, type *list) \
	{ ENTER(device, ANY_DEVICE); return processes(device, kind, count, list, sizeof *list); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute", Process)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute", Process)
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", Process1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", Process)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics", Process)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", Process1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", Process)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps", Process)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, "mps", Process1)

/* Limits by control group: `limit.<path>=<soft> <hard>`. From driver 615 on; before, the library has no such function. */
typedef struct { const char *group; u64 soft, hard; } Limits;
typedef struct { const char *group; u64 soft, hard, used; } LimitsTold;

static int knows_limits(void)
{
	const char *version = fact("driver.module");

	return version && parse(&version) >= 615;
}

int nvmlDeviceSetMemoryLimits_v1(Device device, const Limits *limits)
{
	char value[64];
	ENTER(device, GPU | WRITES);
	if (!knows_limits())
		return FUNCTION_NOT_FOUND;
	if (!limits || !limits->group || strchr(limits->group, '=') || limits->soft > limits->hard)
		return INVALID_ARGUMENT;
	snprintf(value, sizeof value, "%llu %llu", limits->soft, limits->hard);
	set_gpu_fact(device->gpu, value, "limit.%s", limits->group);
	return SUCCESS;
}

int nvmlDeviceGetMemoryLimits_v1(Device device, LimitsTold *limits)
{
	const char *value;
	ENTER(device, GPU);
	if (!knows_limits())
		return FUNCTION_NOT_FOUND;
	if (!limits || !limits->group)
		return INVALID_ARGUMENT;
	value = gpu_fact(device->gpu, "limit.%s", limits->group);
	limits->soft = value ? parse(&value) : ~0ULL; /* NVML_DEVICE_MEMORY_LIMIT_MAX */
	limits->hard = value ? parse(&value) : ~0ULL;
	limits->used = 0;
	return SUCCESS;
}

typedef struct { unsigned gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(Device device, Utilization *rates)
{
	ENTER(device, GPU);
	if (number_or(device->gpu, 0, "mig.mode")) /* a divided GPU has none */
		return NOT_SUPPORTED;
	return rates ? number32(device, "utilization.gpu", &rates->gpu) ?: number32(device, "utilization.memory", &rates->memory) : INVALID_ARGUMENT;
}
PAIR(nvmlDeviceGetEncoderUtilization, "utilization.encoder", "utilization.period")
PAIR(nvmlDeviceGetDecoderUtilization, "utilization.decoder", "utilization.period")
PAIR(nvmlDeviceGetJpgUtilization, "utilization.jpeg", "utilization.period")
PAIR(nvmlDeviceGetOfaUtilization, "utilization.ofa", "utilization.period")

/* --- Modes --- */

NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
SETTER(nvmlDeviceSetPersistenceMode, "persistence", "0 1")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
PAIR(nvmlDeviceGetEccMode, "ecc.current", "ecc.pending")
NUMBER(nvmlDeviceGetDefaultEccMode, "ecc.default")
SETTER(nvmlDeviceSetEccMode, "ecc.pending", "0 1")
NUMBER(nvmlDeviceGetAccountingMode, "accounting.mode")
NUMBER(nvmlDeviceGetAccountingBufferSize, "accounting.buffer")
SETTER(nvmlDeviceSetAccountingMode, "accounting.mode", "0 1")
PAIR(nvmlDeviceGetGpuOperationMode, "operation_mode.current", "operation_mode.pending")
NUMBER_OF(nvmlDeviceGetAPIRestriction, "restriction.%u")

int nvmlDeviceSetComputeMode(Device device, unsigned mode)
{
	ENTER(device, GPU | WRITES);
	if (mode != 0 && number_or(device->gpu, 0, "mig.mode")) /* exclusive modes do not go with MIG */
		return NOT_SUPPORTED;
	return set_mode(device->gpu, "compute_mode", "0 2 3", mode);
}

/* The time slice, which nvidia-smi sets without NVML. */
NUMBER(rigwright_get_timeslice, "timeslice")
SETTER(rigwright_set_timeslice, "timeslice", "0 1 2 3")

/* Drained GPUs take no new clients. NVML names them by their address, since a handle would be a client. */
static int drain(const Pci *pci, unsigned *answer, int *gpu)
{
	*gpu = pci ? gpu_at(pci->bus_id[0] ? pci->bus_id : pci->bus_id_legacy) : -1;
	if (*gpu < 0)
		return pci ? NOT_FOUND : INVALID_ARGUMENT;
	*answer = (unsigned)number_or(*gpu, 0, "drain");
	return SUCCESS;
}

int nvmlDeviceQueryDrainState(const Pci *pci, unsigned *state)
{
	int gpu;
	ENTER(NULL, 0);
	return state ? drain(pci, state, &gpu) : INVALID_ARGUMENT;
}

int nvmlDeviceModifyDrainState(const Pci *pci, unsigned state)
{
	unsigned old;
	int gpu, result;
	ENTER(NULL, WRITES);
	result = state < 2 ? drain(pci, &old, &gpu) : INVALID_ARGUMENT;
	if (result == SUCCESS && number_or(gpu, 0, "persistence") && state)
		result = IN_USE; /* the persistence mode is itself a client */
	if (result == SUCCESS)
		set_gpu_number(gpu, state, "drain");
	return result;
}

/* --- Power, clocks, heat --- */

NUMBER(nvmlDeviceGetPowerManagementMode, "power.managed")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power.limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power.default")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "power.min", "power.max")
NUMBER(nvmlDeviceGetPowerUsage, "power.usage")
NUMBER64(nvmlDeviceGetTotalEnergyConsumption, "power.energy")
NUMBER(nvmlDeviceGetPerformanceState, "pstate")
ALIAS(nvmlDeviceGetPowerState, nvmlDeviceGetPerformanceState);
NUMBER64(nvmlDeviceGetCurrentClocksEventReasons, "events.current")
NUMBER64(nvmlDeviceGetSupportedClocksEventReasons, "events.supported")
ALIAS(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetCurrentClocksEventReasons);
ALIAS(nvmlDeviceGetSupportedClocksThrottleReasons, nvmlDeviceGetSupportedClocksEventReasons);
NUMBER_OF(nvmlDeviceGetMaxClockInfo, "clock.%u.max")
NUMBER_OF(nvmlDeviceGetApplicationsClock, "clock.%u.application")
NUMBER_OF(nvmlDeviceGetDefaultApplicationsClock, "clock.%u.default")
NUMBER_OF(nvmlDeviceGetMaxCustomerBoostClock, "clock.%u.customer_boost")
NUMBER_OF(nvmlDeviceGetTemperatureThreshold, "temperature.threshold.%u")
NUMBER(nvmlDeviceGetNumFans, "fan.count")
NUMBER(nvmlDeviceGetFanSpeed, "fan.0.speed")
NUMBER_OF(nvmlDeviceGetFanSpeed_v2, "fan.%u.speed")
NUMBER_OF(nvmlDeviceGetTargetFanSpeed, "fan.%u.target")
NUMBER_OF(nvmlDeviceGetFanControlPolicy_v2, "fan.%u.policy")
PAIR(nvmlDeviceGetMinMaxFanSpeed, "fan.min", "fan.max")

/* What limits now is the least of the limit that was set and what others have set (a software cap, the board). */
int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned *limit)
{
	unsigned cap;
	int result;
	ENTER(device, GPU);
	result = number32(device, "power.limit", limit);
	if (result == SUCCESS && number32(device, "power.cap", &cap) == SUCCESS && cap < *limit)
		*limit = cap;
	return result;
}

int nvmlDeviceSetPowerManagementLimit(Device device, unsigned limit)
{
	u64 least, most;
	int result;
	ENTER(device, GPU | WRITES);
	result = number(device->gpu, &least, "power.min") ?: number(device->gpu, &most, "power.max");
	if (result == SUCCESS && (limit < least || limit > most))
		return INVALID_ARGUMENT;
	if (result == SUCCESS)
		set_gpu_number(device->gpu, limit, "power.limit");
	return result;
}

typedef struct { unsigned version, scope, limit; } PowerValue;
int nvmlDeviceSetPowerManagementLimit_v2(Device device, PowerValue *value)
{
	CHECK_VERSION(value, VERSION(PowerValue, 2));
	return value->scope == 0 ? nvmlDeviceSetPowerManagementLimit(device, value->limit) : NOT_SUPPORTED;
}

/* The clock of this moment, within what it is locked to: graphics and SM by one lock, memory by the other. NVML cannot be asked for locks. */
static int current_clock(Device device, unsigned type, unsigned *clock)
{
	const char *lock = gpu_fact(device->gpu, type == 2 ? "lock.memory" : "lock.graphics");
	u64 value;
	int result = number(device->gpu, &value, "clock.%u.current", type);

	if (result != SUCCESS || !clock)
		return result ?: INVALID_ARGUMENT;
	if (lock && type != 3) {
		u64 least = parse(&lock), most = parse(&lock);
		value = value < least ? least : value > most ? most : value;
	}
	*clock = (unsigned)value;
	return SUCCESS;
}

int nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned *clock)
{
	ENTER(device, GPU);
	return type < 4 ? current_clock(device, type, clock) : INVALID_ARGUMENT;
}

int nvmlDeviceGetClock(Device device, unsigned type, unsigned which, unsigned *clock)
{
	static const char *const keys[] = {"current", "application", "default", "customer_boost"};
	char key[48];
	ENTER(device, GPU);
	if (type > 3 || which > 3)
		return INVALID_ARGUMENT;
	snprintf(key, sizeof key, "clock.%u.%s", type, keys[which]);
	return which == 0 ? current_clock(device, type, clock) : number32(device, key, clock);
}

static int clocks(Device device, const char *key, unsigned *count, unsigned *list)
{
	const char *value = gpu_fact(device->gpu, "%s", key);
	unsigned room, found = 0;

	if (!value || !count)
		return count ? NOT_SUPPORTED : INVALID_ARGUMENT;
	room = list ? *count : 0;
	while (*value) {
		unsigned clock = (unsigned)parse(&value);
		if (found < room)
			list[found] = clock;
		found++;
	}
	*count = found;
	return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetSupportedMemoryClocks(Device device, unsigned *count, unsigned *list)
{
	ENTER(device, GPU);
	return clocks(device, "clocks.memory", count, list);
}

int nvmlDeviceGetSupportedGraphicsClocks(Device device, unsigned memory_clock, unsigned *count, unsigned *list)
{
	char key[48];
	ENTER(device, GPU);
	if (!gpu_fact(device->gpu, "clocks.memory"))
		return NOT_SUPPORTED;
	snprintf(key, sizeof key, "clocks.graphics.%u", memory_clock);
	return gpu_fact(device->gpu, "%s", key) ? clocks(device, key, count, list) : NOT_FOUND;
}

/* Cards before Volta have no lockable clocks: the fact `lock.kinds` names what a card can lock. */
static int set_lock(Device device, const char *kind, unsigned type, u64 least, u64 most)
{
	const char *kinds = gpu_fact(device->gpu, "lock.kinds");
	char value[48];

	if (!kinds || !strstr(kinds, kind))
		return NOT_SUPPORTED;
	if (least > most || most > number_or(device->gpu, 0, "clock.%u.max", type) || most == 0)
		return INVALID_ARGUMENT;
	snprintf(value, sizeof value, "%llu %llu", least, most);
	set_gpu_fact(device->gpu, value, "lock.%s", kind);
	return SUCCESS;
}

static int end_lock(Device device, const char *kind)
{
	const char *kinds = gpu_fact(device->gpu, "lock.kinds");

	if (!kinds || !strstr(kinds, kind))
		return NOT_SUPPORTED;
	set_gpu_fact(device->gpu, NULL, "lock.%s", kind);
	return SUCCESS;
}

int nvmlDeviceSetGpuLockedClocks(Device device, unsigned least, unsigned most)
{
	ENTER(device, GPU | WRITES);
	return set_lock(device, "graphics", 0, least, most);
}
int nvmlDeviceResetGpuLockedClocks(Device device) { ENTER(device, GPU | WRITES); return end_lock(device, "graphics"); }

int nvmlDeviceSetMemoryLockedClocks(Device device, unsigned least, unsigned most)
{
	ENTER(device, GPU | WRITES);
	return set_lock(device, "memory", 2, least, most);
}
int nvmlDeviceResetMemoryLockedClocks(Device device) { ENTER(device, GPU | WRITES); return end_lock(device, "memory"); }

int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *value)
{
	ENTER(device, GPU);
	return sensor == 0 ? number32(device, "temperature.gpu", value) : INVALID_ARGUMENT;
}

typedef struct { unsigned version, sensor; int value; } Temperature;
int nvmlDeviceGetTemperatureV(Device device, Temperature *value)
{
	ENTER(device, GPU);
	CHECK_VERSION(value, VERSION(Temperature, 1));
	return value->sensor == 0 ? number32(device, "temperature.gpu", (unsigned *)&value->value) : INVALID_ARGUMENT;
}

typedef struct { unsigned version, value; } Versioned;
#define VERSIONED(function, key) \
	int function(Device device, Versioned *info) \
	{ ENTER(device, GPU); CHECK_VERSION(info, VERSION(Versioned, 1)); return number32(device, key, &info->value); }
VERSIONED(nvmlDeviceGetMarginTemperature, "temperature.margin")
VERSIONED(nvmlDeviceGetAddressingMode, "addressing_mode")
VERSIONED(nvmlDeviceGetCapabilities, "capabilities")
VERSIONED(nvmlDeviceGetC2cModeInfoV, "c2c")

typedef struct { unsigned version, fan, speed; } FanSpeed;
int nvmlDeviceGetFanSpeedRPM(Device device, FanSpeed *info)
{
	char key[32];
	ENTER(device, GPU);
	CHECK_VERSION(info, VERSION(FanSpeed, 1));
	snprintf(key, sizeof key, "fan.%u.rpm", info->fan);
	return number32(device, key, &info->speed);
}

/* --- Health --- */

NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired.pending")

typedef struct { unsigned version, channel, tpc; } Repair;
int nvmlDeviceGetRepairStatus(Device device, Repair *status)
{
	ENTER(device, GPU);
	CHECK_VERSION(status, VERSION(Repair, 1));
	return number32(device, "repair.channel", &status->channel) ?: number32(device, "repair.tpc", &status->tpc);
}

/* The structure has this one number and no version, whatever pynvml 13.615 declares. */
NUMBER(nvmlDeviceGetUnrepairableMemoryFlag_v1, "unrepairable")

int nvmlDeviceGetRemappedRows(Device device, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failure)
{
	ENTER(device, GPU);
	return number32(device, "remapped.correctable", correctable) ?: number32(device, "remapped.uncorrectable", uncorrectable)
	       ?: number32(device, "remapped.pending", pending) ?: number32(device, "remapped.failure", failure);
}

typedef struct { unsigned max, high, partial, low, none; } Histogram;
int nvmlDeviceGetRowRemapperHistogram(Device device, Histogram *info)
{
	ENTER(device, GPU);
	if (!info)
		return INVALID_ARGUMENT;
	return number32(device, "remapper.max", &info->max) ?: number32(device, "remapper.high", &info->high)
	       ?: number32(device, "remapper.partial", &info->partial) ?: number32(device, "remapper.low", &info->low)
	       ?: number32(device, "remapper.none", &info->none);
}

static int retired(Device device, unsigned cause, unsigned *count, u64 *addresses, u64 *times)
{
	const char *value = gpu_fact(device->gpu, "retired.%u", cause);
	unsigned room, found = 0;

	if (cause > 1 || !count)
		return INVALID_ARGUMENT;
	if (!value)
		return NOT_SUPPORTED;
	room = addresses ? *count : 0;
	while (*value) {
		u64 page = parse(&value);
		if (found < room)
			addresses[found] = page;
		if (found < room && times)
			times[found] = 0;
		found++;
	}
	*count = found;
	return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetRetiredPages(Device device, unsigned cause, unsigned *count, u64 *addresses)
{
	ENTER(device, GPU);
	return retired(device, cause, count, addresses, NULL);
}

int nvmlDeviceGetRetiredPages_v2(Device device, unsigned cause, unsigned *count, u64 *addresses, u64 *times)
{
	ENTER(device, GPU);
	return retired(device, cause, count, addresses, times);
}

int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter, u64 *value)
{
	ENTER(device, GPU);
	return type < 2 && counter < 2 && value ? number(device->gpu, value, "ecc.%u.%u.total", counter, type) : INVALID_ARGUMENT;
}

int nvmlDeviceGetMemoryErrorCounter(Device device, unsigned type, unsigned counter, unsigned location, u64 *value)
{
	ENTER(device, GPU);
	if (type > 1 || counter > 1 || location > 7 || !value)
		return INVALID_ARGUMENT;
	return number(device->gpu, value, "ecc.%u.%u.%u", counter, type, location);
}

int nvmlDeviceClearEccErrorCounts(Device device, unsigned counter)
{
	const char *rest, *value;
	char prefix[24];
	int position = 0;
	ENTER(device, GPU | WRITES);
	if (!gpu_fact(device->gpu, "ecc.current"))
		return NOT_SUPPORTED;
	if (counter > 1)
		return INVALID_ARGUMENT;
	snprintf(prefix, sizeof prefix, "ecc.%u.", counter);
	while (next_fact(device->gpu, prefix, &position, &rest, &value))
		if (*value != '!')
			set_gpu_fact(device->gpu, "0", "%s%s", prefix, rest);
	return SUCCESS;
}

typedef struct { unsigned version; u64 counts[11]; unsigned exceeded; } Sram;
int nvmlDeviceGetSramEccErrorStatus(Device device, Sram *status)
{
	static const char *const keys[] = {"aggregate.parity", "aggregate.secded", "aggregate.corrected", "volatile.parity",
	                                   "volatile.secded", "volatile.corrected", "bucket.l2", "bucket.sm", "bucket.pcie", "bucket.mcu",
	                                   "bucket.other"};
	int result;
	ENTER(device, GPU);
	CHECK_VERSION(status, VERSION(Sram, 1));
	result = number32(device, "sram.exceeded", &status->exceeded);
	for (int index = 0; result == SUCCESS && index < 11; index++)
		status->counts[index] = number_or(device->gpu, 0, "sram.%s", keys[index]);
	return result;
}

/* --- Field values: `field.<id>[.<scope>]=<type of the value> <value, or @<another fact of the GPU>>` --- */

typedef struct {
	unsigned id, scope;
	long long time, latency;
	unsigned type;
	int result;
	u64 value;
} Field;
#define FIELDS_MOST 304

static int read_field(int gpu, Field *field)
{
	const char *value = field->scope ? gpu_fact(gpu, "field.%u.%u", field->id, field->scope) : NULL;
	u64 wide = 0;
	int result = SUCCESS;

	if (field->id == 0 || field->id >= FIELDS_MOST)
		return INVALID_ARGUMENT;
	if (!value)
		value = gpu_fact(gpu, "field.%u", field->id);
	if (!value || *value == '!')
		return value ? (int)(value++, parse(&value)) : NOT_SUPPORTED;
	field->type = (unsigned)parse(&value);
	if (*value == '@')
		result = number(gpu, &wide, "%s", value + 1);
	else if (*value == '-')
		value++, wide = -parse(&value);
	else
		wide = parse(&value);
	/* A number of four bytes leaves the rest of the union alone. */
	memcpy(&field->value, &wide, field->type == 1 || field->type == 5 ? 4 : field->type == 6 ? 2 : 8);
	return result;
}

int nvmlDeviceGetFieldValues(Device device, int count, Field *fields)
{
	ENTER(device, GPU);
	if (count < 1 || !fields)
		return INVALID_ARGUMENT;
	for (int index = 0; index < count; index++) {
		fields[index].time = (long long)time(NULL) * 1000000;
		fields[index].latency = 0;
		fields[index].result = read_field(device->gpu, &fields[index]);
	}
	return SUCCESS;
}
