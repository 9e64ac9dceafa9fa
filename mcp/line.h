/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream as lines: received bytes, cut at newlines, and lines waiting to be written. Knows no
 * descriptor; the limits on what a peer can make us hold are here.
 */
#ifndef KODA_MCP_LINE_H
#define KODA_MCP_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* The content of a file arrives as one escaped line. A file larger than a model writes belongs
 * to a command. */
#define LINE_MAX_BYTES (16u << 20)

struct line_reader {
	char *buf;
	size_t size;     /* of buf */
	size_t from, to; /* the bytes in use */
	size_t looked;   /* there is no newline before this */
	bool skipping;   /* dropping the rest of a line that was too long */
};

/* line_room() returns room for *ret_len (above 0) bytes; line_came() then says how many were
 * read into it. */
char *line_room(struct line_reader *r, size_t *ret_len);
void line_came(struct line_reader *r, size_t len);

enum line_result {
	LINE_NONE = 0,
	/* Without its newline and a carriage return before it; valid until the next call. */
	LINE_WHOLE,
	LINE_TOO_LONG, /* reported once per line, as soon as it is known */
};
enum line_result line_next(struct line_reader *r, const char **ret, size_t *ret_len);
/* Returns what came after the last newline, at the end of the stream. */
enum line_result line_rest(struct line_reader *r, const char **ret, size_t *ret_len);
/* Returns whether there is a whole line, or the end of a line that was too long. */
bool line_ready(struct line_reader *r);
void line_done(struct line_reader *r);

struct line_queue {
	char *buf;
	size_t size, from, to;
};

size_t line_queued(const struct line_queue *q);
/* Queues the data, with a newline after it. */
void line_put(struct line_queue *q, const char *data, size_t len);
const char *line_peek(const struct line_queue *q, size_t *ret_len);
void line_drop(struct line_queue *q, size_t len);
void line_queue_done(struct line_queue *q);

#endif
