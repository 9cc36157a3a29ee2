// SPDX-License-Identifier: GPL-3.0-or-later
/* What uses a GPU: memory, processes, utilization, limits by control group. */
#include "api.h"

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
	if (!info || info->version != VERSION(Memory2, 2)) /* unlike other functions, as recorded of driver 580 */
		return info ? FUNCTION_NOT_FOUND : INVALID_ARGUMENT;
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

/* `use.<pid>=<time> <sm> <memory> <encoder> <decoder>`: what the driver has sampled of a process; without any, NOT_FOUND. */
typedef struct { unsigned pid; u64 time; unsigned sm, memory, encoder, decoder; } Sample;
int nvmlDeviceGetProcessUtilization(Device device, Sample *samples, unsigned *count, u64 since)
{
	const char *rest, *value;
	unsigned room, found = 0;
	int position = 0;
	ENTER(device, GPU);
	if (!count)
		return INVALID_ARGUMENT;
	if (number_or(device->gpu, 0, "mig.mode"))
		return NOT_SUPPORTED;
	room = samples ? *count : 0;
	while (next_fact(device->gpu, "use.", &position, &rest, &value)) {
		Sample one = {.pid = (unsigned)parse(&rest), .time = parse(&value)};
		one.sm = (unsigned)parse(&value);
		one.memory = (unsigned)parse(&value);
		one.encoder = (unsigned)parse(&value);
		one.decoder = (unsigned)parse(&value);
		if (one.time <= since)
			continue;
		if (found < room)
			samples[found] = one;
		found++;
	}
	*count = found;
	return !found ? NOT_FOUND : found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

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
