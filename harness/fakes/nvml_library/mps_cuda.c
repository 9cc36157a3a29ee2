/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A fake of libcuda.so.1: enough for a program to find out whether it runs under MPS, and what MPS leaves it.
 * A GPU is a line of the table RIGWRIGHT_FAKE_CUDA: uuid, SMs, MiB, name. Under a daemon (mps_daemon) the lines come from there,
 * each with the limit of memory that holds for this client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TABLE "/usr/lib/rigwright-fake-gpu/cuda"
#define MIB 1048576ull
#define CONTEXT_MIB 512ull
enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };
enum { MULTIPROCESSOR_COUNT = 16, MPS_ENABLED = 133 };

struct gpu { char uuid[64]; int sms; unsigned long long mib, limit_mib, used; char name[96]; };
static struct gpu gpus[64];
static int count, initialized, under_mps, current = -1;
static struct { unsigned long long at, size; int gpu; } blocks[256];

static void add(const char *line, int limited) {
    struct gpu g;
    memset(&g, 0, sizeof g);
    int got = limited ? sscanf(line, "%63s %d %llu %llu %95[^\n]", g.uuid, &g.sms, &g.mib, &g.limit_mib, g.name)
                      : sscanf(line, "%63s %d %llu %95[^\n]", g.uuid, &g.sms, &g.mib, g.name);
    if (got >= (limited ? 5 : 4) && count < 64) gpus[count++] = g;
}

static void read_table(void) {
    const char *path = getenv("RIGWRIGHT_FAKE_CUDA"), *wanted = getenv("CUDA_VISIBLE_DEVICES");
    FILE *file = fopen(path ? path : TABLE, "r");
    char line[256];
    if (!file) return;
    while (fgets(line, sizeof line, file)) add(line, 0);
    fclose(file);
    if (!wanted) return;
    struct gpu seen[64];
    int n = 0;
    char words[1024];
    snprintf(words, sizeof words, "%s", wanted);
    for (char *word = strtok(words, ","); word && n < 64; word = strtok(NULL, ",")) {
        int found = -1;
        if (strspn(word, "0123456789") == strlen(word)) found = atoi(word);
        else for (int i = 0; i < count; i++) if (!strncmp(gpus[i].uuid, word, strlen(word))) { found = i; break; }
        if (found < 0 || found >= count) break;
        seen[n++] = gpus[found];
    }
    memcpy(gpus, seen, sizeof seen);
    count = n;
}

static const char *variable(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

/* The connection stays open until the process ends: that is how the daemon knows its clients. */
static int attach(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/control", variable("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (length >= (int)sizeof address.sun_path || connect(fd, (struct sockaddr *)&address, sizeof address)) { close(fd); return -1; }
    dprintf(fd, "client\t%d\t%s\t%s\t%s\t%s\t%s\n", (int)getpid(), variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", ""),
            variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", ""), variable("CUDA_MPS_SM_PARTITION", ""),
            variable("CUDA_VISIBLE_DEVICES", "-"), "client");
    int copy = dup(fd);
    FILE *answer = fdopen(copy, "r");
    char line[256];
    int code = SUCCESS;
    if (!fgets(line, sizeof line, answer)) code = 805;
    else if (!strncmp(line, "error ", 6)) code = atoi(line + 6);
    else while (fgets(line, sizeof line, answer) && strcmp(line, "end\n")) add(line, 1);
    fclose(answer);
    return code;
}

int cuInit(unsigned flags) {
    if (flags) return INVALID_VALUE;
    if (initialized) return SUCCESS;
    count = 0;
    int code = attach();
    if (code > 0) return code;
    under_mps = code == SUCCESS;
    if (!under_mps) read_table();
    if (!count) return NO_DEVICE;
    initialized = 1;
    return SUCCESS;
}

int cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }

int cuDeviceGetCount(int *n) {
    if (!initialized) return NOT_INITIALIZED;
    *n = count;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    if (!initialized) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= count) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (!initialized) return NOT_INITIALIZED;
    if (device < 0 || device >= count) return INVALID_DEVICE;
    if (attribute == MULTIPROCESSOR_COUNT) *value = gpus[device].sms;
    else if (attribute == MPS_ENABLED) *value = under_mps;
    else return INVALID_VALUE;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device) {
    if (device < 0 || device >= count) return INVALID_DEVICE;
    snprintf(name, length, "%s", gpus[device].name);
    return SUCCESS;
}

/* The 16 bytes of a UUID, without its prefix and dashes. */
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    if (device < 0 || device >= count) return INVALID_DEVICE;
    const char *text = strchr(gpus[device].uuid, '-');
    int n = 0;
    for (text = text ? text + 1 : ""; *text && n < 16; ) {
        unsigned byte;
        if (*text == '-') { text++; continue; }
        if (sscanf(text, "%2x", &byte) != 1) break;
        uuid[n++] = byte;
        text += 2;
    }
    return SUCCESS;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (device < 0 || device >= count) return INVALID_DEVICE;
    *bytes = gpus[device].mib * MIB;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device < 0 || device >= count) return INVALID_DEVICE;
    *context = &gpus[device];
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device < count ? SUCCESS : INVALID_DEVICE; }
int cuCtxSetCurrent(void *context) {
    current = context ? (int)((struct gpu *)context - gpus) : -1;
    return SUCCESS;
}

/* A limit shows as what is free, not as the total. */
static unsigned long long room(const struct gpu *g) {
    unsigned long long whole = (g->limit_mib && g->limit_mib < g->mib ? g->limit_mib : g->mib) - CONTEXT_MIB;
    return whole * MIB - g->used;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    if (current < 0) return INVALID_CONTEXT;
    *free = room(&gpus[current]);
    *total = gpus[current].mib * MIB;
    return SUCCESS;
}

int cuMemAlloc_v2(unsigned long long *at, size_t size) {
    if (current < 0) return INVALID_CONTEXT;
    if (size > room(&gpus[current])) return OUT_OF_MEMORY;
    for (int i = 0; i < 256; i++) if (!blocks[i].size) {
        gpus[current].used += size;
        *at = blocks[i].at = 0x700000000000ull + (unsigned long long)i * 0x1000000000ull;
        blocks[i].size = size;
        blocks[i].gpu = current;
        return SUCCESS;
    }
    return OUT_OF_MEMORY;
}

int cuMemFree_v2(unsigned long long at) {
    for (int i = 0; i < 256; i++) if (blocks[i].size && blocks[i].at == at) {
        gpus[blocks[i].gpu].used -= blocks[i].size;
        blocks[i].size = 0;
        return SUCCESS;
    }
    return INVALID_VALUE;
}
