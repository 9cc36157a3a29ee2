// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The state of the fake machine: one text file of `key=value` lines, sorted by key, which separate processes share.
 *
 *     !serial=000000000007         counts the versions of the file: a process reads it again only when this has changed
 *     driver.module=580.159.04     ...
 *     gpu.0.power.limit=700000
 *     ~end=000000000007            the last line: without it, or with another number, the file is half-written
 *
 * The file has the abilities of a GPU and its current settings, since to NVML both are answers. A missing fact is one
 * that the card does not have: NOT_SUPPORTED, never 0. `!15` in place of a value is NVML's error of that number.
 *
 * A reader needs no lock: the file is only ever replaced whole. A writer holds `<file>.lock` from before it reads until it has written.
 *
 * It asks libc for names that never changed, and is linked without a library of its own: one build goes with the libc of any host.
 */
#include "state.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef STATE_FILE
#define STATE_FILE "/lib/firmware/nvidia/" DRIVER "/gsp_fake.bin" /* containers with a GPU see it there too */
#endif
#define SERIAL "!serial="
#define END "~end="
#define DIGITS 12
#define PATH_SIZE 4096
#define SPARE 65536

typedef struct { const char *key, *value; } Fact;

static Fact *facts;
static int count, room;
static char *content, *spare, *spare_end; /* what the facts point into; `spare` is for values that are set */
static char path[PATH_SIZE];
static int users, dirty;
static char busy;

/* --- Reading and writing the file --- */

static int find(const char *key, int *position)
{
	int low = 0, high = count;

	while (low < high) {
		int middle = (low + high) / 2, order = strcmp(facts[middle].key, key);
		if (order == 0)
			return *position = middle, 1;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*position = low;
	return 0;
}

static int insert(int position, const char *key, const char *value)
{
	if (count == room) {
		Fact *more = realloc(facts, sizeof *facts * (size_t)(room = room ? 2 * room : 1024));
		if (!more)
			return 0;
		facts = more;
	}
	memmove(facts + position + 1, facts + position, sizeof *facts * (size_t)(count++ - position));
	facts[position] = (Fact){key, value};
	return 1;
}

static const char *keep(const char *text)
{
	size_t size = strlen(text) + 1;
	char *kept = spare;

	if (spare + size > spare_end) { /* rare: it stays until the process ends */
		kept = malloc(size);
		return kept ? memcpy(kept, text, size) : "";
	}
	spare += size;
	return memcpy(kept, text, size);
}

static int complain(const char *what)
{
	static const char start[] = "fake NVML: ";

	if (write(2, start, sizeof start - 1) < 0 || write(2, path, strlen(path)) < 0 || write(2, what, strlen(what)) < 0)
		return UNKNOWN;
	return UNKNOWN;
}

static void forget(void)
{
	free(content);
	content = NULL;
	count = 0;
}

/* Reads the file unless what is in memory is its newest version. */
static int load(void)
{
	char start[sizeof SERIAL + DIGITS];
	const size_t begins = sizeof SERIAL - 1;
	int file = open(path, O_RDONLY | O_CLOEXEC), position;
	ssize_t length = 0, part = 1;
	off_t size;
	char *line, *end;

	if (file < 0)
		return errno == ENOENT ? DRIVER_NOT_LOADED : errno == EACCES ? NO_PERMISSION : complain(" cannot be opened\n");
	if (content && spare + SPARE / 2 <= spare_end && pread(file, start, begins + DIGITS, 0) == (ssize_t)(begins + DIGITS) &&
	    memcmp(start, SERIAL, begins) == 0 && memcmp(start + begins, facts[0].value, DIGITS) == 0) {
		close(file);
		return SUCCESS;
	}
	forget();
	size = lseek(file, 0, SEEK_END);
	content = malloc((size_t)size + 1 + SPARE);
	if (content && lseek(file, 0, SEEK_SET) == 0)
		while (length < size && (part = read(file, content + length, (size_t)(size - length))) > 0)
			length += part;
	close(file);
	if (!content || length != size)
		return forget(), complain(" cannot be read\n");
	content[size] = '\0';
	spare = content + size + 1;
	spare_end = spare + SPARE;
	for (line = content; (end = strchr(line, '\n')); line = end + 1) {
		char *equals = strchr(line, '=');
		*end = '\0';
		if (!equals)
			break;
		*equals = '\0';
		position = count;
		if (count > 0 && strcmp(facts[count - 1].key, line) >= 0)
			find(line, &position);
		insert(position, line, equals + 1);
	}
	if (count < 2 || strcmp(facts[0].key, "!serial") != 0 || strlen(facts[0].value) != DIGITS ||
	    strcmp(facts[count - 1].key, "~end") != 0 || strcmp(facts[0].value, facts[count - 1].value) != 0)
		return forget(), complain(" is half-written: write it again\n");
	return SUCCESS;
}

static int save(void)
{
	char name[PATH_SIZE + 8], digits[DIGITS + 1], *whole, *next;
	const char *old = facts[0].value;
	size_t size = 1;
	int file, index, done;

	snprintf(digits, sizeof digits, "%0*llu", DIGITS, parse(&old) + 1);
	set_fact("!serial", digits);
	set_fact("~end", digits);
	for (index = 0; index < count; index++)
		size += strlen(facts[index].key) + strlen(facts[index].value) + 2;
	whole = next = malloc(size);
	if (!whole)
		return complain(" cannot be written\n");
	for (index = 0; index < count; index++)
		next = stpcpy(stpcpy(stpcpy(stpcpy(next, facts[index].key), "="), facts[index].value), "\n");
	snprintf(name, sizeof name, "%s.new", path);
	file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	/* Everybody reads it, whatever the umask of who writes. */
	done = file >= 0 && fchmod(file, 0644) == 0 && write(file, whole, (size_t)(next - whole)) == next - whole;
	free(whole);
	if (file >= 0)
		close(file);
	if (!done || rename(name, path) != 0)
		return forget(), complain(" cannot be written\n");
	return SUCCESS;
}

/* --- Facts --- */

const char *fact(const char *key)
{
	int position;

	return find(key, &position) ? facts[position].value : NULL;
}

void set_fact(const char *key, const char *value)
{
	int position, found = find(key, &position);

	dirty = 1;
	if (found && value)
		facts[position].value = keep(value);
	else if (value)
		insert(position, keep(key), keep(value));
	else if (found)
		memmove(facts + position, facts + position + 1, sizeof *facts * (size_t)(--count - position));
}

#define KEY_SIZE 128
/* `gpu.<gpu>.` and what the arguments after `format` say, into `key`. */
#define GPU_KEY(key, gpu, format) \
	char key[KEY_SIZE]; \
	va_list arguments; \
	int start = snprintf(key, sizeof key, "gpu.%d.", gpu); \
	va_start(arguments, format); \
	vsnprintf(key + start, sizeof key - (size_t)start, format, arguments); \
	va_end(arguments)

const char *gpu_fact(int gpu, const char *format, ...)
{
	GPU_KEY(key, gpu, format);
	return fact(key);
}

void set_gpu_fact(int gpu, const char *value, const char *format, ...)
{
	GPU_KEY(key, gpu, format);
	set_fact(key, value);
}

void set_gpu_number(int gpu, u64 value, const char *format, ...)
{
	char digits[24];
	GPU_KEY(key, gpu, format);

	snprintf(digits, sizeof digits, "%llu", value);
	set_fact(key, digits);
}

int next_fact(int gpu, const char *prefix, int *position, const char **rest, const char **value)
{
	char key[KEY_SIZE];
	int length = snprintf(key, sizeof key, "gpu.%d.%s", gpu, prefix), first;

	find(key, &first);
	if (first + *position >= count || strncmp(facts[first + *position].key, key, (size_t)length) != 0)
		return 0;
	*rest = facts[first + *position].key + length;
	*value = facts[first + *position].value;
	++*position;
	return 1;
}

u64 parse(const char **text)
{
	unsigned base = 10, digit;
	u64 value = 0;

	if ((*text)[0] == '0' && (*text)[1] == 'x') {
		base = 16;
		*text += 2;
	}
	for (; **text; ++*text) {
		digit = **text <= '9' ? (unsigned)(**text - '0') : (unsigned)((**text | 32) - 'a' + 10);
		if (digit >= base)
			break;
		value = value * base + digit;
	}
	if (**text)
		++*text;
	return value;
}

static int as_number(const char *value, u64 *result)
{
	if (!value)
		return NOT_SUPPORTED;
	if (*value == '!')
		return value++, (int)parse(&value);
	if (*value == '-')
		return value++, *result = -parse(&value), SUCCESS;
	*result = parse(&value);
	return SUCCESS;
}

int number(int gpu, u64 *value, const char *format, ...)
{
	GPU_KEY(key, gpu, format);
	return as_number(fact(key), value);
}

u64 number_or(int gpu, u64 otherwise, const char *format, ...)
{
	u64 value;
	GPU_KEY(key, gpu, format);
	return as_number(fact(key), &value) == SUCCESS ? value : otherwise;
}

int give_text(char *target, unsigned size, const char *source)
{
	if (!target)
		return INVALID_ARGUMENT;
	if (strlen(source) + 1 > size)
		return INSUFFICIENT_SIZE;
	memcpy(target, source, strlen(source) + 1);
	return SUCCESS;
}

int text(int gpu, char *target, unsigned size, const char *format, ...)
{
	const char *value;
	u64 unused;
	GPU_KEY(key, gpu, format);

	value = fact(key);
	return value && *value != '!' ? give_text(target, size, value) : as_number(value, &unused);
}

/* --- Handles and calls --- */

#define HANDLES 8192
static Handle handles[HANDLES];
static int handle_count;

Handle *handle_of(int kind, int gpu, unsigned gi, unsigned ci)
{
	Handle wanted = {kind, gpu, gi, ci}, *handle = handles;

	for (; handle < handles + handle_count; handle++)
		if (memcmp(handle, &wanted, sizeof wanted) == 0)
			return handle;
	if (handle_count == HANDLES)
		return NULL;
	*handle = wanted;
	handle_count++;
	return handle;
}

/* Whether a program may open a device. A fake one has no driver (ENXIO), so that only the kernel's own checks run. */
static int try_open(const char *node)
{
	int file = open(node, O_RDWR | O_CLOEXEC);

	if (file >= 0)
		close(file);
	return file >= 0 || errno == ENXIO ? 0 : errno;
}

/* Where there are device nodes, a program sees the GPUs whose node it has. A node that the control group forbids (EPERM) fails. */
static int may_open(int gpu)
{
	char node[32];

	if (!fact("nodes"))
		return 0;
	if (gpu < 0)
		return try_open("/dev/nvidiactl");
	snprintf(node, sizeof node, "/dev/nvidia%llu", number_or(gpu, 0, "minor"));
	return try_open(node);
}

int visible_gpus(int *numbers)
{
	int all = 0, seen = 0;

	for (; all < VISIBLE_MOST && gpu_fact(all, "uuid"); all++)
		if (!gpu_fact(all, "absent") && may_open(all) != ENOENT)
			numbers[seen++] = all;
	return seen;
}

int users_of_library(int change)
{
	return users += change;
}

/* The errors of any call, before it reads the GPUs. */
static int ready(int needs)
{
	const char *module = fact("driver.module"), *library = fact("driver.library");
	int numbers[VISIBLE_MOST], index, problem;

	if (needs & MACHINE)
		return SUCCESS;
	if (!(needs & BEFORE_INIT))
		return users > 0 ? SUCCESS : UNINITIALIZED;
	problem = may_open(-1);
	if (problem || !module)
		return problem == EPERM ? UNKNOWN : DRIVER_NOT_LOADED;
	if (library && strcmp(module, library) != 0)
		return LIB_RM_VERSION_MISMATCH;
	for (index = visible_gpus(numbers); index > 0; index--)
		if (may_open(numbers[index - 1]) == EPERM)
			return UNKNOWN;
	return SUCCESS;
}

static int exists(const Handle *handle)
{
	switch (handle->kind) {
	case GPU:
		return gpu_fact(handle->gpu, "uuid") != NULL;
	case GPU_INSTANCE:
		return gpu_fact(handle->gpu, "gi.%u", handle->gi) != NULL;
	default:
		return gpu_fact(handle->gpu, "ci.%u.%u", handle->gi, handle->ci) != NULL;
	}
}

/* Whether a name that a test gave means this function: versions do not matter. */
static int is_named(const char *wanted, const char *function, int writes)
{
	size_t length = 0;

	if (strcmp(wanted, "any") == 0 || (writes && strcmp(wanted, "write") == 0))
		return 1;
	while (wanted[length] && wanted[length] == function[length])
		length++;
	wanted += length;
	function += length;
	return (!*wanted || strncmp(wanted, "_v", 2) == 0) &&
	       (!*function || strncmp(function, "_v", 2) == 0 || strcmp(function, "WithFlags") == 0);
}

/* The error that a test injects into this call: `fail.<n>=<function> <gpu or -1> <calls to skip> <times, 0: for ever> <result> <activation or -1>` */
static int injected(Call *call, const char *function, const Handle *handle, int needs)
{
	int position, gpu, result, activation;
	unsigned skip, times;
	char name[80], again[128];

	for (find("fail.", &position); position < count && strncmp(facts[position].key, "fail.", 5) == 0; position++) {
		if (sscanf(facts[position].value, "%79s %d %u %u %d %d", name, &gpu, &skip, &times, &result, &activation) != 6 ||
		    !is_named(name, function, needs & WRITES) || (gpu >= 0 && (!handle || handle->gpu != gpu)))
			continue;
		if (skip == 0 && times == 1)
			set_fact(facts[position].key, NULL);
		else {
			snprintf(again, sizeof again, "%s %d %u %u %d %d", name, gpu, skip ? skip - 1 : 0, skip || !times ? times : times - 1,
			         result, activation);
			set_fact(facts[position].key, again);
		}
		if (skip > 0)
			continue;
		call->forced = activation;
		return result;
	}
	return SUCCESS;
}

static int has_prefix(const char *prefix)
{
	int position;

	find(prefix, &position);
	return position < count && strncmp(facts[position].key, prefix, strlen(prefix)) == 0;
}

static void choose_path(void)
{
	const char *chosen = getenv("RIGWRIGHT_NVML_STATE");

	if (!chosen)
		chosen = STATE_FILE;
	if (strcmp(chosen, path) == 0 || strlen(chosen) >= sizeof path)
		return;
	strcpy(path, chosen); /* another machine: nobody has initialised its library */
	forget();
	users = 0;
}

static int lock_state(void)
{
	char name[PATH_SIZE + 8];
	int file;

	snprintf(name, sizeof name, "%s.lock", path);
	file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (file >= 0)
		flock(file, LOCK_EX);
	return file;
}

static void count_write(const char *function)
{
	const char *writes = fact("writes");
	char digits[24];

	snprintf(digits, sizeof digits, "%llu", (writes ? parse(&writes) : 0) + 1);
	set_fact("writes", digits);
	set_fact("last_write", function);
}

Call enter_call(const char *function, const Handle *handle, int needs)
{
	Call call = {SUCCESS, -1, -1};
	int is_root = geteuid() == 0;

	while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) /* other threads of this process */
		sched_yield();
	dirty = 0;
	choose_path();
	call.result = load();
	if (call.result != SUCCESS || (call.result = ready(needs)) != SUCCESS)
		return call;
	if (((needs & (WRITES | MACHINE)) && (is_root || !fact("nodes"))) || has_prefix("fail.")) {
		call.lock = lock_state();
		call.result = load();
		if (call.result != SUCCESS)
			return call;
		if (needs & WRITES)
			count_write(function);
		if (!(needs & MACHINE))
			call.result = injected(&call, function, handle, needs);
	} else if (needs & (WRITES | MACHINE))
		call.result = NO_PERMISSION;
	if (call.result != SUCCESS || !(needs & (ANY_DEVICE | GPU_INSTANCE | COMPUTE_INSTANCE)))
		return call;
	if (handle < handles || handle >= handles + handle_count || !(handle->kind & (ANY_DEVICE | GPU_INSTANCE | COMPUTE_INSTANCE)))
		call.result = INVALID_ARGUMENT;
	else if (gpu_fact(handle->gpu, "lost") || gpu_fact(handle->gpu, "absent"))
		call.result = GPU_IS_LOST;
	else if (!exists(handle))
		call.result = handle->kind == GPU ? INVALID_ARGUMENT : NOT_FOUND;
	else if (!(handle->kind & needs))
		call.result = handle->kind == MIG_DEVICE ? NOT_SUPPORTED : INVALID_ARGUMENT;
	else if ((needs & WRITES) && gpu_fact(handle->gpu, "unprivileged"))
		call.result = NO_PERMISSION;
	return call;
}

void leave_call(Call *call)
{
	if (dirty && call->lock >= 0)
		save();
	if (call->lock >= 0)
		close(call->lock);
	__atomic_clear(&busy, __ATOMIC_RELEASE);
}
