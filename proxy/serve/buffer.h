/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between two steps of a forward: received and not handled yet, or waiting to be sent. A
 * buffer has a fixed size, and is allocated only while it has bytes. What does not fit is not
 * written, and marks the buffer as full. Knows framing by chunks, and no descriptor.
 */
#ifndef KODA_PROXY_SERVE_BUFFER_H
#define KODA_PROXY_SERVE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* The longest head has to fit, rewritten and with the fields that are added. */
#define BUFFER_SIZE 32768

struct stream_buffer {
	char *p; /* BUFFER_SIZE, or NULL */
	size_t start, end;
	bool full; /* a put did not fit */
};

size_t buffer_filled(const struct stream_buffer *b);
/* Return the first of the bytes. NULL: nothing is allocated. */
const char *buffer_first(const struct stream_buffer *b);
/* Forget the first n bytes. */
void buffer_skip(struct stream_buffer *b, size_t n);
/* Forget all bytes; the memory stays. */
void buffer_empty(struct stream_buffer *b);
/* Free the memory, with all bytes. */
void buffer_clear(struct stream_buffer *b);
/* Free the memory of a buffer without bytes. */
void buffer_clear_idle(struct stream_buffer *b);

/* Return the room at the end; moves the content to the front first if no pointers into it are
 * held. 0: also if memory is short. */
size_t buffer_room(struct stream_buffer *b, bool held);
void buffer_put(struct stream_buffer *b, const void *bytes, size_t n);
/* Account for n bytes that a rewrite function wrote at the end; 0: they did not fit. */
void buffer_put_written(struct stream_buffer *b, size_t n);

/* Return how much content fits, as a chunk or not. */
size_t buffer_content_room(struct stream_buffer *b);
void buffer_put_content(struct stream_buffer *b, const char *content, size_t n, bool chunked);
/* End content written with buffer_put_content(). */
void buffer_put_end(struct stream_buffer *b, bool chunked);

#endif
