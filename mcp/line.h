/*
 * A stream as lines: bytes that came in, cut at newlines, and lines that wait to be written. Knows no descriptor; what a
 * peer can make us hold has its limit here.
 */
#ifndef KODA_MCP_LINE_H
#define KODA_MCP_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* The content of a file comes as one line, escaped. What is larger than a model writes belongs to a command. */
#define LINE_MAX_BYTES (16u << 20)

struct line_reader {
	char *buf;
	size_t size;     /* of buf */
	size_t from, to; /* what is in it */
	size_t looked;   /* no newline before it */
	bool skipping;   /* the rest of a line that was too long */
};

/* Room for *ret_len (above 0) bytes that come next; then tell how many came. */
char *line_room(struct line_reader *r, size_t *ret_len);
void line_came(struct line_reader *r, size_t len);

enum line_result {
	LINE_NONE = 0,
	LINE_WHOLE, /* without its newline, and a carriage return before that; valid until the next call */
	LINE_TOO_LONG, /* once a line, when it is known */
};
enum line_result line_next(struct line_reader *r, const char **ret, size_t *ret_len);
/* What came after the last newline, at the end of the stream. */
enum line_result line_rest(struct line_reader *r, const char **ret, size_t *ret_len);
/* Is there a whole line, or the end of a long one? */
bool line_ready(struct line_reader *r);
void line_done(struct line_reader *r);

struct line_queue {
	char *buf;
	size_t size, from, to;
};

size_t line_queued(const struct line_queue *q);
/* With a newline behind it. */
void line_put(struct line_queue *q, const char *data, size_t len);
const char *line_peek(const struct line_queue *q, size_t *ret_len);
void line_drop(struct line_queue *q, size_t len);
void line_queue_done(struct line_queue *q);

#endif
