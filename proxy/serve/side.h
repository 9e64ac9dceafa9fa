/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a forward, the client's or the server's: a stream, the buffers of its two directions,
 * and what is known of its state. Moves bytes between stream and buffers, and waits for the
 * stream's events. What the bytes mean is not known here.
 */
#ifndef KODA_PROXY_SERVE_SIDE_H
#define KODA_PROXY_SERVE_SIDE_H

#include <ev.h>
#include <stdint.h>

#include "proxy/serve/buffer.h"
#include "proxy/serve/stream.h"

struct side {
	struct ev_loop *loop;
	struct stream s; /* fd -1: none */
	ev_io io;
	struct stream_buffer in, out;
	bool can_read, can_write; /* as far as is known */
	bool ended;               /* no more input */
	bool broken;              /* it did not end properly */
	bool mute;                /* accepts no more output */
	bool shut;
};

typedef void side_event_fn(struct ev_loop *loop, ev_io *w, int events);

/* Initialise a side without a stream. Its watcher calls fn, and has data. */
void side_init(struct side *s, struct ev_loop *loop, side_event_fn *fn, void *data);
/* Take a stream. The buffers stay as they are. */
void side_open(struct side *s, const struct stream *stream);
/* Close the stream and free the buffers. reset: reset the connection (stream_abort). */
void side_close(struct side *s, bool reset);

/* Read what fits. held: pointers into s->in are held. Returns whether anything happened. */
bool side_fill(struct side *s, bool held);
/* Send what s->out has. count, unless NULL, grows by what was sent. Returns whether anything
 * happened. */
bool side_flush(struct side *s, uint64_t *count);
/* Send to `to` what has come from `from`, and its end, too. Returns whether anything happened. */
bool side_pump(struct side *from, struct side *to, uint64_t *count);

/* Wait for the events that reading and writing need. */
void side_watch(struct side *s, bool reads, bool writes);
/* Free the buffers that are empty. */
void side_clear_idle(struct side *s);

#endif
