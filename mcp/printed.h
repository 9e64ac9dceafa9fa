/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a command, in pieces: from an offset on, bounded, cut between characters. Pure. Of
 * each stream the head and the tail were kept; a piece may span the gap between them, and says so.
 */
#ifndef KODA_MCP_PRINTED_H
#define KODA_MCP_PRINTED_H

#include "mcp/text.h"

/* Both point into the output that they were taken from. */
struct printed {
	const char *head, *tail;
	size_t head_len, tail_len;
	uint64_t left_out; /* bytes between the two that were not kept */
	uint64_t next;     /* the offset after this piece */
	bool more;         /* more output that can be shown now follows */
};

/* Room for the longest character, four bytes, so that none is cut. */
#define PRINTED_MIN 4

/* Takes at most max bytes (PRINTED_MIN or more) from that offset on. over: nothing more will be
 * printed, so an incomplete character at the end is shown as it is. */
void printed_take(const struct koda_output *all, uint64_t from, size_t max, bool over,
    struct printed *ret);

/* For a model: as it was printed, except for NUL, at which many JSON readers cut the text or
 * reject it. */
void printed_text(struct text *t, const struct printed *p);
/* For a person's eyes: the lines, with misleading characters escaped. */
void printed_show(struct text *t, const struct printed *p);
/* Returns {text, left_out, tail}; the last two are present only if something was left out. */
json_t *printed_json(const struct printed *p);

#endif
