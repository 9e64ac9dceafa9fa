/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply to a Tree: each directory with the number and size of all files below it. These are
 * known only after the directory was walked, but it is reported before its contents: so all entries
 * to report are kept until the end. Pure except for allocation.
 */
#ifndef KODA_SEARCH_LISTING_H
#define KODA_SEARCH_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct listing_entry {
	size_t name; /* offset of the path in listing.text */
	size_t len;
	uint64_t size, files;
	uint32_t depth;
	uint32_t type; /* Koda__FileType */
};

struct tree_listing {
	unsigned max_depth; /* 0: all */
	uint64_t limit;
	struct listing_entry *v;
	size_t n, size;
	char *text;
	size_t text_len, text_size;
	bool more; /* entries were left out because of the limit */
	/* The directories on the way to the walk's position: index of their entry, or NONE for
	 * one that is not reported. */
	size_t *open;
	size_t n_open, open_size;
	uint64_t files, bytes;
};

void listing_init(struct tree_listing *l, unsigned max_depth, uint64_t limit);
void listing_done(struct tree_listing *l);

/* Record that a directory is entered or left, or that something else is found, in the order of
 * the walk. Return 0, or -1 with *err set. */
int listing_enter(struct tree_listing *l, const char *path, size_t len, uint32_t depth,
    struct koda_error *err);
void listing_leave(struct tree_listing *l);
int listing_file(struct tree_listing *l, const char *path, size_t len, uint32_t depth,
    uint32_t type, uint64_t size, struct koda_error *err);

#endif
