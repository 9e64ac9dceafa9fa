/*
 * Which lines of a file are told, in order: those that match, and the context around them, each once. Numbers are counted
 * only as far as somebody is told one. Decides nothing about matches.
 */
#ifndef KODA_SEARCH_TELL_H
#define KODA_SEARCH_TELL_H

#include "search/grep.h"
#include "search/window.h"

struct tell {
	grep_line_fn *fn;
	void *data;
	unsigned before, after, max_columns;
	/* In the decoded file: lines before `done` have been told or will not be; `line` is the number of the one that
	 * begins at `counted`. */
	uint64_t done, counted, line;
	uint64_t after_left;
};

/* All of them: positions in window->buf; `next` is behind the line's end. Spans count from `start`, and are changed. Non-zero
 * when fn said stop. */
int tell_match(struct tell *tell, const struct window *window, size_t start, size_t end,
    size_t next, struct grep_span *spans, size_t n_spans);
/* The lines before `upto` that are context of what has been told. */
int tell_after(struct tell *tell, const struct window *window, size_t upto);
/* The piece is done with: what has to be kept of it. */
size_t tell_keep(struct tell *tell, const struct window *window);

#endif
