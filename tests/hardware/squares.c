// SPDX-License-Identifier: GPL-3.0-or-later
/* A program for CUDA's driver alone: the GPU writes i * i into each of some numbers, and they are compared. Prints the GPU's name. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 4096u

static const char PTX[] =
	".version 6.0\n.target sm_30\n.address_size 64\n"
	".visible .entry squares(.param .u64 target) {\n"
	"  .reg .b32 %r<6>; .reg .b64 %rd<4>;\n"
	"  ld.param.u64 %rd1, [target]; cvta.to.global.u64 %rd1, %rd1;\n"
	"  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
	"  mad.lo.u32 %r4, %r1, %r2, %r3; mul.lo.u32 %r5, %r4, %r4;\n"
	"  mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5; ret;\n"
	"}\n";

static void *library;

static int (*function(const char *name))()
{
	int (*found)() = (int (*)())dlsym(library, name);
	if (!found) {
		fprintf(stderr, "%s is not in libcuda\n", name);
		exit(1);
	}
	return found;
}

#define CALL(name, ...) \
	do { \
		int result = function(name)(__VA_ARGS__); \
		if (result) { \
			fprintf(stderr, "%s: CUDA error %d\n", name, result); \
			return 1; \
		} \
	} while (0)

int main(void)
{
	static unsigned numbers[COUNT];
	unsigned long long target = 0;
	void *context, *module, *kernel, *arguments[] = {&target};
	char name[128] = "";
	int device, count = 0;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	CALL("cuInit", 0u);
	CALL("cuDeviceGetCount", &count);
	CALL("cuDeviceGet", &device, 0);
	CALL("cuDeviceGetName", name, (int)sizeof name, device);
	CALL("cuCtxCreate_v2", &context, 0u, device);
	CALL("cuModuleLoadData", &module, PTX);
	CALL("cuModuleGetFunction", &kernel, module, "squares");
	CALL("cuMemAlloc_v2", &target, sizeof numbers);
	CALL("cuLaunchKernel", kernel, COUNT / 256, 1u, 1u, 256u, 1u, 1u, 0u, (void *)0, arguments, (void **)0);
	CALL("cuMemcpyDtoH_v2", (void *)numbers, target, sizeof numbers);
	for (unsigned index = 0; index < COUNT; index++)
		if (numbers[index] != index * index) {
			fprintf(stderr, "number %u is %u\n", index, numbers[index]);
			return 1;
		}
	printf("squares are right on %s, one of %d\n", name, count);
	return 0;
}
