/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIPE_BYTES    (1 << 20) /* the most an ordinary user may set: fewer wake-ups in a flood */
#define CHUNK         (256u << 10)
#define READS_AT_ONCE 16 /* then the loop does its other work */
#define START_BYTES   4096

void
capture_none(struct capture *c)
{
	*c = (struct capture){ .fd = -1 };
}

int
capture_open(struct capture *c, uint64_t max, int *ret_write, struct koda_error *err)
{
	int pair[2];

	capture_none(c);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, KODA_INTERNAL, errno, "pipe");
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	/* A smaller pipe only means more wake-ups. */
	c->wide = fcntl(pair[0], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES;
	c->fd = pair[0];
	c->head_max = (size_t)(max / 2);
	c->ring_max = (size_t)(max - max / 2);
	*ret_write = pair[1];
	return 0;
}

void
capture_done(struct capture *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->head);
	free(c->ring);
	capture_none(c);
}

static bool
grow(uint8_t **buf, size_t *size, size_t want, size_t max)
{
	size_t to = *size == 0 ? START_BYTES : *size;
	uint8_t *more;

	while (to < want)
		to *= 2;
	if (to > max)
		to = max;
	more = realloc(*buf, to);
	if (more == NULL)
		return false;
	*buf = more;
	*size = to;
	return true;
}

/* Returns where the next bytes go, and how many fit there; *ret_len 0: they are dropped. */
static uint8_t *
room(struct capture *c, size_t *ret_len)
{
	if (c->head_len < c->head_max) {
		/* Memory is short: what comes now goes to the tail. */
		if (c->head_len == c->head_size &&
		    !grow(&c->head, &c->head_size, c->head_len + 1, c->head_max))
			c->head_max = c->head_len;
		else {
			*ret_len = c->head_size - c->head_len;
			return c->head + c->head_len;
		}
	}
	/* The ring grows until it reaches its maximum; then it is overwritten from the start, again
	 * and again. */
	if (c->ring_at == c->ring_size && c->ring_size < c->ring_max &&
	    !grow(&c->ring, &c->ring_size, c->ring_size + 1, c->ring_max))
		c->ring_max = c->ring_size;
	if (c->ring_at == c->ring_size)
		c->ring_at = 0;
	*ret_len = c->ring_size - c->ring_at;
	return c->ring + c->ring_at;
}

bool
capture_read(struct capture *c)
{
	uint8_t sink[START_BYTES];

	for (int i = 0; i < READS_AT_ONCE && c->fd >= 0; i++) {
		size_t len;
		uint8_t *to = room(c, &len);
		bool keep = len > 0;
		ssize_t n;

		if (!keep) {
			to = sink;
			len = sizeof(sink);
		}
		if (len > CHUNK)
			len = CHUNK;
		n = read(c->fd, to, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0) {
			close(c->fd);
			c->fd = -1;
			return false;
		}
		c->total += (uint64_t)n;
		if (!keep)
			continue;
		if (c->head_len < c->head_max)
			c->head_len += (size_t)n;
		else
			c->ring_at += (size_t)n;
		if ((size_t)n < len)
			return true; /* a short read: the pipe is probably empty */
	}
	return c->fd >= 0;
}

bool
capture_floods(const struct capture *c)
{
	return c->fd >= 0 && c->wide && c->total > c->head_max + c->ring_max;
}

static void
reverse(uint8_t *from, uint8_t *to)
{
	while (from < to) {
		uint8_t b = *from;

		*from++ = *--to;
		*to = b;
	}
}

void
capture_get(struct capture *c, struct koda_output *ret)
{
	uint64_t behind = c->total - c->head_len; /* bytes that came after the head */

	*ret = (struct koda_output){
		.head = (const char *)c->head,
		.head_len = c->head_len,
		.tail = (const char *)c->ring,
		.total = c->total,
	};
	if (behind <= c->ring_at) {
		ret->tail_len = (size_t)behind;
		return;
	}
	/* The ring has wrapped: the oldest byte is where the next one would go. If it is straight
	 * already nothing is moved, because some callers look often. */
	if (c->ring_at < c->ring_size) {
		reverse(c->ring, c->ring + c->ring_at);
		reverse(c->ring + c->ring_at, c->ring + c->ring_size);
		reverse(c->ring, c->ring + c->ring_size);
		c->ring_at = c->ring_size;
	}
	ret->tail_len = c->ring_size;
	ret->left_out = behind - c->ring_size;
}
