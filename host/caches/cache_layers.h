/* SPDX-License-Identifier: Apache-2.0 */
/* The layers in a project's directory (host/caches/cache_store): their names and locks, and
 * removing those that are too large or too old. */
#ifndef KODA_HOST_CACHES_CACHE_LAYERS_H
#define KODA_HOST_CACHES_CACHE_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/caches/cache_tree.h"

/* Time for emptying the trash when a slot ends. The rest waits for the next end. */
#define CACHE_SWEEP_MS 200
/* How many layers are considered; slots that run at once have one each. */
#define CACHE_LAYERS_MAX 256
/* For a project. The oldest layers are removed first. */
#define CACHE_QUOTA_BYTES (5ull << 30)
#define CACHE_AGE_SECS    (30ull * 86400) /* since a project was last used */
/* Time between two measurements. A measurement looks at each file. */
#define CACHE_LOOK_SECS 3600

#define CACHE_LAYER_NAME 8 /* digits */

struct cache_layer {
	char name[CACHE_LAYER_NAME + 1];
	int fd; /* its directory, which holds the lock */
};

#define CACHE_ABOUT    "about"
#define CACHE_TRASH    "trash"
#define CACHE_OVER     "over"
#define CACHE_MEASURED "measured" /* time of the last measurement */
/* When all of the trash was last removed, or when a host that is still at it began. */
#define CACHE_SWEPT "swept"
#define CACHE_NEW   ".new-"

struct cache_names {
	char v[CACHE_LAYERS_MAX][CACHE_LAYER_NAME + 1]; /* the newest first */
	size_t n;
};

/* Read the names of a project's layers. Returns 0, or -1 with errno. */
int cache_read_names(int project, struct cache_names *ret);

/* Open the directory for what is to be removed, and make it if it does not exist. Returns a
 * descriptor that the caller owns, or -1 with errno. */
int cache_open_trash(int project);

/* Open and lock (how: LOCK_EX or LOCK_SH) a layer, or any other directory. The caller owns
 * ret->fd. Returns 0, or -1 with errno if another process holds the lock, or it is gone. */
int cache_lock(int project, const char *name, int how, struct cache_layer *ret);
/* Returns true if the layer still has its name: another process may have removed it before it
 * was locked. */
bool cache_is_named(int project, const struct cache_layer *l);

/* Returns true if it is time to measure, or to sweep (CACHE_MEASURED, CACHE_SWEPT), and records
 * that it is being done now. */
bool cache_is_due(int project, const char *what);

/* Mark the layers that exceed the quota, the oldest first, and remove layers that a killed host
 * had not finished. */
void cache_hold_to_quota(int project, int trash);

/* Measure what all layers occupy together, and whether one of them is in use. Returns 0, or -1
 * with errno. */
struct cache_usage {
	struct cache_size size;
	size_t layers;
	bool in_use;
};
int cache_measure(int project, struct cache_usage *ret);

/* Remove a project's unused layers, and then what is left of the project. Returns 1 if it is
 * gone; 0 if a layer is in use, or the deadline has passed; -1 with errno. */
int cache_remove_project(int caches, const char *name, uint64_t deadline);

/* Remove the other projects that were not used for CACHE_AGE_SECS. */
void cache_expire(int project);

#endif
