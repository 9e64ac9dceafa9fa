/*
 * What a command printed, in pieces: from an offset on, bounded, cut between characters. Pure. What was kept of a stream
 * is its head and its tail; a piece may go over what is missing between them, and says so.
 */
#ifndef KODA_MCP_PRINTED_H
#define KODA_MCP_PRINTED_H

#include "mcp/text.h"

/* Both point into what they were taken from. */
struct printed {
	const char *head, *tail;
	size_t head_len, tail_len;
	uint64_t left_out; /* bytes between the two that were not kept */
	uint64_t next;     /* the offset behind it */
	bool more;         /* something that can be shown now is behind it */
};

/* A character is never cut off by it, and has four bytes at most. */
#define PRINTED_MIN 4

/* From that offset on, at most max (PRINTED_MIN and above) bytes. over: nothing more will be printed, so what looks like
 * the beginning of a character is none. */
void printed_take(const struct koda_output *all, uint64_t from, size_t max, bool over,
    struct printed *ret);

/* For a model: as it was printed, but for NUL, which many a reader of JSON cuts or refuses. */
void printed_text(struct text *t, const struct printed *p);
/* For a person's eyes: its lines, with what deceives them escaped. */
void printed_show(struct text *t, const struct printed *p);
/* {text, left_out, tail}: the second and third only where something was left out. */
json_t *printed_json(const struct printed *p);

#endif
