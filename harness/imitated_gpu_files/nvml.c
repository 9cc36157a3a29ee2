// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * An imitation of NVIDIA's management library, libnvidia-ml.so.1: what programs ask of it that look for GPUs, as nvidia-ctk and
 * nvidia-smi do. The types are NVML's (its API reference). Built with -DDRIVER=\"580.159.04\" for a driver of that version.
 *
 * The GPUs stand in a text file, a line each, which may be changed while programs run:
 *     <minor> <uuid> <pci address> <device id, hex> <compute capability, as 89> <mig mode, 0 or 1> <name>
 * It lies where a driver has its firmware, which containers with a GPU get to see as well. Of these GPUs a program sees those whose
 * device node it has. A node that the control group forbids (EPERM) makes NVML fail with its "Unknown Error", as the real one does.
 *
 * It asks libc for names that never changed, so that one build goes with the libc of any host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define TABLE "/lib/firmware/nvidia/" DRIVER "/gsp_imitated.bin"
#define MOST 16

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, UNKNOWN = 999 };

typedef struct {
	unsigned minor, device, capability, mig;
	char uuid[48], address[20], name[64];
} Gpu;

typedef struct {
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
} PciInfo;

typedef struct { unsigned long long total, free, used; } Memory;

static Gpu gpus[MOST];
static unsigned count;
static int users;

/* --- The table --- */

static unsigned number(const char *text, unsigned base)
{
	unsigned value = 0;

	for (; *text; text++) {
		unsigned digit = *text <= '9' ? (unsigned)(*text - '0') : (unsigned)((*text | 32) - 'a' + 10);
		if (digit >= base)
			break;
		value = value * base + digit;
	}
	return value;
}

static char *word(char **rest, char end)
{
	char *start = *rest, *stop = strchr(start, end);

	if (stop)
		*stop = '\0';
	*rest = stop ? stop + 1 : start + strlen(start);
	return start;
}

static void copy(char *target, const char *source, size_t size)
{
	strncpy(target, source, size - 1);
	target[size - 1] = '\0';
}

/* Whether a program may open a device. Of an imitated one no driver answers (ENXIO), and only the kernel's own checks are made. */
static int try_open(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC);

	if (file >= 0)
		close(file);
	return file >= 0 || errno == ENXIO ? 0 : errno;
}

static int read_table(void)
{
	static char text[8192];
	char *rest = text, path[] = "/dev/nvidia00";
	int file = open(TABLE, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);

	if (file >= 0)
		close(file);
	if (length < 0)
		return DRIVER_NOT_LOADED;
	text[length] = '\0';
	for (count = 0; *rest && count < MOST;) {
		char *line = word(&rest, '\n');
		Gpu *gpu = &gpus[count];
		int problem;

		gpu->minor = number(word(&line, ' '), 10);
		copy(gpu->uuid, word(&line, ' '), sizeof gpu->uuid);
		copy(gpu->address, word(&line, ' '), sizeof gpu->address);
		gpu->device = number(word(&line, ' '), 16);
		gpu->capability = number(word(&line, ' '), 10);
		gpu->mig = number(word(&line, ' '), 10);
		copy(gpu->name, line, sizeof gpu->name);
		path[11] = (char)('0' + (gpu->minor < 10 ? gpu->minor : gpu->minor / 10));
		path[12] = gpu->minor < 10 ? '\0' : (char)('0' + gpu->minor % 10);
		problem = try_open(path);
		if (problem == EPERM)
			return UNKNOWN;
		count += problem != ENOENT;
	}
	return SUCCESS;
}

/* --- NVML's functions --- */

int nvmlInit_v2(void)
{
	int problem = try_open("/dev/nvidiactl"), result;

	if (problem)
		return problem == EPERM ? UNKNOWN : DRIVER_NOT_LOADED;
	result = read_table();
	users += result == SUCCESS;
	return result;
}

int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }

int nvmlShutdown(void)
{
	if (!users)
		return UNINITIALIZED;
	users--;
	return SUCCESS;
}

const char *nvmlErrorString(int result)
{
	switch (result) {
	case SUCCESS: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case INVALID_ARGUMENT: return "Invalid Argument";
	case NOT_SUPPORTED: return "Not Supported";
	case NOT_FOUND: return "Not Found";
	case INSUFFICIENT_SIZE: return "Insufficient Size";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	default: return "Unknown Error";
	}
}

static int give(char *target, unsigned size, const char *text)
{
	if (strlen(text) + 1 > size)
		return INSUFFICIENT_SIZE;
	strcpy(target, text);
	return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) { return give(version, length, DRIVER); }
int nvmlSystemGetNVMLVersion(char *version, unsigned length) { return give(version, length, "13." DRIVER); }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 13000; return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

int nvmlDeviceGetCount_v2(unsigned *found) { *found = count; return users ? SUCCESS : UNINITIALIZED; }
int nvmlDeviceGetCount(unsigned *found) { return nvmlDeviceGetCount_v2(found); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **gpu)
{
	*gpu = index < count ? &gpus[index] : NULL;
	return *gpu ? SUCCESS : INVALID_ARGUMENT;
}
int nvmlDeviceGetHandleByIndex(unsigned index, Gpu **gpu) { return nvmlDeviceGetHandleByIndex_v2(index, gpu); }

int nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **gpu)
{
	for (unsigned index = 0; index < count; index++)
		if (strcmp(gpus[index].uuid, uuid) == 0)
			return nvmlDeviceGetHandleByIndex_v2(index, gpu);
	return NOT_FOUND;
}

/* Programs write the domain with four digits or with eight: what comes after it tells the devices of a small machine apart. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Gpu **gpu)
{
	const char *wanted = strchr(address, ':');

	for (unsigned index = 0; wanted && index < count; index++)
		if (strcasecmp(strchr(gpus[index].address, ':'), wanted) == 0)
			return nvmlDeviceGetHandleByIndex_v2(index, gpu);
	return NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId(const char *address, Gpu **gpu) { return nvmlDeviceGetHandleByPciBusId_v2(address, gpu); }

int nvmlDeviceGetIndex(Gpu *gpu, unsigned *index) { *index = (unsigned)(gpu - gpus); return SUCCESS; }
int nvmlDeviceGetMinorNumber(Gpu *gpu, unsigned *minor) { *minor = gpu->minor; return SUCCESS; }
int nvmlDeviceGetUUID(Gpu *gpu, char *uuid, unsigned length) { return give(uuid, length, gpu->uuid); }
int nvmlDeviceGetName(Gpu *gpu, char *name, unsigned length) { return give(name, length, gpu->name); }

int nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor)
{
	*major = (int)gpu->capability / 10;
	*minor = (int)gpu->capability % 10;
	return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Gpu *gpu, PciInfo *info)
{
	memset(info, 0, sizeof *info);
	copy(info->bus_id_legacy, gpu->address, sizeof info->bus_id_legacy);
	strcpy(info->bus_id, "0000");
	strcat(info->bus_id, gpu->address);
	info->domain = number(gpu->address, 16);
	info->bus = number(gpu->address + 5, 16);
	info->device = number(gpu->address + 8, 16);
	info->pci_device_id = gpu->device << 16 | 0x10de;
	return SUCCESS;
}
int nvmlDeviceGetPciInfo_v2(Gpu *gpu, PciInfo *info) { return nvmlDeviceGetPciInfo_v3(gpu, info); }

int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory)
{
	(void)gpu;
	memory->total = memory->free = 24ULL << 30;
	memory->used = 0;
	return SUCCESS;
}

/* MIG: the mode stands in the table; what a GPU is divided into does not, so that there are no MIG devices. */
int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *now, unsigned *pending) { *now = *pending = gpu->mig; return SUCCESS; }
int nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, unsigned *most) { *most = gpu->mig ? 7 : 0; return SUCCESS; }
int nvmlDeviceIsMigDeviceHandle(Gpu *gpu, unsigned *is) { (void)gpu; *is = 0; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned index, Gpu **mig) { (void)gpu; (void)index; (void)mig; return NOT_FOUND; }
int nvmlDeviceGetAddressingMode(Gpu *gpu, void *mode) { (void)gpu; (void)mode; return NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfo(Gpu *gpu, void *info) { (void)gpu; (void)info; return NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfoV(Gpu *gpu, void *info) { (void)gpu; (void)info; return NOT_SUPPORTED; }
