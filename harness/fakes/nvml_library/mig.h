// SPDX-License-Identifier: GPL-3.0-or-later
/* What the files about MIG share. See mig.c. */
#ifndef MIG_H
#define MIG_H
#include "api.h"

typedef struct { unsigned start, size; } Placement;
typedef struct { unsigned id, profile, ci; Placement at; } Instance;
#define INSTANCES_MOST 64
#define PLACEMENTS_MOST 32

#pragma GCC visibility push(hidden)
int enabled(int gpu);
int has(int gpu, const char *prefix);                      /* facts that begin so */
int has_process(int gpu, unsigned gi, unsigned ci);        /* NO_INSTANCE: in any */
unsigned of_profile(int gpu, unsigned profile, const char *what);
int instances(int gpu, const char *prefix, Instance *list); /* in order of their ids: `gi.`, `ci.` or `ci.<gi>.` */
Instance place_of(const Handle *handle);
int overlap(Placement one, Placement other);
int give_placements(const Placement *list, unsigned found, Placement *target, unsigned *count);
unsigned profile_around(const Handle *instance); /* of the GPU instance that this one is, or is in */
unsigned compute_sms(int gpu, unsigned around, unsigned slices);
#pragma GCC visibility pop
#endif
