/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/accept/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/accept/conn.h"
#include "proxy/control.h"

/* Limit of accepts at one wake-up, before existing clients get their turn. While connections
 * come one by one, only one is accepted per wake-up: if the queue has more, the next iteration
 * announces it, and then more are accepted. */
#define ACCEPTS_MAX 64
/* Descriptors and memory become free when another connection ends. */
#define REST_SECS 0.1
/* Limit of unread bytes for a slow client in the kernel (which counts twice that). The client is
 * on this machine, where more gains nothing. By default the kernel lets megabytes pile up, which
 * have left every cache when they are read (measured: a fifth of the throughput), and every idle
 * reader could cost as much. */
#define CLIENT_BUFFER (256 << 10)

static void
on_connection(struct ev_loop *loop, ev_io *w, int events)
{
	struct listener *l = w->data;
	const bool again = ev_iteration(loop) == l->turn + 1;

	l->turn = ev_iteration(loop);
	l->burst = !again ? 1 : 2 * l->burst < ACCEPTS_MAX ? 2 * l->burst : ACCEPTS_MAX;
	for (unsigned i = 0; i < l->burst; i++) {
		int fd;

		if (control_congested(l->proxy)) {
			ev_io_stop(loop, w);
			return;
		}
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			conn_start(l, fd);
			continue;
		}
		if (errno == EAGAIN)
			return;
		/* A connection that failed in the queue returns its own error; the next one is
		 * behind it. */
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS &&
		    errno != EINVAL)
			continue;
		ev_io_stop(loop, w);
		ev_timer_set(&l->rest, REST_SECS, 0);
		ev_timer_start(loop, &l->rest);
		return;
	}
}

static void
on_rested(struct ev_loop *loop, ev_timer *w, int events)
{
	struct listener *l = w->data;

	ev_io_start(loop, &l->io);
}

void
listener_resume(struct listener *l)
{
	if (!ev_is_active(&l->rest))
		ev_io_start(l->proxy->loop, &l->io);
}

struct listener *
listener_new(struct proxy *p, uint64_t slot, Koda__EgressConsentFor consent_for, int fd)
{
	static const int on = 1, buffer = CLIENT_BUFFER;
	struct listener *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		close(fd);
		return NULL;
	}
	/* Accepted sockets inherit these: one call for all of them. Small pieces are sent at
	 * once, and a client whose kernel is gone is noticed eventually. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	l->proxy = p;
	l->slot = slot;
	l->consent_for = consent_for;
	l->fd = fd;
	ev_io_init(&l->io, on_connection, fd, EV_READ);
	ev_timer_init(&l->rest, on_rested, 0, 0);
	l->io.data = l->rest.data = l;
	ev_io_start(p->loop, &l->io);
	l->next = p->listeners;
	p->listeners = l;
	return l;
}

void
listener_free(struct listener *l)
{
	struct listener **at = &l->proxy->listeners;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	ev_io_stop(l->proxy->loop, &l->io);
	ev_timer_stop(l->proxy->loop, &l->rest);
	close(l->fd);
	while (l->conns != NULL)
		conn_free(l->conns);
	free(l);
}

struct listener *
listener_find(const struct proxy *p, uint64_t slot)
{
	struct listener *l = p->listeners;

	while (l != NULL && l->slot != slot)
		l = l->next;
	return l;
}
