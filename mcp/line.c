/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/line.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/memory.h"

/* How much is read at once, and the size that a buffer shrinks back to, so that one long line
 * does not cost memory for ever. */
#define ROOM (64u << 10)

char *
line_room(struct line_reader *r, size_t *ret_len)
{
	if (r->from == r->to) {
		r->from = r->to = r->looked = 0;
		if (r->size > 2 * ROOM) {
			free(r->buf);
			r->buf = NULL;
			r->size = 0;
		}
	}
	if (r->from > 0 && r->size - r->to < ROOM) {
		memmove(r->buf, r->buf + r->from, r->to - r->from);
		r->to -= r->from;
		r->looked -= r->from;
		r->from = 0;
	}
	if (r->size - r->to < ROOM) {
		/* Doubled, so that a long line is not copied once per piece. */
		r->size = r->size * 2 > r->to + ROOM ? r->size * 2 : r->to + ROOM;
		r->buf = memory_resize(r->buf, r->size);
	}
	*ret_len = ROOM;
	return r->buf + r->to;
}

void
line_came(struct line_reader *r, size_t len)
{
	r->to += len;
}

static char *
newline(struct line_reader *r)
{
	char *p;

	if (r->looked == r->to)
		return NULL;
	p = memchr(r->buf + r->looked, '\n', r->to - r->looked);
	r->looked = p != NULL ? (size_t)(p - r->buf) : r->to;
	return p;
}

bool
line_ready(struct line_reader *r)
{
	return newline(r) != NULL || (!r->skipping && r->to - r->from > LINE_MAX_BYTES);
}

enum line_result
line_next(struct line_reader *r, const char **ret, size_t *ret_len)
{
	const char *end;
	size_t len;

	for (;;) {
		end = newline(r);
		if (end == NULL && r->to - r->from <= LINE_MAX_BYTES && !r->skipping)
			return LINE_NONE;
		if (end == NULL) {
			bool known = r->skipping;

			r->skipping = true;
			r->from = r->looked = r->to;
			return known ? LINE_NONE : LINE_TOO_LONG;
		}
		*ret = r->buf + r->from;
		len = (size_t)(end - *ret);
		r->from += len + 1;
		r->looked = r->from;
		if (!r->skipping)
			break;
		r->skipping = false;
	}
	if (len > LINE_MAX_BYTES)
		return LINE_TOO_LONG;
	if (len > 0 && (*ret)[len - 1] == '\r')
		len--;
	*ret_len = len;
	return LINE_WHOLE;
}

enum line_result
line_rest(struct line_reader *r, const char **ret, size_t *ret_len)
{
	if (r->skipping || r->from == r->to)
		return LINE_NONE;
	*ret = r->buf + r->from;
	*ret_len = r->to - r->from;
	r->from = r->looked = r->to;
	return *ret_len > LINE_MAX_BYTES ? LINE_TOO_LONG : LINE_WHOLE;
}

void
line_done(struct line_reader *r)
{
	free(r->buf);
	*r = (struct line_reader){ 0 };
}

size_t
line_queued(const struct line_queue *q)
{
	return q->to - q->from;
}

void
line_put(struct line_queue *q, const char *data, size_t len)
{
	if (q->from > 0 && q->size - q->to < len + 1) {
		memmove(q->buf, q->buf + q->from, q->to - q->from);
		q->to -= q->from;
		q->from = 0;
	}
	if (q->size - q->to < len + 1) {
		q->size = q->size * 2 > q->to + len + 1 ? q->size * 2 : q->to + len + 1;
		q->buf = memory_resize(q->buf, q->size);
	}
	memcpy(q->buf + q->to, data, len);
	q->buf[q->to + len] = '\n';
	q->to += len + 1;
}

const char *
line_peek(const struct line_queue *q, size_t *ret_len)
{
	*ret_len = line_queued(q);
	return *ret_len > 0 ? q->buf + q->from : NULL;
}

void
line_drop(struct line_queue *q, size_t len)
{
	q->from += len;
	if (q->from < q->to)
		return;
	q->from = q->to = 0;
	if (q->size > ROOM)
		line_queue_done(q);
}

void
line_queue_done(struct line_queue *q)
{
	free(q->buf);
	*q = (struct line_queue){ 0 };
}
