// SPDX-License-Identifier: GPL-3.0-or-later
/* Where a GPU is, and what it is connected with: processors, other GPUs, PCIe, NVLink. */
#include "api.h"

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
	if (device->gpu == other->gpu)
		return NOT_SUPPORTED;
	*level = (unsigned)number_or(device->gpu, 40, "topology.%d", other->gpu);
	return SUCCESS;
}

int nvmlDeviceGetP2PStatus(Device device, Device other, unsigned capability, unsigned *status)
{
	u64 value;
	int result;
	ENTER(device, GPU);
	if (!other || other->kind != GPU || !status)
		return INVALID_ARGUMENT;
	if (capability > 4 || device->gpu == other->gpu) { /* 5: not supported, as of a GPU with itself */
		*status = capability > 4 ? 0 : 5;
		return SUCCESS;
	}
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
NUMBER_OF(nvmlDeviceGetPcieThroughput, "pcie.throughput.%u", 2)

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
	if (capability > 5 && gpu_fact(device->gpu, "nvlink.links"))
		return INVALID_ARGUMENT;
	return link_number(device, link, key, value);
}

int nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, unsigned counter, u64 *value)
{
	char key[32];
	unsigned narrow = 0;
	int result;
	ENTER(device, GPU);
	snprintf(key, sizeof key, "error.%u", counter);
	if (!value || (counter > 4 && gpu_fact(device->gpu, "nvlink.links")))
		return INVALID_ARGUMENT;
	result = link_number(device, link, key, &narrow);
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
