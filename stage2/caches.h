/*
 * The caches that commands write (Boot.caches): the host's are the read-only lower layer of an overlay, what commands
 * write goes into a layer that belongs to the project. Three ways, the first that works:
 *
 *  - one overlay over the directory that all of them are in, of which each cache is a bind mount: making an overlay
 *    costs more than everything else here;
 *  - an overlay for each: where something is mounted below that directory, the kernel makes no overlay of it; so has each
 *    that does not lie there (`own`);
 *  - an empty directory in memory for each, in which only what the host would run stays readable.
 */
#ifndef KODA_STAGE2_CACHES_H
#define KODA_STAGE2_CACHES_H

#include "stage2/stage2.h"

#define CACHES_PLACES_MAX 128
#define CACHES_KEEP_MAX   4096 /* in all places */
#define CACHES_WHY_MAX    256

/* Of all directories in memory together: a cache that is lost with its slot is worth no more. */
#define CACHES_MEMORY        "1g"
#define CACHES_MEMORY_INODES "262144"

/* Mounts them, hides the layers, and gives up CAP_DAC_OVERRIDE, with which nothing else here works. Also when the order
 * has no caches. ret_empty: room for CACHES_PLACES_MAX. 0, or -1 with *err set: then a cache of the host can be seen or
 * written as nobody wants it, and the slot ends. */
struct caches_empty {
	const char *path; /* points into the order */
	size_t path_len;
	char why[CACHES_WHY_MAX];
};
int caches_mount(struct view *v, const Koda__Overlay *o, struct caches_empty *ret_empty,
    size_t *ret_n_empty, struct koda_error *err);

/* The path of a cache that is the host's now, in a directory that commands write: somebody on the host has removed or renamed
 * what it was mounted on, and the mount went with that. NULL: there is none. */
const char *caches_lost(const struct view *v);

/* What is wrong with the order, or NULL. */
const char *caches_valid(const Koda__Overlay *o);

#endif
