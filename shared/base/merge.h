/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three-way merge of texts, line by line: what either side changed since a text that both began with.
 * Where both changed the same lines, or lines next to each other, in different ways, they overlap, and
 * there is no merged text. Pure.
 */
#ifndef KODA_SHARED_BASE_MERGE_H
#define KODA_SHARED_BASE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_text {
	const char *p;
	size_t len;
};

struct merged {
	char *text; /* NULL if they overlap; otherwise the caller's to free */
	size_t len;
	uint64_t overlaps; /* how many places */
	uint64_t line;     /* the first one: its line in `ours`, from 1 */
};

/* Returns false if there is no memory. */
bool merge_texts(const struct merge_text *base, const struct merge_text *ours,
    const struct merge_text *theirs, struct merged *ret);

#endif
