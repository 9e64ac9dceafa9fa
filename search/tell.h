/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the lines of a file that are reported, in order: those that match, and the context around
 * them, each once. Lines are counted only as far as needed for a reported number. Decides nothing
 * about matches.
 */
#ifndef KODA_SEARCH_TELL_H
#define KODA_SEARCH_TELL_H

#include "search/grep_line.h"
#include "search/window.h"

struct tell {
	grep_line_fn *fn;
	void *data;
	unsigned before, after, max_columns;
	/* Offsets in the decoded file: lines before `done` were reported or will not be; `line`
	 * is the number of the line that begins at `counted`. */
	uint64_t done, counted, line;
	uint64_t after_left;
};

/*
 * Reports a matching line and the context before it. start, end, next: positions in window->buf;
 * `next` is after the line's end. Spans count from `start`, and are modified. Returns non-zero
 * if fn returned non-zero, to stop.
 */
int tell_match(struct tell *tell, const struct window *window, size_t start, size_t end,
    size_t next, struct grep_span *spans, size_t n_spans);
/* Reports the lines before `upto` that are context of an earlier match. Returns like
 * tell_match(). */
int tell_after(struct tell *tell, const struct window *window, size_t upto);
/* Called at the end of a piece. Returns the position from which it has to be kept, for context. */
size_t tell_keep(struct tell *tell, const struct window *window);

#endif
