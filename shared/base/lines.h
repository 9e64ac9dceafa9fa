/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts as lines, and which lines differ between two of them. Bounded: of texts that differ too much
 * everything between the first and the last difference counts as different.
 */
#ifndef KODA_SHARED_BASE_LINES_H
#define KODA_SHARED_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct line {
	const char *p;
	size_t len; /* including its newline, if it has one */
};

struct lines {
	struct line *line;
	size_t n;
};

/* The lines point into the text; ret->line is the caller's to free. Returns false if there is no
 * memory. */
bool lines_split(struct lines *ret, const char *p, size_t len);
bool line_ends(const struct line *line);
bool line_is(const struct line *a, const struct line *b);

/* Two texts, and which lines of a are removed and which of b are added. */
struct lines_diff {
	struct lines a, b;
	bool *gone, *come;
};

/*
 * Finds the changes; fewest: as few as possible, else all between the first and the last one.
 * Returns false if there is no memory. Call lines_diff_done() in either case.
 */
bool lines_compare(struct lines_diff *d, const void *old_text, size_t old_len, const void *new_text,
    size_t new_len, bool fewest);
void lines_diff_done(struct lines_diff *d);

#endif
