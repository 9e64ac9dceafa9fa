/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/serve/rewrite.h"

size_t
buffer_filled(const struct stream_buffer *b)
{
	return b->end - b->start;
}

const char *
buffer_first(const struct stream_buffer *b)
{
	return b->p + b->start;
}

void
buffer_skip(struct stream_buffer *b, size_t n)
{
	b->start += n;
}

void
buffer_empty(struct stream_buffer *b)
{
	b->start = b->end = 0;
}

void
buffer_clear(struct stream_buffer *b)
{
	free(b->p);
	*b = (struct stream_buffer){ 0 };
}

void
buffer_clear_idle(struct stream_buffer *b)
{
	if (b->p != NULL && b->start == b->end)
		buffer_clear(b);
}

size_t
buffer_room(struct stream_buffer *b, bool held)
{
	if (b->p == NULL && (b->p = malloc(BUFFER_SIZE)) == NULL)
		return 0;
	if (!held && b->start > 0) {
		if (b->start == b->end)
			b->start = b->end = 0;
		else if (b->end > BUFFER_SIZE / 2) {
			memmove(b->p, b->p + b->start, buffer_filled(b));
			b->end -= b->start;
			b->start = 0;
		}
	}
	return BUFFER_SIZE - b->end;
}

void
buffer_put(struct stream_buffer *b, const void *bytes, size_t n)
{
	if (n == 0)
		return;
	if (n > buffer_room(b, false)) {
		b->full = true;
		return;
	}
	memcpy(b->p + b->end, bytes, n);
	b->end += n;
}

void
buffer_put_written(struct stream_buffer *b, size_t n)
{
	if (n == 0)
		b->full = true;
	b->end += n;
}

static void
put_chunk(struct stream_buffer *b, const char *content, size_t n)
{
	size_t size = buffer_room(b, false);

	buffer_put_written(b, rewrite_chunk(content, n, b->p + b->end, size));
}

size_t
buffer_content_room(struct stream_buffer *b)
{
	size_t n = buffer_room(b, false);

	return n > REWRITE_CHUNK_MAX ? n - REWRITE_CHUNK_MAX : 0;
}

void
buffer_put_content(struct stream_buffer *b, const char *content, size_t n, bool chunked)
{
	if (!chunked)
		buffer_put(b, content, n);
	else if (n > 0)
		put_chunk(b, content, n);
}

void
buffer_put_end(struct stream_buffer *b, bool chunked)
{
	if (chunked)
		put_chunk(b, NULL, 0);
}
