/*
 * Trees that commands wrote (layers of caches): measured, merged and removed by the host, on descriptors alone.
 *
 * The host does it itself. Only names, types and sizes are looked at: no file is opened, no link followed, no path resolved,
 * and nothing depends on what is in a file. So there is nothing that a process of its own would be confined from, but the kernel's
 * file system code, which it would have to use all the same.
 *
 * A tree may be as deep and as wide as its command liked. Removing goes down without recursion; the others go
 * CACHE_DEPTH_MAX deep, and what is deeper they treat as one thing.
 *
 * Everything may be interrupted at any point, by a deadline or SIGKILL, and is begun again later.
 */
#ifndef KODA_HOST_CACHES_CACHE_TREE_H
#define KODA_HOST_CACHES_CACHE_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#define CACHE_DEPTH_MAX 64 /* two descriptors for each */
#define CACHE_ENTRIES_MAX                                                                          \
	1000000 /* of a layer: a second's work. One that has more is over its quota */

#define CACHE_NO_DEADLINE UINT64_MAX

/* To read a directory from its beginning: the descriptor stays the caller's. NULL with errno. */
DIR *cache_read_dir(int fd);

/* Removes what is in a directory, and not the directory. 1: nothing is left; 0: the time (monotonic_ns) is up; -1 with errno. */
int cache_tree_empty(int trash, uint64_t deadline);

/* Moves a name to the trash, as a new name there. 0, or -1 with errno; it is no error if it is not there. */
int cache_tree_discard(int dir, const char *name, int trash);

/* What is in dir: what it occupies, and how many names. More than can be counted (too many, too deep, a directory that
 * cannot be read) is told as true. -1 with errno. */
struct cache_size {
	uint64_t bytes, entries;
	bool beyond;
};
int cache_tree_measure(int dir, struct cache_size *ret);

/* Is there nothing in dir but a few directories, CACHE_BARE_MAX at most, that hide nothing of the host's? Such a layer need
 * not be kept. own: a name in it that the host does not have. */
#define CACHE_BARE_MAX 256
bool cache_tree_is_bare(int dir, const char *own);

/* Puts an upper directory of overlayfs (with `userxattr`) on the one below it: what they show together, over any lower
 * directory, is the same before, after, and whenever it is interrupted. What is replaced goes to the trash. 1: newer is
 * empty now; 0: the time is up; -1 with errno. Neither may be mounted. */
int cache_tree_merge(int newer, int older, int trash, uint64_t deadline);

#endif
