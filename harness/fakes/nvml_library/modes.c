// SPDX-License-Identifier: GPL-3.0-or-later
/* Modes of a GPU, and what it is limited to: power, clocks, heat. */
#include "api.h"

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

/* A function that takes a number, which has to be one of these. */
#define SETTER(function, key, allowed) \
	int function(Device device, unsigned value) { ENTER(device, GPU | WRITES); return set_mode(device->gpu, key, allowed, value); }

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
PAIR(nvmlDeviceGetAutoBoostedClocksEnabled, "boost.enabled", "boost.default")
PAIR(nvmlDeviceGetDriverModel, "driver_model.current", "driver_model.pending")
ALIAS(nvmlDeviceGetDriverModel_v2, nvmlDeviceGetDriverModel);
PAIR(nvmlDeviceGetGpuOperationMode, "operation_mode.current", "operation_mode.pending")
NUMBER_OF(nvmlDeviceGetAPIRestriction, "restriction.%u", 2)

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
NUMBER_OF(nvmlDeviceGetMaxClockInfo, "clock.%u.max", 4)
NUMBER_OF(nvmlDeviceGetApplicationsClock, "clock.%u.application", 4)
NUMBER_OF(nvmlDeviceGetDefaultApplicationsClock, "clock.%u.default", 4)
NUMBER_OF(nvmlDeviceGetMaxCustomerBoostClock, "clock.%u.customer_boost", 4)
NUMBER_OF(nvmlDeviceGetTemperatureThreshold, "temperature.threshold.%u", 8)
#define FANS(device) number_or((device)->gpu, 0, "fan.count")
NUMBER(nvmlDeviceGetNumFans, "fan.count")
NUMBER(nvmlDeviceGetFanSpeed, "fan.0.speed")
NUMBER_OF(nvmlDeviceGetFanSpeed_v2, "fan.%u.speed", FANS(device))
NUMBER_OF(nvmlDeviceGetTargetFanSpeed, "fan.%u.target", FANS(device))
NUMBER_OF(nvmlDeviceGetFanControlPolicy_v2, "fan.%u.policy", FANS(device))

int nvmlDeviceGetMinMaxFanSpeed(Device device, unsigned *least, unsigned *most)
{
	ENTER(device, GPU);
	return FANS(device) ? number32(device, "fan.min", least) ?: number32(device, "fan.max", most) : INVALID_ARGUMENT;
}

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
	return current_clock(device, type, clock);
}

int nvmlDeviceGetClock(Device device, unsigned type, unsigned which, unsigned *clock)
{
	static const char *const keys[] = {"current", "application", "default", "customer_boost"};
	char key[48];
	ENTER(device, GPU);
	if (which > 3 || (type > 3 && which > 0))
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
	if (memory_clock == 0 || !gpu_fact(device->gpu, "clocks.memory"))
		return memory_clock ? NOT_SUPPORTED : INVALID_ARGUMENT;
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
	return info->fan < FANS(device) ? number32(device, key, &info->speed) : INVALID_ARGUMENT;
}
