/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees that commands wrote (layers of caches). The host measures, merges and removes them, using
 * descriptors only.
 *
 * The host itself does this, without a confined process. It reads only names, types and sizes: it
 * opens no file, follows no link, resolves no path, and depends on no file's contents. So a process
 * of its own would only be confined from the kernel's file system code, which it would have to use
 * all the same.
 *
 * A tree may be as deep and as wide as the command liked. Removing works without recursion;
 * measuring and merging go CACHE_DEPTH_MAX levels deep, and treat anything deeper as one thing.
 *
 * Everything may be interrupted at any point, by a deadline or SIGKILL, and is started again later.
 */
#ifndef KODA_HOST_CACHES_CACHE_TREE_H
#define KODA_HOST_CACHES_CACHE_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#define CACHE_DEPTH_MAX 64 /* two descriptors per level */
/* Entries of a layer: a second's work. A layer that has more is over its quota. */
#define CACHE_ENTRIES_MAX 1000000

#define CACHE_NO_DEADLINE UINT64_MAX

/* Open a directory to read it from its beginning. The descriptor stays the caller's. Returns
 * NULL with errno on failure. */
DIR *cache_read_dir(int fd);

/* Remove what is in the directory, but not the directory itself. Returns 1 if nothing is left, 0
 * if the deadline (monotonic_ns()) has passed, -1 with errno. */
int cache_tree_empty(int trash, uint64_t deadline);

/* Move a name to the trash, under a new name. Returns 0, also if it does not exist, or -1 with
 * errno. */
int cache_tree_discard(int dir, const char *name, int trash);

/* Measure what is in dir: the bytes it occupies, and the number of names. beyond: there is more
 * than can be counted (too many names, too deep, a directory that cannot be read). Returns 0, or
 * -1 with errno. */
struct cache_size {
	uint64_t bytes, entries;
	bool beyond;
};
int cache_tree_measure(int dir, struct cache_size *ret);

/* Returns true if dir contains nothing but a few directories, at most CACHE_BARE_MAX, that hide
 * nothing of the host's. Such a layer need not be kept. own: a name in dir that the host does
 * not have. */
#define CACHE_BARE_MAX 256
bool cache_tree_is_bare(int dir, const char *own);

/* Merge an upper directory of overlayfs (with `userxattr`) into the one below it. What the two
 * show together, over any lower directory, is the same before, afterwards, and whenever it is
 * interrupted. What is replaced goes to the trash. Neither may be mounted. Returns 1 if newer is
 * empty now, 0 if the deadline has passed, -1 with errno. */
int cache_tree_merge(int newer, int older, int trash, uint64_t deadline);

#endif
