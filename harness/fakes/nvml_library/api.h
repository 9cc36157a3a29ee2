// SPDX-License-Identifier: GPL-3.0-or-later
/* Shared by the files of the fake library: shapes of functions, and structures of NVML. */
#ifndef API_H
#define API_H
#include "state.h"
#include <stdio.h>
#include <string.h>

typedef Handle *Device;

typedef struct {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
} Pci;
typedef struct { unsigned version, value; } Versioned;

#pragma GCC visibility push(hidden)
int number32(Device device, const char *key, unsigned *value); /* a fact of the GPU */
u64 address(const char *written); /* of PCI, as a number; ~0: it is none */
int gpu_at(const char *wanted);   /* -1: there is none at this address */
#pragma GCC visibility pop

/* A versioned structure begins with its size and version, as NVML's macro NVML_STRUCT_VERSION makes it. */
#define VERSION(type, version) ((unsigned)sizeof(type) | (unsigned)(version) << 24)
#define CHECK_VERSION(pointer, wanted) \
	if (!(pointer)) \
		return INVALID_ARGUMENT; \
	if ((pointer)->version != (wanted)) \
	return ARGUMENT_VERSION_MISMATCH
#define ALIAS(alias_name, name) __typeof__(name) alias_name __attribute__((alias(#name)))

/* A function that answers with one number of the GPU, or with its text. */
#define NUMBER(function, key) \
	int function(Device device, unsigned *value) { ENTER(device, GPU); return number32(device, key, value); }
#define NUMBER64(function, key) \
	int function(Device device, u64 *value) { ENTER(device, GPU); return value ? number(device->gpu, value, key) : INVALID_ARGUMENT; }
#define PAIR(function, first_key, second_key) \
	int function(Device device, unsigned *first, unsigned *second) \
	{ ENTER(device, GPU); return number32(device, first_key, first) ?: number32(device, second_key, second); }
#define TEXT(function, key) \
	int function(Device device, char *value, unsigned size) { ENTER(device, GPU); return text(device->gpu, value, size, key); }
/* A function that answers with one number for each `which` below `end`. */
#define NUMBER_OF(function, key, end) \
	int function(Device device, unsigned which, unsigned *value) \
	{ \
		char name[64]; \
		ENTER(device, GPU); \
		snprintf(name, sizeof name, key, which); \
		return which < (end) ? number32(device, name, value) : INVALID_ARGUMENT; \
	}
#define VERSIONED(function, key) \
	int function(Device device, Versioned *info) \
	{ ENTER(device, GPU); CHECK_VERSION(info, VERSION(Versioned, 1)); return number32(device, key, &info->value); }
#endif
