/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* Copies go through one buffer shared by all relays. A read that fills half of it means bulk: a
 * reader that is fast enough to take each segment as it arrives gets a little less than 64 KiB
 * at a time, and splice is cheaper for that, too. */
#define COPY_MAX  (64u << 10)
#define COPY_BULK (COPY_MAX / 2)
/* A splice that moves less than this means the end of bulk: either way takes two system calls. */
#define BULK_MIN (16u << 10)
/* With less than half a pipe of this size the cost per byte rises (measured on loopback); more
 * gains nothing. */
#define PIPE_BYTES (1u << 20)
#define PIPE_LEAST (64u << 10)
/* The kernel gives an ordinary user 64 such pipes in all, and commands' output needs some of
 * them. A relay without a pipe copies. */
#define PIPES_MAX  16
#define PIPES_KEPT 4
/* After a refusal for want of descriptors or pipe pages, do not retry at each read. */
#define PIPE_REST_SECS 1.0
/* What one direction moves before the others get their turn: under a millisecond. */
#define TURN_BYTES (1u << 20)
/* One side is gone: how long the other may make no progress with what it still has to receive. */
#define LINGER_SECS 30.0

struct pipe {
	struct pipe *next;
	int r, w;
	size_t size;
};

struct relay_pool {
	struct pipe *kept;
	size_t n_kept, n;
	ev_tstamp rest_until;
	unsigned char copy[COPY_MAX]; /* empty between two calls */
};

/* One direction. Bytes wait in buf, and after them in the pipe. */
struct relay_way {
	int from, to;
	bool bulk;
	bool no_splice;
	bool eof;   /* nothing more will be read */
	bool cut;   /* bytes of the sender may be missing */
	bool over;  /* nothing more will be written */
	bool whole; /* the receiver was sent the end: shut */
	uint64_t *count;
	unsigned char *buf;
	size_t off, len;
	struct pipe *pipe; /* only while bytes are in it */
	size_t in_pipe;
};

struct relay {
	struct relay_pool *pool;
	struct ev_loop *loop;
	ev_io client, server;
	ev_timer idle; /* not restarted per byte: checks `last` when it fires */
	ev_tstamp last;
	struct relay_way up, down;
	bool broken;
	relay_fn *fn;
	void *data;
};

struct relay_pool *
relay_pool_new(void)
{
	return calloc(1, sizeof(struct relay_pool));
}

static void
pipe_free(struct relay_pool *pool, struct pipe *p)
{
	close(p->r);
	close(p->w);
	free(p);
	pool->n--;
}

void
relay_pool_free(struct relay_pool *pool)
{
	struct pipe *p;

	if (pool == NULL)
		return;
	while ((p = pool->kept) != NULL) {
		pool->kept = p->next;
		pipe_free(pool, p);
	}
	free(pool);
}

static struct pipe *
pipe_new(void)
{
	static const size_t sizes[] = { PIPE_BYTES, PIPE_BYTES / 4, PIPE_LEAST };
	struct pipe *p = calloc(1, sizeof(*p));
	int fds[2];

	if (p == NULL)
		return NULL;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(p);
		return NULL;
	}
	p->r = fds[0];
	p->w = fds[1];
	for (size_t i = 0; i < N_ELEMENTS(sizes) && p->size < PIPE_LEAST; i++) {
		int size = fcntl(p->w, F_SETPIPE_SZ, (int)sizes[i]);

		if (size > 0)
			p->size = (size_t)size;
	}
	if (p->size >= PIPE_LEAST)
		return p;
	close(p->r);
	close(p->w);
	free(p);
	return NULL;
}

static struct pipe *
pipe_take(struct relay *r)
{
	struct relay_pool *pool = r->pool;
	struct pipe *p = pool->kept;

	if (p != NULL) {
		pool->kept = p->next;
		pool->n_kept--;
		return p;
	}
	if (pool->n >= PIPES_MAX || ev_now(r->loop) < pool->rest_until)
		return NULL;
	p = pipe_new();
	if (p == NULL)
		pool->rest_until = ev_now(r->loop) + PIPE_REST_SECS;
	else
		pool->n++;
	return p;
}

/* A pipe with bytes in it is closed, never reused: the bytes belong to another connection. */
static void
pipe_give(struct relay_pool *pool, struct relay_way *w)
{
	struct pipe *p = take_ptr(&w->pipe);

	if (p == NULL)
		return;
	if (w->in_pipe > 0 || pool->n_kept >= PIPES_KEPT) {
		w->in_pipe = 0;
		pipe_free(pool, p);
		return;
	}
	p->next = pool->kept;
	pool->kept = p;
	pool->n_kept++;
}

static void
way_release(struct relay_pool *pool, struct relay_way *w)
{
	pipe_give(pool, w);
	free(w->buf);
	w->buf = NULL;
	w->len = 0;
}

/* ---- moving bytes ---- */

static void
on_broken(struct relay *r)
{
	if (r->broken)
		return;
	r->broken = true;
	ev_timer_stop(r->loop, &r->idle);
	ev_timer_set(&r->idle, LINGER_SECS, 0);
	ev_timer_start(r->loop, &r->idle);
}

static struct relay_way *
other(struct relay *r, struct relay_way *w)
{
	return w == &r->up ? &r->down : &r->up;
}

/* The receiver is gone. The other direction still reads what it has sent. EPIPE means that the
 * receiver ended its own stream before (a server that answers early and closes); after any other
 * error the end that will be read is not a real one. */
static void
way_dead(struct relay *r, struct relay_way *w, int errnum)
{
	w->eof = w->over = true;
	way_release(r->pool, w);
	if (errnum != EPIPE)
		other(r, w)->cut = true;
	on_broken(r);
}

/* The sender is gone, by an error: what it had sent is still delivered, and nothing more is sent
 * to it. */
static void
way_cut(struct relay *r, struct relay_way *w)
{
	w->eof = w->cut = true;
	way_dead(r, other(r, w), EPIPE);
}

static void
moved(struct relay *r, struct relay_way *w, size_t n)
{
	*w->count += n;
	r->last = ev_now(r->loop);
}

/* Returns -1: not now, or never (over). */
static ssize_t
put(struct relay *r, struct relay_way *w, const unsigned char *bytes, size_t n, int flags)
{
	ssize_t k;

	do
		k = send(w->to, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
	while (k < 0 && errno == EINTR);
	if (k >= 0)
		moved(r, w, (size_t)k);
	else if (errno != EAGAIN)
		way_dead(r, w, errno);
	return k;
}

/* Returns true when nothing waits. */
static bool
drain(struct relay *r, struct relay_way *w)
{
	while (w->len > 0) {
		ssize_t n = put(r, w, w->buf + w->off, w->len, 0);

		if (n < 0)
			return false;
		w->off += (size_t)n;
		w->len -= (size_t)n;
	}
	free(w->buf);
	w->buf = NULL;
	while (w->in_pipe > 0) {
		ssize_t n = splice(w->pipe->r, NULL, w->to, NULL, w->in_pipe,
		    SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n <= 0) {
			way_dead(r, w, n < 0 ? errno : EIO);
			return false;
		}
		w->in_pipe -= (size_t)n;
		moved(r, w, (size_t)n);
	}
	pipe_give(r->pool, w);
	return true;
}

static bool
keep(struct relay_way *w, const unsigned char *bytes, size_t n)
{
	w->buf = malloc(n);
	if (w->buf == NULL)
		return false;
	memcpy(w->buf, bytes, n);
	w->off = 0;
	w->len = n;
	return true;
}

static ssize_t
get(struct relay_way *w, unsigned char *bytes, size_t size)
{
	ssize_t n;

	do
		n = recv(w->from, bytes, size, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

static size_t
copy(struct relay *r, struct relay_way *w)
{
	unsigned char *bytes = r->pool->copy;
	ssize_t n = get(w, bytes, COPY_MAX), more = -1, k;
	int errnum = n < 0 ? errno : 0;

	/* A sender's last bytes are directly followed by its end. Reading once more saves a trip
	 * through the loop, and the end goes out with the bytes. */
	if (n > 0 && n < (ssize_t)COPY_BULK) {
		more = get(w, bytes + n, (size_t)(COPY_MAX - n));
		errnum = more < 0 ? errno : 0;
		n += more > 0 ? more : 0;
	}
	w->eof = n == 0 || more == 0;
	if (n > 0) {
		w->bulk = n >= (ssize_t)COPY_BULK && !w->no_splice;
		k = put(r, w, bytes, (size_t)n, w->eof ? MSG_MORE : 0);
		if (!w->over && k < n) {
			k = k < 0 ? 0 : k;
			if (!keep(w, bytes + k, (size_t)(n - k)))
				/* To end the stream is better than to leave a hole in it. */
				way_dead(r, w, ENOMEM);
		}
	}
	if (errnum != 0 && errnum != EAGAIN && !w->over)
		way_cut(r, w);
	return n > 0 ? (size_t)n : 0;
}

/* Splice into the empty pipe. Returns how many bytes came; 0: none now, or the end. */
static size_t
fill_pipe(struct relay *r, struct relay_way *w)
{
	ssize_t n;

	do
		n = splice(w->from, NULL, w->pipe->w, NULL, w->pipe->size,
		    SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		w->in_pipe = (size_t)n;
		w->bulk = n >= (ssize_t)BULK_MIN;
		return (size_t)n;
	}
	pipe_give(r->pool, w);
	if (n == 0) {
		/* The end, or a byte of TCP's urgent data, at which splice() stops for ever.
		 * recv() can tell, and reads past it. */
		w->bulk = false;
		return copy(r, w);
	} else if (errno == EINVAL) {
		/* This kind of socket has no splice: copy from the next read on. */
		w->no_splice = true;
		w->bulk = false;
	} else if (errno != EAGAIN) {
		way_cut(r, w);
	}
	return 0;
}

static void
pump(struct relay *r, struct relay_way *w)
{
	size_t turn = 0;

	while (!w->over && drain(r, w)) {
		size_t n;

		if (w->eof) {
			w->over = true;
			if (!w->cut)
				w->whole = shutdown(w->to, SHUT_WR) == 0;
			return;
		}
		if (turn >= TURN_BYTES)
			return;
		if (w->bulk)
			w->pipe = pipe_take(r);
		n = w->pipe != NULL ? fill_pipe(r, w) : copy(r, w);
		/* A wake-up without bytes: an urgent byte may be in the way. */
		if (n == 0 && turn == 0)
			w->bulk = false;
		turn += n;
		/* Nothing, or less than there was room for: the socket is empty. */
		if (!w->eof && (n == 0 || (!w->bulk && w->in_pipe == 0)))
			return;
	}
}

/* ---- the relay ---- */

static void
reset_on_close(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
	    sizeof(struct linger));
}

static void
relay_free(struct relay *r)
{
	/* A side that was not sent the end of its stream must not take the close for it. */
	if (!r->up.whole)
		reset_on_close(r->up.to);
	if (!r->down.whole)
		reset_on_close(r->down.to);
	ev_io_stop(r->loop, &r->client);
	ev_io_stop(r->loop, &r->server);
	ev_timer_stop(r->loop, &r->idle);
	way_release(r->pool, &r->up);
	way_release(r->pool, &r->down);
	close(r->up.from);
	close(r->up.to);
	free(r);
}

static void
end(struct relay *r, enum relay_end why)
{
	relay_fn *fn = r->fn;
	void *data = r->data;

	relay_free(r);
	fn(data, why);
}

static void
want(struct relay *r, ev_io *io, int events)
{
	if ((io->events & (EV_READ | EV_WRITE)) == events)
		return;
	if (events == 0) {
		ev_io_stop(r->loop, io);
		ev_io_modify(io, 0);
		return;
	}
	ev_io_stop(r->loop, io);
	ev_io_modify(io, events);
	ev_io_start(r->loop, io);
}

static bool
waits_to_write(const struct relay_way *w)
{
	return !w->over && (w->len > 0 || w->in_pipe > 0);
}

static bool
waits_to_read(const struct relay_way *w)
{
	return !w->over && !w->eof && w->len == 0 && w->in_pipe == 0;
}

static void
watch(struct relay *r)
{
	want(r, &r->client,
	    (waits_to_read(&r->up) ? EV_READ : 0) | (waits_to_write(&r->down) ? EV_WRITE : 0));
	want(r, &r->server,
	    (waits_to_read(&r->down) ? EV_READ : 0) | (waits_to_write(&r->up) ? EV_WRITE : 0));
}

static void
settle(struct relay *r)
{
	if (r->up.over && r->down.over)
		end(r, r->broken ? RELAY_BROKEN : RELAY_DONE);
	else
		watch(r);
}

static void
on_ready(struct relay *r, struct relay_way *reads, struct relay_way *writes, int revents)
{
	if (revents & EV_WRITE)
		pump(r, writes);
	/* writes may have found its receiver gone: that side's last bytes are read nevertheless. */
	if (revents & EV_READ || (writes->over && !reads->over))
		pump(r, reads);
	settle(r);
}

static void
on_client(struct ev_loop *loop, ev_io *io, int revents)
{
	struct relay *r = io->data;

	on_ready(r, &r->up, &r->down, revents);
}

static void
on_server(struct ev_loop *loop, ev_io *io, int revents)
{
	struct relay *r = io->data;

	on_ready(r, &r->down, &r->up, revents);
}

static void
on_idle(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct relay *r = t->data;
	ev_tstamp limit = r->broken ? LINGER_SECS : PROXY_IDLE_SECS;
	ev_tstamp left = r->last + limit - ev_now(loop);

	if (left <= 0 || (r->up.over && r->down.over)) {
		end(r, r->broken ? RELAY_BROKEN : RELAY_IDLE);
		return;
	}
	ev_timer_set(t, left, 0);
	ev_timer_start(loop, t);
}

struct relay *
relay_start(struct proxy *p, int client, int server, const void *up, size_t n_up, const void *down,
    size_t n_down, struct account *account, relay_fn *fn, void *data)
{
	struct relay *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->up = (struct relay_way){ .from = client, .to = server, .count = &account->up };
	r->down = (struct relay_way){ .from = server, .to = client, .count = &account->down };
	if ((n_up > 0 && !keep(&r->up, up, n_up)) ||
	    (n_down > 0 && !keep(&r->down, down, n_down))) {
		free(r->up.buf);
		free(r->down.buf);
		free(r);
		return NULL;
	}
	r->pool = p->pool;
	r->loop = p->loop;
	r->last = ev_now(p->loop);
	r->fn = fn;
	r->data = data;
	ev_io_init(&r->client, on_client, client, 0);
	ev_io_init(&r->server, on_server, server, 0);
	ev_timer_init(&r->idle, on_idle, PROXY_IDLE_SECS, 0);
	r->client.data = r->server.data = r->idle.data = r;
	ev_timer_start(p->loop, &r->idle);
	/* Saves a trip through the loop. */
	if (n_up > 0)
		drain(r, &r->up);
	if (n_down > 0)
		drain(r, &r->down);
	watch(r);
	/* No event would wake this relay. */
	if (r->up.over && r->down.over) {
		ev_timer_stop(p->loop, &r->idle);
		ev_timer_set(&r->idle, 0, 0);
		ev_timer_start(p->loop, &r->idle);
	}
	return r;
}

void
relay_cancel(struct relay *r)
{
	relay_free(r);
}
