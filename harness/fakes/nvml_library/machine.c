// SPDX-License-Identifier: GPL-3.0-or-later
/* A reset, and a new load of the driver. These functions are not NVML's: the harness, nvidia-smi and the boot of a fake machine call them. */
#include "mig.h"

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

/* The GPU starts again: pending modes come into effect, counters since the start are 0, and nothing is divided. */
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

/* The driver is loaded again: by a reboot, or by hand while the machine runs. */
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
		if (gpu_fact(gpu, "dead")) /* it does not start: the driver leaves it out, and NVML does not count it */
			set_gpu_fact(gpu, "1", "absent");
	}
	return SUCCESS;
}
