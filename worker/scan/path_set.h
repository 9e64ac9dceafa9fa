/* SPDX-License-Identifier: Apache-2.0 */
/* A set of paths, of which it keeps only digests. Pure. */
#ifndef KODA_WORKER_SCAN_PATH_SET_H
#define KODA_WORKER_SCAN_PATH_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Paths in one set; a megabyte. */
#define PATH_SET_MAX (64u << 10)

/* Zero-initialise. */
struct path_set {
	uint64_t *slot; /* 0: free */
	size_t n, size;
};

bool path_set_has(const struct path_set *set, const char *path);
/* Returns false if there is no room. */
bool path_set_add(struct path_set *set, const char *path);
void path_set_done(struct path_set *set);

/* Returns the digest of a path or name, never 0. The same for each spelling in upper and lower
 * case. */
uint64_t path_digest(const char *text);

#endif
