/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/side.h"

void
side_init(struct side *s, struct ev_loop *loop, side_event_fn *fn, void *data)
{
	s->loop = loop;
	stream_init(&s->s, -1, NULL);
	ev_init(&s->io, fn);
	s->io.data = data;
}

void
side_open(struct side *s, const struct stream *stream)
{
	s->s = *stream;
	s->can_read = s->can_write = true;
	s->ended = s->broken = s->mute = s->shut = false;
}

void
side_close(struct side *s, bool reset)
{
	ev_io_stop(s->loop, &s->io);
	if (reset)
		stream_abort(&s->s);
	else
		stream_done(&s->s);
	buffer_clear(&s->in);
	buffer_clear(&s->out);
}

bool
side_fill(struct side *s, bool held)
{
	size_t n = s->can_read && !s->ended ? buffer_room(&s->in, held) : 0;
	ssize_t r;

	if (n == 0)
		return false;
	r = stream_read(&s->s, s->in.p + s->in.end, n);
	if (r == 0) {
		s->can_read = false;
		return false;
	}
	if (r < 0) {
		s->ended = true;
		s->broken = !s->s.eof;
		return true;
	}
	s->in.end += (size_t)r;
	/* After a short read a socket is most likely empty; if not, an event comes. */
	if ((size_t)r < n && s->s.ssl == NULL)
		s->can_read = false;
	return true;
}

static bool
send_from(struct side *s, struct stream_buffer *from, uint64_t *count)
{
	ssize_t r;

	if (buffer_filled(from) == 0 || !s->can_write || s->s.fd < 0)
		return false;
	if (s->mute) {
		buffer_empty(from);
		return true;
	}
	r = stream_write(&s->s, buffer_first(from), buffer_filled(from));
	if (r == 0) {
		s->can_write = false;
		return false;
	}
	if (r < 0) {
		s->mute = true;
		buffer_empty(from);
		return true;
	}
	buffer_skip(from, (size_t)r);
	if (buffer_filled(from) == 0)
		buffer_empty(from);
	if (count != NULL)
		*count += (uint64_t)r;
	return true;
}

bool
side_flush(struct side *s, uint64_t *count)
{
	return send_from(s, &s->out, count);
}

bool
side_pump(struct side *from, struct side *to, uint64_t *count)
{
	bool progress = send_from(to, &from->in, count);

	if (from->ended && buffer_filled(&from->in) == 0 && buffer_filled(&to->out) == 0 &&
	    !to->shut) {
		stream_shut(&to->s);
		to->shut = true;
		progress = true;
	}
	return progress;
}

void
side_watch(struct side *s, bool reads, bool writes)
{
	int events = (reads ? s->s.read_waits : 0) | (writes ? s->s.write_waits : 0);

	if (ev_is_active(&s->io) && s->io.fd == s->s.fd &&
	    (s->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(s->loop, &s->io);
	if (events == 0 || s->s.fd < 0)
		return;
	ev_io_set(&s->io, s->s.fd, events);
	ev_io_start(s->loop, &s->io);
}

void
side_clear_idle(struct side *s)
{
	buffer_clear_idle(&s->in);
	buffer_clear_idle(&s->out);
}
