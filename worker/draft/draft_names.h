/* SPDX-License-Identifier: Apache-2.0 */
/* The names of one or two directories, sorted by their bytes. */
#ifndef KODA_WORKER_DRAFT_DRAFT_NAMES_H
#define KODA_WORKER_DRAFT_DRAFT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draft_names {
	const char **name; /* set by draft_names_sort() */
	size_t n;
	char *bytes; /* the names, each with a NUL */
	size_t len, size;
};

/*
 * Adds the names of a directory (open for reading) except "." and "..", at most *left, which is
 * counted down. buf is scratch memory, aligned for any type. Returns 0; 1 if there are more names than that; -1 with
 * errno.
 */
int draft_names_read(struct draft_names *names, int dir_fd, uint64_t *left, void *buf, size_t size);
/* Call once, after the last read. Names that occur twice become one. Returns 0, or -1 without
 * memory. */
int draft_names_sort(struct draft_names *names);
bool draft_names_has(const struct draft_names *names, const char *name);
/* The index of the first name that is `name` (len bytes) or comes after it. */
size_t draft_names_from(const struct draft_names *names, const char *name, size_t len);
void draft_names_done(struct draft_names *names);

#endif
