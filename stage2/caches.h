/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caches that commands write (Boot.caches): the host's caches are the read-only lower layer of
 * an overlay, and what commands write goes into a layer that belongs to the project. Uses the first
 * of these ways that works:
 *
 *  - one overlay over the directory that contains all caches, with each cache a bind mount of it:
 *    making an overlay costs more than everything else here;
 *  - an overlay for each cache: the kernel makes no overlay of a directory below which something is
 *    mounted. A cache outside that directory (`own`) always has its own overlay;
 *  - an empty directory in memory for each cache, in which only what the host would execute stays
 *    readable.
 */
#ifndef KODA_STAGE2_CACHES_H
#define KODA_STAGE2_CACHES_H

#include "stage2/stage2.h"

#define CACHES_PLACES_MAX 128
#define CACHES_KEEP_MAX   4096 /* in all places together */
#define CACHES_WHY_MAX    256

/*
 * Limits of all directories in memory together: a cache that is lost with its slot is not worth
 * more.
 */
#define CACHES_MEMORY        "1g"
#define CACHES_MEMORY_INODES "262144"

/*
 * Mounts the caches, hides the layers, and gives up CAP_DAC_OVERRIDE, which nothing else in stage2
 * needs. Call it even if the order has no caches. ret_empty must have room for CACHES_PLACES_MAX
 * entries; it gets the caches that became empty directories. Returns 0, or -1 with *err set: then a
 * cache of the host may be visible or writable against the policy, and the slot must end.
 */
struct caches_empty {
	const char *path; /* points into the order */
	size_t path_len;
	char why[CACHES_WHY_MAX];
};
int caches_mount(struct slot_view *v, const Koda__Overlay *o, struct caches_empty *ret_empty,
    size_t *ret_n_empty, struct koda_error *err);

/*
 * Returns the path of a cache that now shows the host's own directory although commands can write
 * there: a process on the host removed or renamed the directory that the cache was mounted on, and
 * the mount went with it. Returns NULL if there is none.
 */
const char *caches_lost(const struct slot_view *v);

/* Returns what is wrong with the order, or NULL if it is valid. */
const char *caches_valid(const Koda__Overlay *o);

#endif
