// SPDX-License-Identifier: GPL-3.0-or-later
/* Compute instances of MIG, and MIG devices: a compute instance as CUDA sees it. */
#include "mig.h"

/* --- Compute instances: what they are follows from the GPU instance they are in --- */

static const unsigned compute_slices[] = {1, 2, 3, 4, 7, 8, 6};
#define COMPUTE_PROFILES 9

unsigned profile_around(const Handle *instance)
{
	const char *value = gpu_fact(instance->gpu, "gi.%u", instance->gi);

	return (unsigned)parse(&value);
}

static unsigned compute_placements(const Handle *instance, unsigned profile, Placement *list)
{
	unsigned all = of_profile(instance->gpu, profile_around(instance), "slices"), size, start, found = 0;

	if (profile >= sizeof compute_slices / sizeof *compute_slices)
		return 0;
	size = compute_slices[profile];
	if (size == 3 && all == 4)
		return 0;
	for (start = 0; start + size <= all; start += size == 3 ? 4 : size)
		list[found++] = (Placement){start, size};
	return found;
}

typedef struct { unsigned id, slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas; } ComputeProfile;
typedef struct { unsigned version; ComputeProfile plain; char name[96]; } ComputeProfile2;
typedef struct { unsigned version; ComputeProfile plain; char name[96]; unsigned capabilities; } ComputeProfile3;

unsigned compute_sms(int gpu, unsigned around, unsigned slices)
{
	unsigned all = of_profile(gpu, around, "slices");

	return slices == all ? of_profile(gpu, around, "sms") : slices * of_profile(gpu, 0, "sms");
}

static int describe_compute(const Handle *instance, unsigned profile, ComputeProfile *info)
{
	Placement list[PLACEMENTS_MOST];
	unsigned around = profile_around(instance), count = compute_placements(instance, profile, list);
	int gpu = instance->gpu;

	if (profile >= COMPUTE_PROFILES)
		return INVALID_ARGUMENT;
	if (count == 0)
		return NOT_SUPPORTED;
	*info = (ComputeProfile){profile, list[0].size, count, compute_sms(gpu, around, list[0].size), of_profile(gpu, around, "copy_engines"),
	                         of_profile(gpu, around, "decoders"), of_profile(gpu, around, "encoders"), of_profile(gpu, around, "jpegs"),
	                         of_profile(gpu, around, "ofas")};
	return SUCCESS;
}

/* `MIG 2c.3g.71gb`, or `MIG 3g.71gb` when it is all of its GPU instance. */
static void compute_name(const Handle *instance, unsigned slices, char *name, size_t size)
{
	unsigned around = profile_around(instance);
	const char *whole = gpu_fact(instance->gpu, "mig.profile.%u.name", around) ?: "MIG ?";

	if (slices == of_profile(instance->gpu, around, "slices"))
		snprintf(name, size, "%s", whole);
	else
		snprintf(name, size, "MIG %uc.%s", slices, whole + 4);
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(Device instance, unsigned profile, unsigned engines, ComputeProfile *info)
{
	ENTER(instance, GPU_INSTANCE);
	return info && engines == 0 ? describe_compute(instance, profile, info) : INVALID_ARGUMENT;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(Device instance, unsigned profile, unsigned engines, ComputeProfile2 *info)
{
	int result;
	ENTER(instance, GPU_INSTANCE);
	if (!info || engines != 0)
		return INVALID_ARGUMENT;
	if (info->version != VERSION(ComputeProfile2, 2) && info->version != VERSION(ComputeProfile3, 3))
		return ARGUMENT_VERSION_MISMATCH;
	result = describe_compute(instance, profile, &info->plain);
	if (result == SUCCESS)
		compute_name(instance, info->plain.slices, info->name, sizeof info->name);
	if (result == SUCCESS && info->version == VERSION(ComputeProfile3, 3))
		((ComputeProfile3 *)info)->capabilities = 0;
	return result;
}

int nvmlGpuInstanceGetComputeInstancePossiblePlacements(Device instance, unsigned profile, Placement *target, unsigned *count)
{
	Placement list[PLACEMENTS_MOST];
	unsigned found;
	ENTER(instance, GPU_INSTANCE);
	found = compute_placements(instance, profile, list);
	return found ? give_placements(list, found, target, count) : NOT_SUPPORTED;
}

static int compute_instances(const Handle *instance, Instance *list)
{
	char prefix[24];

	snprintf(prefix, sizeof prefix, "ci.%u.", instance->gi);
	return instances(instance->gpu, prefix, list); /* the compute instance's id is in .id */
}

static int is_free(const Instance *list, int found, Placement at)
{
	while (found--)
		if (overlap(list[found].at, at))
			return 0;
	return 1;
}

int nvmlGpuInstanceGetComputeInstanceRemainingCapacity(Device instance, unsigned profile, unsigned *count)
{
	Instance list[INSTANCES_MOST];
	Placement possible[PLACEMENTS_MOST];
	unsigned all, index;
	int found;
	ENTER(instance, GPU_INSTANCE);
	all = compute_placements(instance, profile, possible);
	if (all == 0 || !count)
		return count ? NOT_SUPPORTED : INVALID_ARGUMENT;
	found = compute_instances(instance, list);
	for (*count = 0, index = 0; index < all; index++)
		*count += (unsigned)is_free(list, found, possible[index]);
	return SUCCESS;
}

/* Like a version 5 UUID: the same card, GPU instance and compute instance give the same one. */
static void make_uuid(const Handle *instance, unsigned ci, char *uuid, size_t size)
{
	char named[128];
	u64 half[2] = {0xcbf29ce484222325ULL, 0x84222325cbf29ce4ULL};

	snprintf(named, sizeof named, "%s/%u/%u", gpu_fact(instance->gpu, "uuid"), instance->gi, ci);
	for (int which = 0; which < 2; which++)
		for (const char *byte = named; *byte; byte++)
			half[which] = (half[which] ^ (unsigned char)*byte) * 0x100000001b3ULL;
	snprintf(uuid, size, "MIG-%08llx-%04llx-5%03llx-%04llx-%012llx", half[0] >> 32, half[0] >> 16 & 0xFFFF, half[0] & 0xFFF,
	         0x8000 | (half[1] >> 48 & 0x3FFF), half[1] & 0xFFFFFFFFFFFFULL);
}

static int create_compute(Device instance, unsigned profile, const Placement *wanted, Device *made)
{
	Instance list[INSTANCES_MOST];
	Placement possible[PLACEMENTS_MOST];
	char uuid[64], value[128], name[96];
	unsigned count = compute_placements(instance, profile, possible), index, id = 0;
	int found = compute_instances(instance, list);

	if (!made)
		return INVALID_ARGUMENT;
	if (count == 0)
		return NOT_SUPPORTED;
	for (index = 0; index < count; index++)
		if (wanted ? memcmp(wanted, &possible[index], sizeof *wanted) == 0 : is_free(list, found, possible[index]))
			break;
	if (index == count)
		return wanted ? INVALID_ARGUMENT : INSUFFICIENT_RESOURCES;
	if (!is_free(list, found, possible[index]))
		return INSUFFICIENT_RESOURCES;
	while (gpu_fact(instance->gpu, "ci.%u.%u", instance->gi, id))
		id++;
	make_uuid(instance, id, uuid, sizeof uuid);
	snprintf(value, sizeof value, "%u %u %u %s", profile, possible[index].start, possible[index].size, uuid);
	set_gpu_fact(instance->gpu, value, "ci.%u.%u", instance->gi, id);
	compute_name(instance, possible[index].size, name, sizeof name);
	set_gpu_fact(instance->gpu, name, "ci_name.%u.%u", instance->gi, id);
	*made = handle_of(COMPUTE_INSTANCE, instance->gpu, instance->gi, id);
	return SUCCESS;
}

int nvmlGpuInstanceCreateComputeInstance(Device instance, unsigned profile, Device *made)
{
	ENTER(instance, GPU_INSTANCE | WRITES);
	return create_compute(instance, profile, NULL, made);
}

int nvmlGpuInstanceCreateComputeInstanceWithPlacement(Device instance, unsigned profile, const Placement *at, Device *made)
{
	ENTER(instance, GPU_INSTANCE | WRITES);
	return at ? create_compute(instance, profile, at, made) : INVALID_ARGUMENT;
}

int nvmlComputeInstanceDestroy(Device instance)
{
	ENTER(instance, COMPUTE_INSTANCE | WRITES);
	if (has_process(instance->gpu, instance->gi, instance->ci))
		return IN_USE;
	set_gpu_fact(instance->gpu, NULL, "ci.%u.%u", instance->gi, instance->ci);
	set_gpu_fact(instance->gpu, NULL, "ci_name.%u.%u", instance->gi, instance->ci);
	return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstances(Device instance, unsigned profile, Device *target, unsigned *count)
{
	Instance list[INSTANCES_MOST];
	int found, index;
	ENTER(instance, GPU_INSTANCE);
	if (!target || !count || profile >= COMPUTE_PROFILES)
		return INVALID_ARGUMENT;
	found = compute_instances(instance, list);
	for (*count = 0, index = 0; index < found; index++)
		if (list[index].profile == profile)
			target[(*count)++] = handle_of(COMPUTE_INSTANCE, instance->gpu, instance->gi, list[index].id);
	return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstanceById(Device instance, unsigned id, Device *target)
{
	ENTER(instance, GPU_INSTANCE);
	if (!target || !gpu_fact(instance->gpu, "ci.%u.%u", instance->gi, id))
		return target ? NOT_FOUND : INVALID_ARGUMENT;
	*target = handle_of(COMPUTE_INSTANCE, instance->gpu, instance->gi, id);
	return SUCCESS;
}

typedef struct { Device device, instance; unsigned id, profile; Placement at; } ComputeInfo;
int nvmlComputeInstanceGetInfo_v2(Device instance, ComputeInfo *info)
{
	Instance place;
	ENTER(instance, COMPUTE_INSTANCE);
	if (!info)
		return INVALID_ARGUMENT;
	place = place_of(instance);
	*info = (ComputeInfo){handle_of(GPU, instance->gpu, NO_INSTANCE, NO_INSTANCE),
	                      handle_of(GPU_INSTANCE, instance->gpu, instance->gi, NO_INSTANCE), instance->ci, place.profile, place.at};
	return SUCCESS;
}

/* --- MIG devices: a compute instance as CUDA sees it --- */

int nvmlDeviceIsMigDeviceHandle(Device device, unsigned *is)
{
	ENTER(device, ANY_DEVICE);
	return is ? (*is = device->kind == MIG_DEVICE, SUCCESS) : INVALID_ARGUMENT;
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *count)
{
	ENTER(device, GPU);
	return count ? (*count = enabled(device->gpu) ? (unsigned)number_or(device->gpu, 0, "mig.max_devices") : 0, SUCCESS) : INVALID_ARGUMENT;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *mig)
{
	Instance list[INSTANCES_MOST];
	ENTER(device, GPU);
	if (!mig || !gpu_fact(device->gpu, "mig.mode"))
		return mig ? NOT_SUPPORTED : INVALID_ARGUMENT;
	if (!enabled(device->gpu) || index >= (unsigned)instances(device->gpu, "ci.", list))
		return NOT_FOUND;
	*mig = handle_of(MIG_DEVICE, device->gpu, list[index].id, list[index].ci);
	return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device mig, Device *device)
{
	ENTER(mig, ANY_DEVICE);
	if (!device || mig->kind != MIG_DEVICE)
		return INVALID_ARGUMENT;
	*device = handle_of(GPU, mig->gpu, NO_INSTANCE, NO_INSTANCE);
	return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(Device mig, unsigned *id)
{
	ENTER(mig, ANY_DEVICE);
	return mig->kind != MIG_DEVICE ? INVALID_ARGUMENT : id ? (*id = mig->gi, SUCCESS) : INVALID_ARGUMENT;
}

int nvmlDeviceGetComputeInstanceId(Device mig, unsigned *id)
{
	ENTER(mig, ANY_DEVICE);
	return mig->kind != MIG_DEVICE ? INVALID_ARGUMENT : id ? (*id = mig->ci, SUCCESS) : INVALID_ARGUMENT;
}

typedef struct { unsigned sms, copy_engines, decoders, encoders, jpegs, ofas, gi_slices, ci_slices; u64 memory; } Attributes;
int nvmlDeviceGetAttributes_v2(Device device, Attributes *info)
{
	Instance place;
	unsigned around;
	int gpu;
	ENTER(device, ANY_DEVICE);
	if (device->kind != MIG_DEVICE || !info)
		return info ? NOT_SUPPORTED : INVALID_ARGUMENT;
	gpu = device->gpu;
	around = profile_around(device);
	place = place_of(device);
	*info = (Attributes){compute_sms(gpu, around, place.at.size), of_profile(gpu, around, "copy_engines"),
	                     of_profile(gpu, around, "decoders"), of_profile(gpu, around, "encoders"), of_profile(gpu, around, "jpegs"),
	                     of_profile(gpu, around, "ofas"), of_profile(gpu, around, "slices"), place.at.size,
	                     of_profile(gpu, around, "memory")};
	return SUCCESS;
}
