/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/reach/race.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/rules/address.h"

/* RFC 8305: the next address is tried before the last attempt has failed. */
#define STAGGER_SECS 0.25

struct race_attempt {
	struct race *race;
	struct sockaddr_storage address;
	ev_io io;
	int fd; /* -1: not started, or ended */
};

struct race {
	struct ev_loop *loop;
	ev_timer stagger;
	size_t next, running;
	bool refused, timed_out, no_resources;
	struct race_result result;
	ev_timer done; /* fed: fn is not called before race_start() has returned */
	race_fn *fn;
	void *data;
	size_t n;
	struct race_attempt attempts[]; /* in their order */
};

/* End all attempts. */
static void
race_stop(struct race *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct race_attempt *a = &r->attempts[i];

		if (a->fd < 0)
			continue;
		ev_io_stop(r->loop, &a->io);
		close(take_fd(&a->fd));
	}
	ev_timer_stop(r->loop, &r->stagger);
}

static void
on_done(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct race *r = t->data;
	struct race_result result = r->result;
	race_fn *fn = r->fn;
	void *data = r->data;

	free(r);
	fn(data, &result);
}

static void
race_over(struct race *r, enum race_end end)
{
	race_stop(r);
	r->result.end = end;
	ev_feed_event(r->loop, &r->done, EV_CUSTOM);
}

static void
race_won(struct race *r, struct race_attempt *a)
{
	ev_io_stop(r->loop, &a->io);
	r->result.fd = take_fd(&a->fd);
	race_over(r, RACE_WON);
}

static void
race_lost(struct race *r)
{
	if (r->no_resources)
		race_over(r, RACE_NO_RESOURCES);
	else if (r->timed_out)
		race_over(r, RACE_TIMED_OUT);
	else if (r->refused)
		race_over(r, RACE_REFUSED);
	else
		race_over(r, RACE_UNREACHABLE);
}

static void
attempt_lost(struct race *r, int errnum)
{
	if (errnum == ECONNREFUSED)
		r->refused = true;
	else if (errnum == ETIMEDOUT)
		r->timed_out = true;
	else if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM || errnum == ENOBUFS ||
	    errnum == EAGAIN)
		r->no_resources = true;
	if (r->result.errnum == 0)
		r->result.errnum = errnum;
}

static int
error_of(int fd)
{
	int errnum = 0;
	socklen_t len = sizeof(errnum);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0 ? errno : errnum;
}

static void race_next(struct race *r);

static void
on_connect(struct ev_loop *loop, ev_io *io, int revents)
{
	struct race_attempt *a = io->data;
	struct race *r = a->race;
	int errnum = error_of(a->fd);

	if (errnum == 0) {
		race_won(r, a);
		return;
	}
	ev_io_stop(loop, io);
	close(take_fd(&a->fd));
	r->running--;
	attempt_lost(r, errnum);
	race_next(r);
}

/* 1: connected; 0: going on; -1: failed. */
static int
attempt_start(struct race *r, struct race_attempt *a)
{
	const struct sockaddr *sa = (const struct sockaddr *)&a->address;
	cleanup_close int fd =
	    socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	int k;

	if (fd < 0) {
		attempt_lost(r, errno);
		return -1;
	}
	k = connect(fd, sa, address_length(sa));
	/* On this machine or a nearby one, the connection is already established, and a second
	 * connect() reports that: this saves a trip through the loop. */
	if (k < 0 && errno == EINPROGRESS)
		k = connect(fd, sa, address_length(sa));
	if (k < 0 && errno != EALREADY && errno != EISCONN) {
		attempt_lost(r, errno);
		return -1;
	}
	a->fd = take_fd(&fd);
	if (k == 0 || errno == EISCONN)
		return 1;
	ev_io_init(&a->io, on_connect, a->fd, EV_WRITE);
	a->io.data = a;
	ev_io_start(r->loop, &a->io);
	r->running++;
	return 0;
}

/* Start the next attempt, or end the race if there is none and none is going on. */
static void
race_next(struct race *r)
{
	ev_timer_stop(r->loop, &r->stagger);
	while (r->next < r->n) {
		struct race_attempt *a = &r->attempts[r->next++];
		int k = attempt_start(r, a);

		if (k > 0) {
			race_won(r, a);
			return;
		}
		if (k < 0)
			continue;
		if (r->next < r->n) {
			ev_timer_set(&r->stagger, STAGGER_SECS, 0);
			ev_timer_start(r->loop, &r->stagger);
		}
		return;
	}
	if (r->running == 0)
		race_lost(r);
}

static void
on_stagger(struct ev_loop *loop, ev_timer *t, int revents)
{
	race_next(t->data);
}

/* Order the addresses with alternating families as long as both last; each family in the given
 * order. */
static void
order_attempts(struct race *r, const struct sockaddr_storage *list)
{
	size_t at[2] = { 0, 0 };
	sa_family_t first = list[0].ss_family;

	for (size_t i = 0; i < r->n; i++) {
		size_t turn = i & 1;

		for (;; turn ^= 1) { /* one family may have more */
			size_t *k = &at[turn];

			while (*k < r->n && (list[*k].ss_family == first) != (turn == 0))
				++*k;
			if (*k < r->n)
				break;
		}
		r->attempts[i].address = list[at[turn]++];
		r->attempts[i].race = r;
		r->attempts[i].fd = -1;
	}
}

struct race *
race_start(struct ev_loop *loop, const struct sockaddr_storage *list, size_t n, race_fn *fn,
    void *data)
{
	struct race *r = calloc(1, sizeof(*r) + n * sizeof(r->attempts[0]));

	if (r == NULL)
		return NULL;
	r->loop = loop;
	r->n = n;
	r->result.fd = -1;
	r->fn = fn;
	r->data = data;
	ev_init(&r->stagger, on_stagger);
	ev_init(&r->done, on_done);
	r->stagger.data = r->done.data = r;
	order_attempts(r, list);
	race_next(r);
	return r;
}

void
race_cancel(struct race *r)
{
	race_stop(r);
	ev_clear_pending(r->loop, &r->done);
	if (r->result.fd >= 0)
		close(r->result.fd);
	free(r);
}
