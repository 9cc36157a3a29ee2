// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * MIG in the imitated library: modes, profiles, placements, instances. And what ends them: a reset, a reboot.
 *
 *     mig.profile.<n>.*               what the model offers; <n> is NVML_GPU_INSTANCE_PROFILE_*, the profile's `id` is another number
 *     gi.<id>=<n> <start> <size>      the GPU instances, in memory slices
 *     ci.<gi>.<id>=<n> <start> <size> <uuid>      the compute instances, in compute slices of theirs
 */
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Handle *Device;
typedef struct { unsigned start, size; } Placement;
#define VERSION(type, version) ((unsigned)sizeof(type) | (unsigned)(version) << 24)
#define PROFILES 0x12
#define INSTANCES_MOST 64
#define PLACEMENTS_MOST 32

/* --- The mode --- */

static int has_process(int gpu, unsigned gi, unsigned ci)
{
	const char *rest, *value;
	int position = 0;

	while (next_fact(gpu, "process.", &position, &rest, &value)) {
		value = strchr(value, ' ') + 1;
		parse(&value);
		if (gi == NO_INSTANCE || (parse(&value) == gi && (ci == NO_INSTANCE || parse(&value) == ci)))
			return 1;
	}
	return 0;
}

static int has(int gpu, const char *prefix)
{
	const char *rest, *value;
	int position = 0;

	return next_fact(gpu, prefix, &position, &rest, &value);
}

int nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending)
{
	u64 first, second;
	int result;
	ENTER(device, GPU);
	result = number(device->gpu, &first, "mig.mode") ?: number(device->gpu, &second, "mig.pending");
	if (!current || !pending)
		return INVALID_ARGUMENT;
	if (result == SUCCESS) {
		*current = (unsigned)first;
		*pending = (unsigned)second;
	}
	return result;
}

/* Succeeds when the mode is noted. Whether it is in effect stands in the status: that is NVML's trap, and it is kept. */
int nvmlDeviceSetMigMode(Device device, unsigned mode, int *status)
{
	u64 current;
	int result;
	ENTER(device, GPU | WRITES);
	result = number(device->gpu, &current, "mig.mode");
	if (result != SUCCESS || mode > 1 || !status)
		return result ?: INVALID_ARGUMENT;
	set_gpu_number(device->gpu, mode, "mig.pending");
	if (call.forced >= 0)
		*status = call.forced;
	else if (mode == current)
		*status = SUCCESS;
	else if (has_process(device->gpu, NO_INSTANCE, 0) || has(device->gpu, "gi."))
		*status = IN_USE;
	else if (number_or(device->gpu, 0, "mig.needs_reset"))
		*status = RESET_REQUIRED;
	else
		*status = SUCCESS;
	if (*status == SUCCESS)
		set_gpu_number(device->gpu, mode, "mig.mode");
	return SUCCESS;
}

static int enabled(int gpu)
{
	return (int)number_or(gpu, 0, "mig.mode");
}

/* --- GPU instances --- */

typedef struct {
	unsigned id, p2p, slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas;
	u64 memory;
} Profile;
typedef struct { unsigned version, id, p2p, slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas; u64 memory; char name[96]; } Profile2;
typedef struct {
	unsigned version, id, slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas;
	u64 memory;
	char name[96];
	unsigned capabilities;
} Profile3;

static unsigned of_profile(int gpu, unsigned profile, const char *what)
{
	return (unsigned)number_or(gpu, 0, "mig.profile.%u.%s", profile, what);
}

static int has_profile(int gpu, unsigned profile)
{
	return gpu_fact(gpu, "mig.profile.%u.id", profile) != NULL;
}

/* The profile with an id, or PROFILES. */
static unsigned profile_of(int gpu, unsigned id)
{
	unsigned profile = 0;

	while (profile < PROFILES && !(has_profile(gpu, profile) && of_profile(gpu, profile, "id") == id))
		profile++;
	return profile;
}

static Profile describe(int gpu, unsigned profile)
{
	return (Profile){of_profile(gpu, profile, "id"), of_profile(gpu, profile, "p2p"), of_profile(gpu, profile, "slices"),
	                 of_profile(gpu, profile, "instances"), of_profile(gpu, profile, "sms"), of_profile(gpu, profile, "copy_engines"),
	                 of_profile(gpu, profile, "decoders"), of_profile(gpu, profile, "encoders"), of_profile(gpu, profile, "jpegs"),
	                 of_profile(gpu, profile, "ofas"), of_profile(gpu, profile, "memory")};
}

static int check_profile(int gpu, unsigned profile, const void *info)
{
	if (profile >= PROFILES || !info)
		return INVALID_ARGUMENT;
	return has_profile(gpu, profile) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetGpuInstanceProfileInfo(Device device, unsigned profile, Profile *info)
{
	int result;
	ENTER(device, GPU);
	result = check_profile(device->gpu, profile, info);
	if (result == SUCCESS)
		*info = describe(device->gpu, profile);
	return result;
}

static int versioned_profile(int gpu, unsigned profile, Profile2 *info)
{
	Profile plain = describe(gpu, profile);

	if (info->version == VERSION(Profile2, 2)) {
		*info = (Profile2){info->version, plain.id, plain.p2p, plain.slices, plain.instances, plain.sms, plain.copy_engines,
		                   plain.decoders, plain.encoders, plain.jpegs, plain.ofas, plain.memory, ""};
		return text(gpu, info->name, sizeof info->name, "mig.profile.%u.name", profile);
	}
	if (info->version == VERSION(Profile3, 3)) {
		Profile3 *third = (Profile3 *)info;
		*third = (Profile3){info->version, plain.id, plain.slices, plain.instances, plain.sms, plain.copy_engines, plain.decoders,
		                    plain.encoders, plain.jpegs, plain.ofas, plain.memory, "",
		                    of_profile(gpu, profile, "capabilities") | plain.p2p};
		return text(gpu, third->name, sizeof third->name, "mig.profile.%u.name", profile);
	}
	return ARGUMENT_VERSION_MISMATCH;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(Device device, unsigned profile, Profile2 *info)
{
	int result;
	ENTER(device, GPU);
	result = check_profile(device->gpu, profile, info);
	return result ?: versioned_profile(device->gpu, profile, info);
}

int nvmlDeviceGetGpuInstanceProfileInfoByIdV(Device device, unsigned id, Profile2 *info)
{
	unsigned profile;
	ENTER(device, GPU);
	profile = profile_of(device->gpu, id);
	if (!info)
		return INVALID_ARGUMENT;
	return profile < PROFILES ? versioned_profile(device->gpu, profile, info) : NOT_SUPPORTED;
}

static unsigned placements(int gpu, unsigned profile, Placement *list)
{
	const char *value = gpu_fact(gpu, "mig.profile.%u.placements", profile);
	unsigned found = 0;

	while (value && *value && found < PLACEMENTS_MOST) {
		list[found].start = (unsigned)parse(&value);
		list[found++].size = (unsigned)parse(&value);
	}
	return found;
}

static int give_placements(const Placement *list, unsigned found, Placement *target, unsigned *count)
{
	unsigned room;

	if (!count)
		return INVALID_ARGUMENT;
	room = *count;
	*count = found;
	if (!target)
		return SUCCESS;
	if (room < found)
		return INSUFFICIENT_SIZE;
	memcpy(target, list, found * sizeof *list);
	return SUCCESS;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned id, Placement *target, unsigned *count)
{
	Placement list[PLACEMENTS_MOST];
	unsigned profile;
	ENTER(device, GPU);
	profile = profile_of(device->gpu, id);
	if (profile == PROFILES)
		return NOT_SUPPORTED;
	return give_placements(list, placements(device->gpu, profile, list), target, count);
}

typedef struct { unsigned id, profile, ci; Placement at; } Instance;

static int by_id(const void *first, const void *second)
{
	const Instance *one = first, *other = second;

	return one->id != other->id ? (one->id > other->id) - (one->id < other->id) : (one->ci > other->ci) - (one->ci < other->ci);
}

/* The instances in order of their ids: GPU instances, or with a prefix `ci.` or `ci.<gi>.` compute instances. */
static int instances(int gpu, const char *prefix, Instance *list)
{
	const char *rest, *value;
	int position = 0, found = 0;

	while (found < INSTANCES_MOST && next_fact(gpu, prefix, &position, &rest, &value)) {
		Instance *one = &list[found++];
		*one = (Instance){.id = (unsigned)parse(&rest)};
		one->ci = *rest ? (unsigned)parse(&rest) : 0;
		one->profile = (unsigned)parse(&value);
		one->at.start = (unsigned)parse(&value);
		one->at.size = (unsigned)parse(&value);
	}
	qsort(list, (size_t)found, sizeof *list, by_id);
	return found;
}

static int overlap(Placement one, Placement other)
{
	return one.start < other.start + other.size && other.start < one.start + one.size;
}

/* Engines of which a GPU has few bound the instances as well: what the largest profile has is all there is. */
static int enough(int gpu, const Instance *list, int found, unsigned profile, const char *engine)
{
	unsigned all = 0, taken = of_profile(gpu, profile, engine);

	for (unsigned other = 0; other < PROFILES; other++)
		if (has_profile(gpu, other) && of_profile(gpu, other, engine) > all)
			all = of_profile(gpu, other, engine);
	while (found--)
		taken += of_profile(gpu, list[found].profile, engine);
	return taken <= all;
}

static int fits(int gpu, const Instance *list, int found, unsigned profile, Placement at)
{
	unsigned same = 0;

	for (int index = 0; index < found; index++) {
		if (overlap(list[index].at, at))
			return 0;
		same += list[index].profile == profile;
	}
	return same < of_profile(gpu, profile, "instances") && enough(gpu, list, found, profile, "jpegs") &&
	       enough(gpu, list, found, profile, "ofas");
}

/* Where the driver itself puts an instance of this profile. 0: there is no room. */
static int choose(int gpu, const Instance *list, int found, unsigned profile, Placement *at)
{
	const char *order = gpu_fact(gpu, "mig.profile.%u.order", profile);
	Placement possible[PLACEMENTS_MOST];
	unsigned count = placements(gpu, profile, possible), index;

	while (order && *order) {
		at->start = (unsigned)parse(&order);
		at->size = possible[0].size;
		if (fits(gpu, list, found, profile, *at))
			return 1;
	}
	for (index = 0; index < count; index++) {
		*at = possible[index];
		if (fits(gpu, list, found, profile, *at))
			return 1;
	}
	return 0;
}

int nvmlDeviceGetGpuInstanceRemainingCapacity(Device device, unsigned id, unsigned *count)
{
	Instance list[INSTANCES_MOST + PLACEMENTS_MOST];
	unsigned profile;
	int found;
	ENTER(device, GPU);
	profile = profile_of(device->gpu, id);
	if (!enabled(device->gpu) || profile == PROFILES || !count)
		return count ? NOT_SUPPORTED : INVALID_ARGUMENT;
	found = instances(device->gpu, "gi.", list);
	for (*count = 0; choose(device->gpu, list, found, profile, &list[found].at); found++, ++*count)
		list[found].profile = profile;
	return SUCCESS;
}

/* Ids as drivers give them: those of the smallest profile count from 7, of two slices from 3, of three and four from 1, of all 0. */
static unsigned new_id(int gpu, unsigned profile, Placement at)
{
	unsigned slices = of_profile(gpu, profile, "slices"), id;

	id = slices == 1 ? 7 + at.start / at.size : slices == 2 ? 3 + at.start / at.size : slices < 5 && at.start + at.size < 9 ? 1 + !at.start : 0;
	while (gpu_fact(gpu, "gi.%u", id))
		id = id == 2 && slices > 2 && !gpu_fact(gpu, "gi.1") ? 1 : id + 1;
	return id;
}

static int create(Device device, unsigned id, const Placement *wanted, Device *made)
{
	Instance list[INSTANCES_MOST];
	Placement at, possible[PLACEMENTS_MOST];
	char value[64];
	unsigned profile = profile_of(device->gpu, id), index, count;
	int found = instances(device->gpu, "gi.", list);

	if (!made)
		return INVALID_ARGUMENT;
	if (!enabled(device->gpu))
		return NOT_SUPPORTED;
	if (profile == PROFILES)
		return INVALID_ARGUMENT;
	if (wanted) {
		count = placements(device->gpu, profile, possible);
		for (index = 0; index < count && memcmp(&possible[index], wanted, sizeof *wanted) != 0;)
			index++;
		if (index == count)
			return INVALID_ARGUMENT;
		at = *wanted;
		if (!fits(device->gpu, list, found, profile, at))
			return INSUFFICIENT_RESOURCES;
	} else if (!choose(device->gpu, list, found, profile, &at))
		return INSUFFICIENT_RESOURCES;
	id = new_id(device->gpu, profile, at);
	snprintf(value, sizeof value, "%u %u %u", profile, at.start, at.size);
	set_gpu_fact(device->gpu, value, "gi.%u", id);
	set_gpu_number(device->gpu, of_profile(device->gpu, profile, "memory"), "gi_memory.%u", id);
	*made = handle_of(GPU_INSTANCE, device->gpu, id, NO_INSTANCE);
	return SUCCESS;
}

int nvmlDeviceCreateGpuInstance(Device device, unsigned id, Device *made)
{
	ENTER(device, GPU | WRITES);
	return create(device, id, NULL, made);
}

int nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned id, const Placement *at, Device *made)
{
	ENTER(device, GPU | WRITES);
	return at ? create(device, id, at, made) : INVALID_ARGUMENT;
}

int nvmlGpuInstanceDestroy(Device instance)
{
	char prefix[24];
	ENTER(instance, GPU_INSTANCE | WRITES);
	snprintf(prefix, sizeof prefix, "ci.%u.", instance->gi);
	if (has(instance->gpu, prefix) || has_process(instance->gpu, instance->gi, NO_INSTANCE))
		return IN_USE;
	set_gpu_fact(instance->gpu, NULL, "gi.%u", instance->gi);
	set_gpu_fact(instance->gpu, NULL, "gi_memory.%u", instance->gi);
	return SUCCESS;
}

int nvmlDeviceGetGpuInstances(Device device, unsigned id, Device *target, unsigned *count)
{
	Instance list[INSTANCES_MOST];
	unsigned profile;
	int found, index;
	ENTER(device, GPU);
	profile = profile_of(device->gpu, id);
	if (!enabled(device->gpu) || !target || !count || profile == PROFILES)
		return enabled(device->gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED;
	found = instances(device->gpu, "gi.", list);
	for (*count = 0, index = 0; index < found; index++)
		if (list[index].profile == profile)
			target[(*count)++] = handle_of(GPU_INSTANCE, device->gpu, list[index].id, NO_INSTANCE);
	return SUCCESS;
}

int nvmlDeviceGetGpuInstanceById(Device device, unsigned id, Device *instance)
{
	ENTER(device, GPU);
	if (!enabled(device->gpu) || !instance)
		return instance ? NOT_SUPPORTED : INVALID_ARGUMENT;
	if (!gpu_fact(device->gpu, "gi.%u", id))
		return NOT_FOUND;
	*instance = handle_of(GPU_INSTANCE, device->gpu, id, NO_INSTANCE);
	return SUCCESS;
}

/* The profile and place of an instance of either kind. */
static Instance place_of(const Handle *handle)
{
	const char *value = handle->kind == GPU_INSTANCE ? gpu_fact(handle->gpu, "gi.%u", handle->gi)
	                                                 : gpu_fact(handle->gpu, "ci.%u.%u", handle->gi, handle->ci);
	Instance place = {.id = handle->gi, .ci = handle->ci};

	place.profile = (unsigned)parse(&value);
	place.at.start = (unsigned)parse(&value);
	place.at.size = (unsigned)parse(&value);
	return place;
}

typedef struct { Device device; unsigned id, profile; Placement at; } InstanceInfo;
int nvmlGpuInstanceGetInfo(Device instance, InstanceInfo *info)
{
	Instance place;
	ENTER(instance, GPU_INSTANCE);
	if (!info)
		return INVALID_ARGUMENT;
	place = place_of(instance);
	*info = (InstanceInfo){handle_of(GPU, instance->gpu, NO_INSTANCE, NO_INSTANCE), instance->gi,
	                       of_profile(instance->gpu, place.profile, "id"), place.at};
	return SUCCESS;
}

/* --- Compute instances: what they are follows from the GPU instance they are in --- */

static const unsigned compute_slices[] = {1, 2, 3, 4, 7, 8, 6};
#define COMPUTE_PROFILES 9

static unsigned profile_around(const Handle *instance)
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

static unsigned compute_sms(int gpu, unsigned around, unsigned slices)
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
	return instances(instance->gpu, prefix, list); /* the compute instance's id stands in .id */
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
	if (!mig || index >= number_or(device->gpu, 0, "mig.max_devices"))
		return gpu_fact(device->gpu, "mig.mode") ? INVALID_ARGUMENT : NOT_SUPPORTED;
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
	return mig->kind != MIG_DEVICE ? NOT_SUPPORTED : id ? (*id = mig->gi, SUCCESS) : INVALID_ARGUMENT;
}

int nvmlDeviceGetComputeInstanceId(Device mig, unsigned *id)
{
	ENTER(mig, ANY_DEVICE);
	return mig->kind != MIG_DEVICE ? NOT_SUPPORTED : id ? (*id = mig->ci, SUCCESS) : INVALID_ARGUMENT;
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

/* --- What ends a state. Not NVML's: for the harness, nvidia-smi and the boot of an imitated machine --- */

static void drop(int gpu, const char *prefix)
{
	const char *rest, *value;
	int position = 0;

	while (next_fact(gpu, prefix, &position, &rest, &value)) {
		set_gpu_fact(gpu, NULL, "%s%s", prefix, rest);
		position = 0;
	}
}

static void zero(int gpu, const char *prefix)
{
	const char *rest, *value;
	int position = 0;

	while (next_fact(gpu, prefix, &position, &rest, &value))
		if (*value != '!')
			set_gpu_fact(gpu, "0", "%s%s", prefix, rest);
}

static void move(int gpu, const char *target, const char *source)
{
	const char *value = gpu_fact(gpu, "%s", source);

	if (value)
		set_gpu_fact(gpu, value, "%s", target);
}

/* The GPU starts anew: pending modes come into effect, what counts since then counts from 0, and nothing is divided. */
static void start_gpu(int gpu)
{
	drop(gpu, "gi");
	drop(gpu, "ci");
	drop(gpu, "lost");
	move(gpu, "ecc.current", "ecc.pending");
	move(gpu, "mig.mode", "mig.pending");
	zero(gpu, "ecc.0.");
	zero(gpu, "sram.volatile.");
	zero(gpu, "remapped.pending");
	zero(gpu, "retired.pending");
	zero(gpu, "recovery_action");
}

int rigwright_reset(int gpu)
{
	Handle *handle = handle_of(GPU, gpu, NO_INSTANCE, NO_INSTANCE);
	ENTER(handle, MACHINE);
	if (!gpu_fact(gpu, "uuid"))
		return NOT_FOUND;
	if (has_process(gpu, NO_INSTANCE, 0))
		return IN_USE;
	start_gpu(gpu);
	return SUCCESS;
}

/* The driver is loaded anew: by a reboot, or else by hand while the machine goes on. */
int rigwright_load_driver(int reboots)
{
	const char *library;
	ENTER(NULL, MACHINE);
	library = fact("driver.library");
	if (library)
		set_fact("driver.module", library);
	for (int gpu = 0; gpu < VISIBLE_MOST && gpu_fact(gpu, "uuid"); gpu++) {
		int was_lost = !reboots && gpu_fact(gpu, "lost") != NULL;
		if (!number_or(gpu, 0, "mig.needs_reset")) /* Hopper and later forget the mode; before, it is in the InfoROM */
			zero(gpu, "mig.pending");
		drop(gpu, "process.");
		drop(gpu, "limit.");
		drop(gpu, "lock.graphics");
		drop(gpu, "lock.memory");
		start_gpu(gpu);
		zero(gpu, "persistence");
		zero(gpu, "compute_mode");
		zero(gpu, "accounting.mode");
		zero(gpu, "timeslice");
		zero(gpu, "drain");
		move(gpu, "power.limit", "power.default");
		if (was_lost)
			set_gpu_fact(gpu, "1", "lost");
	}
	return SUCCESS;
}
