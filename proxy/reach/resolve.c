/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/reach/resolve.h"

#include <ares.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "shared/base/cleanup.h"

#define RESOLV_CONF "/etc/resolv.conf"
/* The file is checked at most this often, not for each name. */
#define CHECK_SECS 1.0
/* The second try waits twice as long. With one or two servers both tries fit into
 * PROXY_DIAL_SECS. */
#define TIMEOUT_MS 1500
#define TRIES      2
/* c-ares returns both families together. Where a name server drops questions for one of them,
 * the other one's answer would wait for the last time-out. So after this time each family is
 * also asked for separately, and the first answer wins. */
#define HURRY_SECS 0.5
/* A cancelled look-up goes on until it is answered, so a client that asks and leaves could make
 * any number of them. A slot may have at most a third of the free places (a slot alone gets a
 * quarter of all), and PENDING_SURE whatever the other slots have. */
#define PENDING_MAX  1024
#define PENDING_SURE 16

/* A socket of c-ares. */
struct channel_socket {
	struct channel_socket *next;
	struct channel *channel;
	ev_io io;
};

/* c-ares with resolv.conf as it was at one time. */
struct channel {
	struct channel *next;
	struct name_resolver *resolver;
	ares_channel ares;
	struct channel_socket *sockets;
	ev_timer timer;
	ev_timer gone; /* fed: c-ares must not be freed from within its own callback */
	size_t pending;
};

/* A slot with open questions, which may outlive the slot. */
struct asker {
	struct asker *next;
	uint64_t slot;
	size_t pending;
};

struct name_resolver {
	struct ev_loop *loop;
	struct asker *askers;
	struct channel *channel;
	struct channel *old; /* with questions that are still open */
	struct stat conf;
	ev_tstamp checked;
	size_t pending;
};

/* One question to c-ares, which cannot cancel one. */
struct resolve_try {
	struct channel *channel;
	struct asker *asker;
	struct resolve *resolve; /* NULL: cancelled */
	bool both;
};

enum { TRY_BOTH, TRY_IPV4, TRY_IPV6, TRY_KINDS };

struct resolve {
	struct name_resolver *resolver;
	struct resolve_try *tries[TRY_KINDS];
	uint64_t slot;
	char name[DOMAIN_HOST_MAX + 1];
	unsigned port;
	resolve_fn *fn;
	void *data;
	int status;
	struct ares_addrinfo *info;
	ev_timer hurry;
	ev_timer done; /* fed: callbacks do not run from within c-ares or resolve_start() */
};

/* ---- c-ares in the loop ---- */

static void
rearm(struct channel *c)
{
	struct timeval tv;
	struct ev_loop *loop = c->resolver->loop;

	ev_timer_stop(loop, &c->timer);
	if (ares_timeout(c->ares, NULL, &tv) == NULL)
		return;
	ev_timer_set(&c->timer, (ev_tstamp)tv.tv_sec + (ev_tstamp)tv.tv_usec / 1e6, 0);
	ev_timer_start(loop, &c->timer);
}

static void
on_timer(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct channel *c = t->data;

	ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	rearm(c);
}

static void
on_socket(struct ev_loop *loop, ev_io *io, int revents)
{
	struct channel_socket *w = io->data;
	struct channel *c = w->channel; /* w may be gone after ares_process_fd() */
	int fd = io->fd;

	ares_process_fd(c->ares, revents & EV_READ ? fd : ARES_SOCKET_BAD,
	    revents & EV_WRITE ? fd : ARES_SOCKET_BAD);
	rearm(c);
}

static void
on_state(void *data, ares_socket_t fd, int readable, int writable)
{
	struct channel *c = data;
	struct ev_loop *loop = c->resolver->loop;
	int events = (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0);
	struct channel_socket **at = &c->sockets, *w;

	while (*at != NULL && (*at)->io.fd != fd)
		at = &(*at)->next;
	w = *at;
	if (w != NULL)
		ev_io_stop(loop, &w->io);
	if (events == 0) {
		if (w != NULL) {
			*at = w->next;
			free(w);
		}
		return;
	}
	if (w == NULL) {
		w = calloc(1, sizeof(*w));
		if (w == NULL)
			return; /* its questions time out */
		w->channel = c;
		w->next = c->sockets;
		c->sockets = w;
		ev_init(&w->io, on_socket);
		w->io.data = w;
	}
	ev_io_set(&w->io, fd, events);
	ev_io_start(loop, &w->io);
}

static void
channel_free(struct channel *c)
{
	if (c == NULL)
		return;
	ares_destroy(c->ares); /* ends all open questions, and closes the watched sockets */
	ev_timer_stop(c->resolver->loop, &c->timer);
	ev_clear_pending(c->resolver->loop, &c->gone);
	free(c);
}

static void
on_gone(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct channel *c = t->data;
	struct channel **at = &c->resolver->old;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	channel_free(c);
}

static struct channel *
channel_new(struct name_resolver *r, int *ret_status)
{
	/* Options that the environment could set, too, are all set here. */
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TIMEOUT_MS,
		.tries = TRIES,
		.ndots = 1,
		.ndomains = 0,
		.lookups = (char[]){ "fb" },
		.sock_state_cb = on_state,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
	    ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB | ARES_OPT_NOROTATE;
	struct channel *c = calloc(1, sizeof(*c));
	unsigned seed;

	*ret_status = ARES_ENOMEM;
	if (c == NULL)
		return NULL;
	/* c-ares 1.18 takes its query ids from rand() where it may not open /dev/urandom. */
	if (getrandom(&seed, sizeof(seed), 0) == sizeof(seed))
		srand(seed);
	c->resolver = r;
	o.sock_state_cb_data = c;
	ev_init(&c->timer, on_timer);
	ev_init(&c->gone, on_gone);
	c->timer.data = c->gone.data = c;
	*ret_status = ares_init_options(&c->ares, &o, mask);
	if (*ret_status == ARES_SUCCESS)
		return c;
	free(c);
	return NULL;
}

/* ---- resolv.conf ---- */

static bool
same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	    a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void
look_again(struct name_resolver *r)
{
	struct channel *c, *before = r->channel;
	struct stat st;
	int status;

	if (ev_now(r->loop) - r->checked < CHECK_SECS)
		return;
	r->checked = ev_now(r->loop);
	/* The file may be missing while it is being replaced: then the last content stays valid. */
	if (stat(RESOLV_CONF, &st) < 0 || same_file(&st, &r->conf))
		return;
	c = channel_new(r, &status);
	if (c == NULL)
		return;
	r->conf = st;
	r->channel = c;
	before->next = r->old;
	r->old = before;
	if (before->pending == 0)
		ev_feed_event(r->loop, &before->gone, EV_CUSTOM);
}

struct name_resolver *
resolver_new(struct proxy *p, struct koda_error *err)
{
	struct name_resolver *r = calloc(1, sizeof(*r));
	int status = ares_library_init(ARES_LIB_INIT_ALL);

	if (r == NULL || status != ARES_SUCCESS) {
		free(r);
		err_set(err, KODA_IO, ENOMEM, "c-ares");
		return NULL;
	}
	r->loop = p->loop;
	r->checked = ev_now(p->loop);
	if (stat(RESOLV_CONF, &r->conf) < 0)
		memset(&r->conf, 0, sizeof(r->conf));
	r->channel = channel_new(r, &status);
	if (r->channel == NULL) {
		err_set(err, KODA_IO, 0, "c-ares: %s", ares_strerror(status));
		free(r);
		ares_library_cleanup();
		return NULL;
	}
	return r;
}

void
resolver_free(struct name_resolver *r)
{
	struct channel *c;

	if (r == NULL)
		return;
	while ((c = r->old) != NULL) {
		r->old = c->next;
		channel_free(c);
	}
	channel_free(r->channel);
	free(r);
	ares_library_cleanup();
}

/* ---- one question ---- */

static const char *
why(int status)
{
	switch (status) {
	case ARES_ENOTFOUND:
		return "there is no such name";
	case ARES_ENODATA:
		return "the name has no address";
	case ARES_ETIMEOUT:
		return "no name server answered";
	case ARES_ECONNREFUSED:
		return "no name server accepts connections";
	case ARES_ESERVFAIL:
		return "the name server failed";
	case ARES_EREFUSED:
		return "the name server refused";
	case ARES_ENOMEM:
		return "no memory";
	default:
		return "the name server's answer is malformed";
	}
}

static void
resolve_free(struct resolve *q)
{
	for (size_t i = 0; i < TRY_KINDS; i++)
		if (q->tries[i] != NULL)
			q->tries[i]->resolve = NULL;
	ev_timer_stop(q->resolver->loop, &q->hurry);
	ev_clear_pending(q->resolver->loop, &q->done);
	ares_freeaddrinfo(q->info);
	free(q);
}

static void
on_done(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct resolve *q = t->data;
	struct resolve_result result = { .timed_out = q->status == ARES_ETIMEOUT };
	const struct ares_addrinfo_node *node = q->info != NULL ? q->info->nodes : NULL;
	resolve_fn *fn = q->fn;
	void *data = q->data;

	for (; node != NULL && result.n < RESOLVE_ADDRESSES_MAX; node = node->ai_next) {
		struct sockaddr_storage *ss = &result.address[result.n];

		if (node->ai_family == AF_INET) {
			struct sockaddr_in *sin = (struct sockaddr_in *)ss;

			sin->sin_family = AF_INET;
			sin->sin_addr = ((const struct sockaddr_in *)node->ai_addr)->sin_addr;
			sin->sin_port = htons((uint16_t)q->port);
			result.n++;
		} else if (node->ai_family == AF_INET6) {
			struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;

			sin6->sin6_family = AF_INET6;
			sin6->sin6_addr = ((const struct sockaddr_in6 *)node->ai_addr)->sin6_addr;
			sin6->sin6_port = htons((uint16_t)q->port);
			result.n++;
		}
	}
	if (result.n == 0)
		result.error = why(q->status == ARES_SUCCESS ? ARES_ENODATA : q->status);
	resolve_free(q);
	fn(data, &result);
}

/* NULL: no memory. Call asker_put() afterwards, unless something is pending. */
static struct asker *
asker_of(struct name_resolver *r, uint64_t slot)
{
	struct asker *a = r->askers;

	while (a != NULL && a->slot != slot)
		a = a->next;
	if (a != NULL)
		return a;
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return NULL;
	a->slot = slot;
	a->next = r->askers;
	r->askers = a;
	return a;
}

static bool
may_ask(const struct name_resolver *r, const struct asker *a)
{
	return a->pending < PENDING_SURE ||
	    (r->pending < PENDING_MAX && a->pending < (PENDING_MAX - r->pending) / 3);
}

static void
asker_put(struct name_resolver *r, struct asker *a)
{
	struct asker **at = &r->askers;

	if (a->pending > 0)
		return;
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	free(a);
}

static void
on_answer(void *data, int status, int timeouts, struct ares_addrinfo *info)
{
	struct resolve_try *t = data;
	struct channel *c = t->channel;
	struct name_resolver *r = c->resolver;
	struct resolve *q = t->resolve;
	bool both = t->both;

	r->pending--;
	c->pending--;
	t->asker->pending--;
	asker_put(r, t->asker);
	/* With ARES_EDESTRUCTION c is already being freed. */
	if (c->pending == 0 && c != r->channel && status != ARES_EDESTRUCTION)
		ev_feed_event(r->loop, &c->gone, EV_CUSTOM);
	for (size_t i = 0; q != NULL && i < TRY_KINDS; i++)
		if (q->tries[i] == t)
			q->tries[i] = NULL;
	free(t);
	/* A family without addresses says nothing about the other one; only an empty answer for
	 * both is final. */
	if (q == NULL || (!both && (info == NULL || info->nodes == NULL))) {
		ares_freeaddrinfo(info);
		return;
	}
	for (size_t i = 0; i < TRY_KINDS; i++)
		if (q->tries[i] != NULL)
			take_ptr(&q->tries[i])->resolve = NULL;
	ev_timer_stop(r->loop, &q->hurry);
	q->status = status;
	q->info = info;
	ev_feed_event(r->loop, &q->done, EV_CUSTOM);
}

static bool
try_start(struct resolve *q, size_t which)
{
	static const int families[TRY_KINDS] = {
		[TRY_BOTH] = AF_UNSPEC,
		[TRY_IPV4] = AF_INET,
		[TRY_IPV6] = AF_INET6,
	};
	const struct ares_addrinfo_hints hints = { .ai_family = families[which],
		.ai_socktype = SOCK_STREAM };
	struct name_resolver *r = q->resolver;
	struct asker *asker = asker_of(r, q->slot);
	struct resolve_try *t;

	if (asker == NULL)
		return false;
	t = may_ask(r, asker) ? calloc(1, sizeof(*t)) : NULL;
	if (t == NULL) {
		asker_put(r, asker);
		return false;
	}
	t->channel = r->channel;
	t->asker = asker;
	asker->pending++;
	t->resolve = q;
	t->both = which == TRY_BOTH;
	q->tries[which] = t;
	r->pending++;
	r->channel->pending++;
	ares_getaddrinfo(r->channel->ares, q->name, NULL, &hints, on_answer, t);
	rearm(r->channel);
	return true;
}

static void
on_hurry(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct resolve *q = t->data;

	if (try_start(q, TRY_IPV4) && q->tries[TRY_BOTH] != NULL)
		try_start(q, TRY_IPV6);
}

struct resolve *
resolve_start(struct name_resolver *r, uint64_t slot, const char *name, unsigned port,
    resolve_fn *fn, void *data)
{
	struct resolve *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	look_again(r);
	q->resolver = r;
	q->slot = slot;
	snprintf(q->name, sizeof(q->name), "%s", name);
	q->port = port;
	q->fn = fn;
	q->data = data;
	ev_init(&q->done, on_done);
	ev_timer_init(&q->hurry, on_hurry, HURRY_SECS, 0);
	q->done.data = q->hurry.data = q;
	ev_timer_start(r->loop, &q->hurry);
	if (try_start(q, TRY_BOTH))
		return q;
	resolve_free(q);
	return NULL;
}

void
resolve_cancel(struct resolve *q)
{
	resolve_free(q);
}
