/*
 * What a sandbox says to bwrap and to stage2 of the caches of its view, and what stage2 says of them. The layers are opened
 * for each boot anew.
 */
#ifndef KODA_HOST_CACHES_CACHE_BOOT_H
#define KODA_HOST_CACHES_CACHE_BOOT_H

#include "host/sandbox/sandbox.h"

/* Has its view any? */
bool cache_boot_any(const struct sandbox *sb);

/* Where there is no place for layers, caches are empty; and that is said when stage2 has made them so. -1 with *err set: a
 * command might write a cache of the host. */
int cache_boot_open(struct sandbox *sb, struct koda_error *err);
/* clean: no process of the slot is left. */
void cache_boot_close(struct sandbox *sb, bool clean);

/* Descriptors of what stage2 makes the caches of; -1: by path. */
struct cache_fds {
	int caches, layers;
};

/* O_PATH, added to fds, of which bwrap has the first as `first`: the directory below the layers, and the one with them. */
int cache_boot_fds(const struct sandbox *sb, struct cache_fds *ret, int first, int *fds,
    size_t *n_fds, struct koda_error *err);

/* Boot.caches, and what it consists of. */
struct cache_boot {
	Koda__Overlay message;
	Koda__OverlayPlace *place, **list;
	ProtobufCBinaryData under[CACHE_UNDER_MAX], *keep;
};

/* Points into the sandbox. */
int cache_boot_fill(const struct sandbox *sb, struct cache_boot *ret, struct koda_error *err);
void cache_boot_done(struct cache_boot *b);

/* A cache that is empty makes commands slower, and nothing else: said once. */
void cache_boot_told(struct sandbox *sb, const Koda__Booted *booted);

#endif
