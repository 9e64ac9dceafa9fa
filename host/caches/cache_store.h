/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a project keeps what its commands wrote to caches:
 * ~/.local/state/koda-sandbox/caches/NAME-HASH-IDENTITY/ (host/caches/cache_project).
 *
 *	about        the root, for people
 *	00000001/    a layer: `u` is the upper directory of an overlay, `w` the work directory of
 *	             overlayfs, `over` means that the layer is to be removed
 *	.new-*       a layer that is being made
 *	trash/       what is being removed
 *
 * A slot writes one layer and reads those below it; the lowest layer is the host's own caches. The
 * next slot goes on writing the topmost layer or, while another slot still uses it, a new one.
 * Locks (flock) on the layers' directories show which are in use: the lock of a layer that is
 * written is exclusive, that of a layer that is read is shared. When no slot holds them, layers are
 * merged into the one below.
 *
 * The kernel releases a lock when its host ends, also by SIGKILL. Each change here is one rename,
 * so an interrupted host leaves a consistent state.
 */
#ifndef KODA_HOST_CACHES_CACHE_STORE_H
#define KODA_HOST_CACHES_CACHE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/caches/cache_layers.h"
#include "shared/base/err.h"

#define CACHE_UNDER_MAX 8 /* layers that a slot reads */
/* More than this are merged even while others are written. */
#define CACHE_UNDER_MANY 3
/* Time for merging layers when a slot starts. The rest waits for the next start. */
#define CACHE_MERGE_MS 5

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

/* Open the layers for one slot. Returns 0, or -1 with *err set, whose message says why there is
 * no place for them. */
int cache_store_open(const char *root, const char *home, struct cache_store *ret,
    struct koda_error *err);

/* Close the layers when the slot has ended. From time to time this measures its project, and
 * marks or removes what is too large or too old. */
void cache_store_close(struct cache_store *store);

/* Only close the descriptors and free the memory: the slot belongs to another process. */
void cache_store_abandon(struct cache_store *store);

#endif
