/* The layers below a project's directory (host/caches/cache_store): names, locks, what is too much and too old. */
#ifndef KODA_HOST_CACHES_CACHE_LAYERS_H
#define KODA_HOST_CACHES_CACHE_LAYERS_H

#include <stdint.h>

#include "host/caches/cache_store.h"
#include "host/caches/cache_tree.h"

#define CACHE_ABOUT    "about"
#define CACHE_TRASH    "trash"
#define CACHE_OVER     "over"
#define CACHE_MEASURED "measured" /* when */
#define CACHE_SWEPT                                                                                \
	"swept" /* when all of the trash was removed; or begun with, by somebody who still does */
#define CACHE_NEW ".new-"

struct cache_names {
	char v[CACHE_LAYERS_MAX][CACHE_LAYER_NAME + 1]; /* the newest first */
	size_t n;
};

/* 0, or -1 with errno. */
int cache_read_names(int project, struct cache_names *ret);

/* The directory for what is to be removed, made if need be; or -1 with errno. */
int cache_open_trash(int project);

/* Open and lock (LOCK_EX, LOCK_SH) a layer, or whatever directory; -1 with errno if somebody else has it, or it is gone. */
int cache_lock(int project, const char *name, int how, struct cache_layer *ret);
/* Is it still under its name? Somebody may have removed it before it was locked. */
bool cache_is_named(int project, const struct cache_layer *l);

/* Is it time to measure, or to sweep? Then it is not any more. */
bool cache_is_due(int project, const char *what);

/* Mark the layers that are too much, the oldest first; remove what a host that was killed left of making one. */
void cache_hold_to_quota(int project, int trash);

/* What all layers occupy together, and whether somebody uses one. */
struct cache_usage {
	struct cache_size size;
	size_t layers;
	bool in_use;
};
int cache_measure(int project, struct cache_usage *ret);

/* Remove a project's layers that nobody uses, and then what is left of it. 1: it is gone; 0: a layer is used, or the time is up;
 * -1 with errno. */
int cache_remove_project(int caches, const char *name, uint64_t deadline);

/* The other projects that were not used for CACHE_AGE_SECS. */
void cache_expire(int project);

#endif
