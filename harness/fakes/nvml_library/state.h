// SPDX-License-Identifier: GPL-3.0-or-later
/* The one state of the fake machine, and the access of every function of the library to it. See state.c. */
#ifndef STATE_H
#define STATE_H
#include <stddef.h>

#pragma GCC visibility push(hidden) /* programs have functions of these names, too */

typedef unsigned long long u64;

/* nvmlReturn_t */
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, FUNCTION_NOT_FOUND = 13, CORRUPTED_INFOROM = 14, GPU_IS_LOST = 15, RESET_REQUIRED = 16, LIB_RM_VERSION_MISMATCH = 18, IN_USE = 19,
       INSUFFICIENT_RESOURCES = 23, ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999 };

enum { GPU = 1, GPU_INSTANCE = 2, COMPUTE_INSTANCE = 4, MIG_DEVICE = 8, ANY_DEVICE = GPU | MIG_DEVICE, WRITES = 16, BEFORE_INIT = 32,
       MACHINE = 64 };
#define NO_INSTANCE 0xFFFFFFFFu
#define VISIBLE_MOST 32

typedef struct {
	int kind, gpu;
	unsigned gi, ci;
} Handle;

/* A call of one function: holds the lock while it may change something, and then saves what it changed. */
typedef struct {
	int result, lock, forced; /* forced: the activation status that a test asked for, or -1 */
} Call;

Call enter_call(const char *function, const Handle *handle, int needs);
void leave_call(Call *call);
/* The first statement of a function of the library. */
#define ENTER(handle, needs) \
	__attribute__((cleanup(leave_call))) Call call = enter_call(__func__, handle, needs); \
	if (call.result != SUCCESS) \
		return call.result

Handle *handle_of(int kind, int gpu, unsigned gi, unsigned ci);
int users_of_library(int change);
int visible_gpus(int *numbers); /* which of the machine's GPUs this process may see, in order of their index */

/* Facts: NULL when there is none. Keys of a GPU are without `gpu.<n>.`. */
const char *fact(const char *key);
const char *gpu_fact(int gpu, const char *format, ...) __attribute__((format(printf, 2, 3)));
void set_fact(const char *key, const char *value); /* NULL: the fact goes */
void set_gpu_fact(int gpu, const char *value, const char *format, ...) __attribute__((format(printf, 3, 4)));
void set_gpu_number(int gpu, u64 value, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Walks over the facts of a GPU whose keys begin so; `rest` is what follows. `*position` starts at 0. */
int next_fact(int gpu, const char *prefix, int *position, const char **rest, const char **value);

/* A number of a GPU. No such fact: NOT_SUPPORTED. A fact `!<code>`: that error. */
int number(int gpu, u64 *value, const char *format, ...) __attribute__((format(printf, 3, 4)));
u64 number_or(int gpu, u64 otherwise, const char *format, ...) __attribute__((format(printf, 3, 4)));
int text(int gpu, char *target, unsigned size, const char *format, ...) __attribute__((format(printf, 4, 5)));
u64 parse(const char **text); /* the next number of a list, decimal or 0x...; moves on behind it and its separator */
int give_text(char *target, unsigned size, const char *source);
#pragma GCC visibility pop
#endif
