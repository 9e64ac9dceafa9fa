/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox passes to bwrap and stage2 about the caches of its view, and what stage2 reports
 * about them. The layers are opened again for each boot.
 */
#ifndef KODA_HOST_SANDBOX_CACHE_BOOT_H
#define KODA_HOST_SANDBOX_CACHE_BOOT_H

#include "host/sandbox/state.h"

/* Returns true if the sandbox's view has caches. */
bool cache_boot_any(const struct sandbox *sb);

/* Open the layers of the caches and make their mount points. If there is no place for layers,
 * the caches will be empty; that is reported when stage2 has made them so. Returns 0, or -1 with
 * *err set: a command might write a cache of the host. */
int cache_boot_open(struct sandbox *sb, struct koda_error *err);
/* Close the layers. clean: no process of the slot is left. */
void cache_boot_close(struct sandbox *sb, bool clean);

/* Numbers of the descriptors from which stage2 makes the caches; -1: by path. */
struct cache_fds {
	int caches, layers;
};

/* Add two O_PATH descriptors to fds: of the directory below the layers, and of the directory with
 * the layers. The caller owns them. bwrap has the first of fds as descriptor `first`. Returns 0, or
 * -1 with *err set. */
int cache_boot_fds(const struct sandbox *sb, struct cache_fds *ret, int first, int *fds,
    size_t *n_fds, struct koda_error *err);

/* Boot.caches, and the memory that it refers to. */
struct cache_boot {
	Koda__Overlay message;
	Koda__OverlayPlace *place, **list;
	ProtobufCBinaryData under[CACHE_UNDER_MAX], *keep;
};

/* Fill in Boot.caches. It points into the sandbox. cache_boot_done() frees it, also after a
 * failure. Returns 0, or -1 with *err set. */
int cache_boot_fill(const struct sandbox *sb, struct cache_boot *ret, struct koda_error *err);
void cache_boot_done(struct cache_boot *b);

/* Report empty caches, once per session: they make commands slower, and nothing else. Also
 * report a cache that commands write because it is a writable directory itself. */
void cache_boot_told(struct sandbox *sb, const Koda__Booted *booted);

#endif
