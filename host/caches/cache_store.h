/*
 * Where a project keeps what its commands wrote to caches: ~/.local/state/koda-sandbox/caches/NAME-HASH-IDENTITY/
 * (host/caches/cache_project).
 *
 *	about        the root, for people
 *	00000001/    a layer: `u` is the upper directory of an overlay, `w` what overlayfs works in, `over` says that
 *	             the layer is to be removed
 *	.new-*       a layer that is being made
 *	trash/       what is being removed
 *
 * A slot writes one layer and reads those below it; above that are the host's own caches. The next slot writes the topmost
 * layer on, or, while another slot still uses that, a new one. Locks (flock) on the layers' directories say who does: a
 * layer that is written is locked for this slot alone, one that is read is shared. When nobody has them, layers are merged
 * into the one below.
 *
 * The kernel releases a lock when its host ends, also by SIGKILL. Each change here is one rename, so what is found
 * afterwards makes sense.
 */
#ifndef KODA_HOST_CACHES_CACHE_STORE_H
#define KODA_HOST_CACHES_CACHE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

#define CACHE_UNDER_MAX  8   /* layers that a slot reads */
#define CACHE_UNDER_MANY 3   /* are merged also while others are written */
#define CACHE_LAYERS_MAX 256 /* that are looked at: each slot at once has its own */
#define CACHE_MERGE_MS   5   /* of a start, to merge layers: what is left waits for the next one */
#define CACHE_SWEEP_MS                                                                             \
	200 /* of an end, to remove what is in the trash: what is left waits for the next one */
#define CACHE_QUOTA_BYTES (5ull << 30)    /* of a project; the oldest layers go first */
#define CACHE_AGE_SECS    (30ull * 86400) /* since a project was used last */
#define CACHE_LOOK_SECS   3600            /* between two measurements: one looks at each file */

#define CACHE_LAYER_NAME 8 /* digits */

struct cache_layer {
	char name[CACHE_LAYER_NAME + 1];
	int fd; /* its directory, which holds the lock */
};

struct cache_store {
	char *path; /* of the project's directory, canonical; NULL: closed */
	int fd;
	int trash;
	struct cache_layer upper;
	struct cache_layer under[CACHE_UNDER_MAX]; /* the topmost first */
	size_t n_under;
};
#define CACHE_STORE_CLOSED                                                                         \
	(struct cache_store)                                                                       \
	{                                                                                          \
		.fd = -1, .trash = -1, .upper.fd = -1                                              \
	}

/* Layers for one slot. -1 with *err set: there is no place for them; its message says why. */
int cache_store_open(const char *root, const char *home, struct cache_store *ret,
    struct koda_error *err);

/* The slot has ended. From time to time its project is measured, and what is too much or too old is marked or removed. */
void cache_store_close(struct cache_store *store);

/* The slot is another process's. */
void cache_store_abandon(struct cache_store *store);

#endif
