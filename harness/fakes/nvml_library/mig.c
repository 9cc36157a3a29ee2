// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * MIG in the fake library: the mode, profiles, placements, GPU instances. Compute instances are in compute.c.
 *
 *     mig.profile.<n>.*               what the model offers; <n> is NVML_GPU_INSTANCE_PROFILE_*, the profile's `id` is another number
 *     gi.<id>=<n> <start> <size>      the GPU instances, in memory slices
 *     ci.<gi>.<id>=<n> <start> <size> <uuid>      the compute instances, in compute slices of theirs
 */
#include "mig.h"
#include <stdlib.h>

#define PROFILES 0x11 /* of driver 580 */

/* --- The mode --- */

int has_process(int gpu, unsigned gi, unsigned ci)
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

int has(int gpu, const char *prefix)
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

/* Succeeds when the mode is recorded. The status says whether it is in effect: the trap is NVML's, and the fake keeps it. */
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

int enabled(int gpu)
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

unsigned of_profile(int gpu, unsigned profile, const char *what)
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
		                    plain.encoders, plain.jpegs, plain.ofas, plain.memory, "", /* driver 580 leaves the name empty */
		                    of_profile(gpu, profile, "capabilities") | plain.p2p};
		return SUCCESS;
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
	if (!gpu_fact(device->gpu, "mig.mode"))
		return NOT_SUPPORTED;
	return info && profile < PROFILES ? versioned_profile(device->gpu, profile, info) : INVALID_ARGUMENT;
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

int give_placements(const Placement *list, unsigned found, Placement *target, unsigned *count)
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
		return gpu_fact(device->gpu, "mig.mode") ? INVALID_ARGUMENT : NOT_SUPPORTED;
	return give_placements(list, placements(device->gpu, profile, list), target, count);
}


static int by_id(const void *first, const void *second)
{
	const Instance *one = first, *other = second;

	return one->id != other->id ? (one->id > other->id) - (one->id < other->id) : (one->ci > other->ci) - (one->ci < other->ci);
}

/* The instances in order of their ids: GPU instances, or with a prefix `ci.` or `ci.<gi>.` compute instances. */
int instances(int gpu, const char *prefix, Instance *list)
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

int overlap(Placement one, Placement other)
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
	if (!gpu_fact(device->gpu, "mig.mode"))
		return NOT_SUPPORTED;
	if (profile == PROFILES || !count)
		return INVALID_ARGUMENT;
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

/* Where the mode is off there are none of a profile that the card has. It is no error. */
int nvmlDeviceGetGpuInstances(Device device, unsigned id, Device *target, unsigned *count)
{
	Instance list[INSTANCES_MOST];
	unsigned profile;
	int found, index;
	ENTER(device, GPU);
	profile = profile_of(device->gpu, id);
	if (!gpu_fact(device->gpu, "mig.mode"))
		return NOT_SUPPORTED;
	if (!target || !count || profile == PROFILES)
		return INVALID_ARGUMENT;
	found = instances(device->gpu, "gi.", list);
	for (*count = 0, index = 0; index < found; index++)
		if (list[index].profile == profile)
			target[(*count)++] = handle_of(GPU_INSTANCE, device->gpu, list[index].id, NO_INSTANCE);
	return SUCCESS;
}

int nvmlDeviceGetGpuInstanceById(Device device, unsigned id, Device *instance)
{
	ENTER(device, GPU);
	if (!instance || !gpu_fact(device->gpu, "mig.mode"))
		return instance ? NOT_SUPPORTED : INVALID_ARGUMENT;
	if (!gpu_fact(device->gpu, "gi.%u", id)) /* also where the mode is off */
		return NOT_FOUND;
	*instance = handle_of(GPU_INSTANCE, device->gpu, id, NO_INSTANCE);
	return SUCCESS;
}

/* The profile and place of an instance of either kind. */
Instance place_of(const Handle *handle)
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
