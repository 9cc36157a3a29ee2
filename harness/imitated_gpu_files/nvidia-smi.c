// SPDX-License-Identifier: GPL-3.0-or-later
/* An imitation of `nvidia-smi -L`: the GPUs that NVML lists, in the words of the real one. It takes no other option. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*Call)();

int main(int argc, char **argv)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW), *gpu;
	unsigned count, index;
	char name[96], uuid[96];
	int result;

	if (argc != 2 || strcmp(argv[1], "-L") != 0) {
		fprintf(stderr, "nvidia-smi: imitation: it knows -L alone\n");
		return 2;
	}
	if (!nvml) {
		printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n");
		return 12;
	}
	result = ((Call)dlsym(nvml, "nvmlInit_v2"))();
	if (result != 0) {
		printf("Failed to initialize NVML: %s\n", ((const char *(*)(int))dlsym(nvml, "nvmlErrorString"))(result));
		return result > 255 ? 255 : result;
	}
	((Call)dlsym(nvml, "nvmlDeviceGetCount_v2"))(&count);
	if (count == 0)
		printf("No devices found.\n");
	for (index = 0; index < count; index++) {
		((Call)dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(index, &gpu);
		((Call)dlsym(nvml, "nvmlDeviceGetName"))(gpu, name, (unsigned)sizeof name);
		((Call)dlsym(nvml, "nvmlDeviceGetUUID"))(gpu, uuid, (unsigned)sizeof uuid);
		printf("GPU %u: %s (UUID: %s)\n", index, name, uuid);
	}
	return count == 0 ? 6 : 0;
}
