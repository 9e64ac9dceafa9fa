/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/reach/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/control.h"
#include "proxy/reach/own_address.h"
#include "proxy/reach/race.h"
#include "proxy/reach/resolve.h"
#include "proxy/reach/upstream_talk.h"
#include "shared/base/cleanup.h"

/* A name that the user's proxy is to reach is resolved here only to see where it leads. In
 * networks with such a proxy, look-ups of outside names often time out: how long to wait for
 * one, how long while such a time-out is remembered, and for how long it is remembered. */
#define LOOK_UP_SECS       2.0
#define LOOK_UP_AGAIN_SECS 0.2
#define SILENT_SECS        60.0
/* Probe an idle peer after a minute: NAT gateways forget connections that are idle for longer. */
#define KEEPALIVE_SECS 60

struct dial {
	struct proxy *proxy;
	uint64_t slot;
	struct target target;
	bool plain;
	const struct upstream_proxy *via;
	struct resolve *resolve;
	struct want *want;
	struct race *race;
	struct upstream_talk *talk;
	ev_timer limit, look_up_limit;

	bool starting; /* in dial_start(): the callback has to wait */
	ev_timer done; /* fed in that case */
	struct dial_result result;
	dial_fn *fn;
	void *data;
};

/* ---- the end ---- */

static void
dial_release(struct dial *d)
{
	struct ev_loop *loop = d->proxy->loop;

	if (d->resolve != NULL)
		resolve_cancel(take_ptr(&d->resolve));
	if (d->want != NULL)
		want_cancel(take_ptr(&d->want));
	if (d->race != NULL)
		race_cancel(take_ptr(&d->race));
	if (d->talk != NULL)
		upstream_talk_cancel(take_ptr(&d->talk));
	ev_timer_stop(loop, &d->limit);
	ev_timer_stop(loop, &d->look_up_limit);
}

static void
dial_deliver(struct dial *d)
{
	struct dial_result result = d->result;
	dial_fn *fn = d->fn;
	void *data = d->data;

	free(d);
	fn(data, &result);
}

static void
on_done(struct ev_loop *loop, ev_timer *t, int revents)
{
	dial_deliver(t->data);
}

/* End the dial. d may be freed: the caller has to return. */
static void
dial_finish(struct dial *d)
{
	dial_release(d);
	if (d->starting)
		ev_feed_event(d->proxy->loop, &d->done, EV_CUSTOM);
	else
		dial_deliver(d);
}

static void dial_fail(struct dial *d, enum dial_error error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
dial_fail(struct dial *d, enum dial_error error, const char *fmt, ...)
{
	va_list ap;

	d->result.error = error;
	va_start(ap, fmt);
	vsnprintf(d->result.detail, sizeof(d->result.detail), fmt, ap);
	va_end(ap);
	dial_finish(d);
}

static void
dial_succeed(struct dial *d, int fd)
{
	const int one = 1, idle = KEEPALIVE_SECS;

	/* These fail on a Unix socket of the policy's map, which has no such options. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	d->result.fd = fd;
	dial_finish(d);
}

static void
on_limit(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dial *d = t->data;

	if (d->via != NULL && (d->talk != NULL || d->race != NULL))
		dial_fail(d, DIAL_TIMEOUT, "the proxy %s:%u did not answer in time", d->via->host,
		    d->via->port);
	else if (d->resolve != NULL)
		dial_fail(d, DIAL_TIMEOUT, "no name server answered for %s in time",
		    d->target.host);
	else
		dial_fail(d, DIAL_TIMEOUT, "%s:%u did not answer in time", d->target.host,
		    d->target.port);
}

/* ---- to the address, or to the proxy of the user ---- */

static void
on_talk(void *data, int fd, const char *why)
{
	struct dial *d = data;

	d->talk = NULL;
	if (fd >= 0)
		dial_succeed(d, fd);
	else
		dial_fail(d, DIAL_UPSTREAM, "the proxy %s:%u %s", d->via->host, d->via->port, why);
}

static void
on_connected(struct dial *d, int fd)
{
	if (d->via == NULL) {
		dial_succeed(d, fd);
		return;
	}
	if (d->plain && d->via->kind == UPSTREAM_HTTP) {
		d->result.via = d->via;
		dial_succeed(d, fd);
		return;
	}
	d->talk = upstream_talk_start(d->proxy->loop, d->via, &d->target, fd, on_talk, d);
	if (d->talk == NULL)
		dial_fail(d, DIAL_RESOURCES, "no memory");
}

static void
on_race(void *data, const struct race_result *result)
{
	static const enum dial_error errors[] = {
		[RACE_REFUSED] = DIAL_REFUSED,
		[RACE_TIMED_OUT] = DIAL_TIMEOUT,
		[RACE_UNREACHABLE] = DIAL_UNREACHABLE,
		[RACE_NO_RESOURCES] = DIAL_RESOURCES,
	};
	struct dial *d = data;
	enum dial_error error = errors[result->end];

	d->race = NULL;
	if (result->end == RACE_WON) {
		on_connected(d, result->fd);
		return;
	}
	if (d->via == NULL) {
		dial_fail(d, error, "cannot connect to %s:%u: %s", d->target.host, d->target.port,
		    strerror(result->errnum));
		return;
	}
	if (error != DIAL_RESOURCES && error != DIAL_TIMEOUT)
		error = DIAL_UPSTREAM;
	dial_fail(d, error, "cannot connect to the proxy %s:%u: %s", d->via->host, d->via->port,
	    strerror(result->errnum));
}

static void
connect_to(struct dial *d, const struct sockaddr_storage *list, size_t n)
{
	d->race = race_start(d->proxy->loop, list, n, on_race, d);
	if (d->race == NULL)
		dial_fail(d, DIAL_RESOURCES, "no memory");
}

static void
on_proxy_resolved(void *data, const struct resolve_result *result)
{
	struct dial *d = data;

	d->resolve = NULL;
	if (result->n == 0)
		dial_fail(d, DIAL_UPSTREAM, "the proxy %s has no address: %s", d->via->host,
		    result->error);
	else
		connect_to(d, result->address, result->n);
}

/* The proxy's own address is the user's decision, and is not judged. */
static void
go_by_proxy(struct dial *d)
{
	struct sockaddr_storage ss;
	socklen_t len;

	if (address_parse(d->via->host, d->via->port, &ss, &len)) {
		connect_to(d, &ss, 1);
		return;
	}
	d->resolve = resolve_start(d->proxy->resolver, d->slot, d->via->host, d->via->port,
	    on_proxy_resolved, d);
	if (d->resolve == NULL)
		dial_fail(d, DIAL_RESOURCES, "too many names are being looked up at the same time");
}

/* ---- where the name leads ---- */

static ev_tstamp silent_until;

static struct egress_verdict
judge_address(struct dial *d, const struct sockaddr *sa, bool *ret_own)
{
	/* An address that is not public needs a rule that names it, no matter to whom it belongs. */
	*ret_own = address_classify(sa) == ADDRESS_PUBLIC && is_own_address(sa);
	return egress_judge_address(d->proxy->rules, sa, d->target.port, *ret_own);
}

static void
judge_addresses(struct dial *d, const struct sockaddr_storage *list, size_t n)
{
	struct sockaddr_storage good[RESOLVE_ADDRESSES_MAX];
	const struct sockaddr *bad = NULL;
	bool own, bad_own = false;
	size_t n_good = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sockaddr *sa = (const struct sockaddr *)&list[i];

		if (judge_address(d, sa, &own).decision == EGRESS_ALLOW) {
			good[n_good++] = list[i];
		} else if (bad == NULL) {
			bad = sa;
			bad_own = own;
		}
	}
	if (d->via != NULL)
		d->via = upstream_for(&d->proxy->upstream, d->target.host, d->target.port, d->plain,
		    (const struct sockaddr *)&list[0]);
	/* The user's proxy may choose any of the addresses, so all have to be allowed. */
	if (n_good == 0 || (d->via != NULL && bad != NULL)) {
		d->result.error = DIAL_ADDRESS;
		egress_address_sentence(d->result.detail, sizeof(d->result.detail), d->target.host,
		    d->target.port, bad, bad_own, d->proxy->mode);
		dial_finish(d);
		return;
	}
	if (d->via != NULL)
		go_by_proxy(d);
	else
		connect_to(d, good, n_good);
}

static void
on_resolved(void *data, const struct resolve_result *result)
{
	struct dial *d = data;

	d->resolve = NULL;
	ev_timer_stop(d->proxy->loop, &d->look_up_limit);
	if (result->n > 0)
		judge_addresses(d, result->address, result->n);
	else if (d->via != NULL)
		go_by_proxy(d);
	else
		dial_fail(d, result->timed_out ? DIAL_TIMEOUT : DIAL_DNS,
		    "cannot find the address of %s: %s", d->target.host, result->error);
}

static void
on_look_up_limit(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dial *d = t->data;

	resolve_cancel(take_ptr(&d->resolve));
	silent_until = ev_now(loop) + SILENT_SECS;
	go_by_proxy(d);
}

static void
look_up(struct dial *d)
{
	struct ev_loop *loop = d->proxy->loop;

	d->resolve = resolve_start(d->proxy->resolver, d->slot, d->target.host, d->target.port,
	    on_resolved, d);
	if (d->resolve == NULL) {
		dial_fail(d, DIAL_RESOURCES, "too many names are being looked up at the same time");
		return;
	}
	if (d->via == NULL)
		return;
	ev_timer_set(&d->look_up_limit,
	    ev_now(loop) < silent_until ? LOOK_UP_AGAIN_SECS : LOOK_UP_SECS, 0);
	ev_timer_start(loop, &d->look_up_limit);
}

/* ---- the policy's sockets ---- */

static const char *
mapped(const struct dial *d)
{
	const struct policy *policy = &d->proxy->policy;
	const char *found = NULL;

	for (size_t i = 0; i < policy->n_sockets; i++) {
		const char *pattern = policy->sockets[i].domain;
		struct domain domain;

		if (domain_parse(pattern, &domain) != NULL ||
		    !domain_matches(&domain, d->target.host, strlen(d->target.host), d->target.port,
			true))
			continue;
		if (!domain.wildcard)
			return pattern;
		found = pattern;
	}
	return found;
}

static void
on_mapped(void *data, int fd, int errnum)
{
	struct dial *d = data;

	d->want = NULL;
	if (fd >= 0)
		dial_succeed(d, fd);
	else
		dial_fail(d, errnum == ECONNREFUSED ? DIAL_REFUSED : DIAL_UNREACHABLE,
		    "cannot connect to the policy's socket for %s: %s", d->target.host,
		    strerror(errnum));
}

/* ---- start and cancel ---- */

struct dial *
dial_start(struct proxy *p, uint64_t slot, const char *host, enum domain_kind kind, unsigned port,
    bool plain, dial_fn *fn, void *data)
{
	struct dial *d = calloc(1, sizeof(*d));
	struct sockaddr_storage ss;
	const struct sockaddr *literal = NULL;
	const char *socket_of;
	socklen_t len;

	if (d == NULL)
		return NULL;
	d->proxy = p;
	d->slot = slot;
	snprintf(d->target.host, sizeof(d->target.host), "%s", host);
	d->target.kind = kind;
	d->target.port = port;
	d->plain = plain;
	d->fn = fn;
	d->data = data;
	d->result.fd = -1;
	d->starting = true;
	ev_timer_init(&d->limit, on_limit, PROXY_DIAL_SECS, 0);
	ev_init(&d->look_up_limit, on_look_up_limit);
	ev_init(&d->done, on_done);
	d->limit.data = d->look_up_limit.data = d->done.data = d;
	ev_now_update(p->loop); /* so that the limit counts from now */
	ev_timer_start(p->loop, &d->limit);

	socket_of = mapped(d);
	if (socket_of != NULL) {
		d->want = want_socket(p, socket_of, on_mapped, d);
		if (d->want == NULL)
			dial_fail(d, DIAL_RESOURCES, "no memory");
		d->starting = false;
		return d;
	}
	if (kind != DOMAIN_NAME && address_parse(host, port, &ss, &len))
		literal = (const struct sockaddr *)&ss;
	d->via = upstream_for(&p->upstream, host, port, plain, literal);
	if (literal != NULL)
		judge_addresses(d, &ss, 1);
	else
		look_up(d);
	d->starting = false;
	return d;
}

void
dial_cancel(struct dial *d)
{
	dial_release(d);
	ev_clear_pending(d->proxy->loop, &d->done);
	if (d->result.fd >= 0)
		close(d->result.fd);
	free(d);
}
