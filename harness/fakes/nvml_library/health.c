// SPDX-License-Identifier: GPL-3.0-or-later
/* The health of a GPU: counters, rows, pages; and NVML's field values. */
#include "api.h"
#include <time.h>

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

typedef struct { unsigned correctable, correctable_unused, uncorrectable, uncorrectable_unused, pending, failure; } Rows;
int nvmlDeviceGetRemappedRows_v2(Device device, Rows *rows)
{
	ENTER(device, GPU);
	if (!rows)
		return INVALID_ARGUMENT;
	rows->correctable_unused = (unsigned)number_or(device->gpu, 0, "remapped.correctable_inactive");
	rows->uncorrectable_unused = (unsigned)number_or(device->gpu, 0, "remapped.uncorrectable_inactive");
	return number32(device, "remapped.correctable", &rows->correctable) ?: number32(device, "remapped.uncorrectable", &rows->uncorrectable)
	       ?: number32(device, "remapped.pending", &rows->pending) ?: number32(device, "remapped.failure", &rows->failure);
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

/* `inforom.valid`: 0 is a wrong checksum. */
int nvmlDeviceValidateInforom(Device device)
{
	unsigned valid = 0;
	int result;
	ENTER(device, GPU);
	result = number32(device, "inforom.valid", &valid);
	return result == SUCCESS && !valid ? CORRUPTED_INFOROM : result;
}

/* --- Field values: `field.<id>[.<scope>]=<type of the value> <value, or @<another fact of the GPU>>` --- */

typedef struct {
	unsigned id, scope;
	long long time, latency;
	unsigned type;
	int result;
	u64 value;
} Field;
#define FIELDS_MOST 303

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
