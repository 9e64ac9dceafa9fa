/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was in a copy at first: its names with their inodes and change times. A name whose inode or
 * change time differs later was changed: no program can set a change time back. A file, so that
 * another process knows it, for each name
 *
 *	TYPE INODE CTIME PATH NUL
 *
 * with a directory before what is in it. Commands in the copy cannot write it.
 */
#ifndef KODA_WORKER_CLONE_CLONE_BASE_H
#define KODA_WORKER_CLONE_CLONE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct clone_entry {
	char type; /* 'd', 'f', 'l' or 'o' */
	uint64_t ino;
	int64_t ctime_ns;
	const char *path;
	bool found; /* is in the copy, with this type */
};

struct clone_base {
	char *text;
	struct clone_entry *v;
	size_t n;
	uint32_t *slot; /* a hash table of places in v, from 1 */
	size_t n_slots; /* a power of two */
};

/* Write it for the tree in `into`, then wait until the clock that stamps files has moved on. Returns an
 * exit status. */
int clone_base_write(int into);
/* Returns an exit status. */
int clone_base_read(int into, struct clone_base *ret);
void clone_base_done(struct clone_base *b);
/* Returns the entry of that path, or NULL. */
struct clone_entry *clone_base_find(const struct clone_base *b, const char *path, size_t len);

/* What a name is now. path: of no importance. */
struct clone_entry clone_entry_of(const struct stat *st);
bool clone_entry_same(const struct clone_entry *a, const struct clone_entry *b);

#endif
