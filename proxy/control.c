/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/list.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/base/io.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"

/* Reports that are not urgent are sent in batches: to wake the host for each connection would
 * cost as much as the connection. The host asks with EgressSync when it needs them now. */
#define BATCH_SECS  0.02
#define BATCH_BYTES (16u << 10)

/* How often input is read before the clients get their turn. */
#define TURN_MAX 16

struct want {
	struct want *prev, *next;
	struct egress_control *control;
	uint64_t id;
	socket_fn *fn;
	void *data;
};

struct egress_control {
	struct proxy *proxy;
	const struct control_handler *handler;
	struct frame_stream fs;
	struct arena arena;
	ev_io in, out, host;
	int host_fd;
	ev_timer batch;
	uint8_t digest[KODA_DIGEST_BYTES];
	struct account *accounts;
	struct want *wants;
	struct flushed *flushed, *flushed_last; /* in the order of arrival */
};

static _Noreturn void
end(const char *why)
{
	fprintf(stderr, "koda-egress-proxy: %s\n", why);
	_exit(1);
}

/* ---- reports ---- */

static void on_out(struct ev_loop *loop, ev_io *w, int events);

/* A callback may cause new reports, and new waiting. */
static void
drained(struct egress_control *c)
{
	struct flushed *last = c->flushed_last;
	bool more = last != NULL;

	while (more && c->flushed != NULL) {
		struct flushed *f = c->flushed;

		more = f != last;
		control_forget(c->proxy, f);
		f->fn(f->data);
	}
	c->handler->caught_up(c->proxy);
}

/* True: everything is sent. */
static bool
flush(struct egress_control *c)
{
	int r = frame_flush(&c->fs, false, NULL);

	if (r < 0) /* the host is gone, so this process ends */
		_exit(0);
	ev_timer_stop(c->proxy->loop, &c->batch);
	if (r == 0)
		ev_io_start(c->proxy->loop, &c->out);
	return r > 0;
}

static void
on_out(struct ev_loop *loop, ev_io *w, int events)
{
	struct egress_control *c = w->data;

	if (!flush(c))
		return;
	ev_io_stop(loop, &c->out);
	drained(c);
}

static void
on_batch(struct ev_loop *loop, ev_timer *w, int events)
{
	flush(w->data);
}

static void
report(struct egress_control *c, const Koda__EgressReport *r, bool now)
{
	struct koda_error err;

	if (message_queue(&c->fs, &r->base, &err) < 0)
		end(err.message);
	if (frame_pending(&c->fs) > CONTROL_QUEUE_MAX)
		end("the host does not read its reports");
	if (ev_is_active(&c->out))
		return; /* on_out() sends it */
	if (now || frame_pending(&c->fs) >= BATCH_BYTES)
		flush(c);
	else if (!ev_is_active(&c->batch)) {
		ev_timer_set(&c->batch, BATCH_SECS, 0);
		ev_timer_start(c->proxy->loop, &c->batch);
	}
}

void
control_report(struct proxy *p, const Koda__EgressReport *r)
{
	report(p->control, r, true);
}

bool
control_flush(struct proxy *p)
{
	return !ev_is_active(&p->control->out) && flush(p->control);
}

void
control_wait(struct proxy *p, struct flushed *f)
{
	struct egress_control *c = p->control;

	f->next = NULL;
	f->prev = c->flushed_last;
	if (f->prev != NULL)
		f->prev->next = f;
	else
		c->flushed = f;
	c->flushed_last = f;
	f->waiting = true;
}

void
control_forget(struct proxy *p, struct flushed *f)
{
	struct egress_control *c = p->control;

	if (!f->waiting)
		return;
	if (c->flushed_last == f)
		c->flushed_last = f->prev;
	list_remove(c->flushed, f);
	f->waiting = false;
}

bool
control_congested(const struct proxy *p)
{
	return frame_pending(&p->control->fs) > CONTROL_CONGESTED;
}

/* ---- accounts ---- */

struct account *
account_new(struct proxy *p, uint64_t slot, Koda__EgressKind kind, const char *host, unsigned port)
{
	struct account *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->proxy = p;
	a->id = p->next_id++;
	a->slot = slot;
	a->kind = kind;
	a->port = port;
	a->since = monotonic_us();
	snprintf(a->host, sizeof(a->host), "%s", host);
	list_add(p->control->accounts, a);
	return a;
}

static void
report_account(const struct account *a, Koda__EgressOutcome outcome, bool open, const char *rule,
    const char *detail)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressConnection c = KODA__EGRESS_CONNECTION__INIT;

	r.report_case = KODA__EGRESS_REPORT__REPORT_CONNECTION;
	r.connection = &c;
	c.id = a->id;
	c.slot = a->slot;
	c.kind = a->kind;
	c.outcome = outcome;
	c.open = open;
	c.host = message_text(a->host);
	c.port = a->port;
	c.rule = message_text(rule);
	c.detail = message_text(detail == NULL ? "" : detail);
	c.up = a->up;
	c.down = a->down;
	c.duration_us = monotonic_us() - a->since;
	report(a->proxy->control, &r, outcome == KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED);
}

void
account_open(struct account *a, const char *rule)
{
	snprintf(a->rule, sizeof(a->rule), "%s", rule);
	a->open = true;
	report_account(a, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, true, a->rule, NULL);
}

void
account_end(struct account *a, Koda__EgressOutcome outcome, const char *rule, const char *detail)
{
	if (a == NULL)
		return;
	report_account(a, outcome, false, rule == NULL ? a->rule : rule, detail);
	list_remove(a->proxy->control->accounts, a);
	free(a);
}

/* The reports for an EgressSync have to fit: each connection of a slot has up to two accounts,
 * of a tunnel and of a request inside it. */
#define REPORT_MAX 512
_Static_assert(sizeof(((struct account *)NULL)->host) + sizeof(((struct account *)NULL)->rule) +
	    128 <=
	REPORT_MAX,
    "the two texts, and ten numbers with their tags");
_Static_assert(2ull * PROXY_CONNS_MAX * REPORT_MAX <= CONTROL_QUEUE_MAX / 2,
    "one slot's accounts are half of what is held back");

static void
sync_accounts(struct egress_control *c, const Koda__EgressSync *msg)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressSynced synced = KODA__EGRESS_SYNCED__INIT;

	for (const struct account *a = c->accounts; a != NULL && msg->has_slot; a = a->next)
		if (a->open && a->slot == msg->slot)
			report_account(a, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, true,
			    a->rule, NULL);
	r.report_case = KODA__EGRESS_REPORT__REPORT_SYNCED;
	r.synced = &synced;
	synced.number = msg->number;
	report(c, &r, true);
}

/* ---- Unix sockets ---- */

struct want *
want_socket(struct proxy *p, const char *domain, socket_fn *fn, void *data)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressWantSocket msg = KODA__EGRESS_WANT_SOCKET__INIT;
	struct want *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->control = p->control;
	w->id = p->next_id++;
	w->fn = fn;
	w->data = data;
	list_add(p->control->wants, w);
	r.report_case = KODA__EGRESS_REPORT__REPORT_WANT_SOCKET;
	r.want_socket = &msg;
	msg.id = w->id;
	msg.domain = message_text(domain);
	report(p->control, &r, true);
	return w;
}

void
want_cancel(struct want *w)
{
	list_remove(w->control->wants, w);
	free(w);
}

static int
take_socket(struct egress_control *c, const Koda__EgressSocket *msg, int fd, struct koda_error *err)
{
	struct want *w = c->wants;
	socket_fn *fn;
	void *data;

	if (fd >= 0 && (!frame_is_connected(fd) || set_nonblocking(fd) < 0)) {
		close(fd);
		return err_set(err, KODA_PROTOCOL, 0, "that is not a connected socket");
	}
	while (w != NULL && w->id != msg->id)
		w = w->next;
	if (w == NULL) { /* cancelled meanwhile */
		if (fd >= 0)
			close(fd);
		return 0;
	}
	fn = w->fn;
	data = w->data;
	want_cancel(w);
	fn(data, fd, fd < 0 ? msg->errnum : 0);
	return 0;
}

/* ---- orders ---- */

static int
take_order(struct egress_control *c, const uint8_t *data, size_t len, struct koda_error *err)
{
	const Koda__EgressOrder *o;
	bool with_fd;
	int fd = -1;

	arena_reset(&c->arena);
	o = (const Koda__EgressOrder *)message_unpack(&koda__egress_order__descriptor, data, len,
	    &c->arena, err);
	if (o == NULL)
		return -1;
	with_fd = o->order_case == KODA__EGRESS_ORDER__ORDER_SERVE ||
	    (o->order_case == KODA__EGRESS_ORDER__ORDER_SOCKET && o->socket->errnum == 0);
	if (with_fd && (fd = frame_take_fd(&c->fs)) < 0)
		return err_set(err, KODA_PROTOCOL, 0, "an order without its descriptor");
	switch (o->order_case) {
	case KODA__EGRESS_ORDER__ORDER_SERVE:
	case KODA__EGRESS_ORDER__ORDER_DROP:
	case KODA__EGRESS_ORDER__ORDER_ANSWER:
		return c->handler->order(c->proxy, o, fd, err);
	case KODA__EGRESS_ORDER__ORDER_SOCKET:
		return take_socket(c, o->socket, fd, err);
	case KODA__EGRESS_ORDER__ORDER_SYNC:
		sync_accounts(c, o->sync);
		return 0;
	case KODA__EGRESS_ORDER__ORDER_START:
	case KODA__EGRESS_ORDER__ORDER__NOT_SET:
	case _KODA__EGRESS_ORDER__ORDER__CASE_IS_INT_SIZE:
		break;
	}
	return err_set(err, KODA_PROTOCOL, 0, "an unknown order");
}

/* When the host has ended, end quietly; after any other error, print it. */
static void
end_of_stream(const struct koda_error *err)
{
	if (err->code == KODA_IO)
		_exit(0);
	end(err->message);
}

static void
on_in(struct ev_loop *loop, ev_io *w, int events)
{
	struct egress_control *c = w->data;
	struct koda_error err = { 0 };
	const uint8_t *data;
	size_t len;
	int r = 0;

	for (int turn = 0, more = 1; turn < TURN_MAX && more > 0; turn++) {
		more = frame_fill(&c->fs, false, &err);
		if (more < 0)
			end_of_stream(&err);
		while ((r = frame_next(&c->fs, &data, &len, &err)) > 0)
			if (take_order(c, data, len, &err) < 0)
				end(err.message);
		if (r < 0)
			end(err.message);
	}
	/* A descriptor comes with the first byte of its frame, so one may only wait for a frame
	 * that is incomplete. */
	if (c->fs.in_start == c->fs.in_end && frame_fds_waiting(&c->fs) > 0)
		end("an unexpected descriptor");
}

/* The host process has ended. Its socket may be held open by a child that the embedder forked,
 * so this process would otherwise outlive its host. */
static void
on_host_gone(struct ev_loop *loop, ev_io *w, int events)
{
	_exit(0);
}

static int
watch_host(struct egress_control *c, struct koda_error *err)
{
	const pid_t host = getppid();

	c->host_fd = (int)syscall(SYS_pidfd_open, host, 0);
	if (c->host_fd < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "watch the host");
	/* The parent is the same before and after pidfd_open(), so the pidfd is the host's. */
	if (getppid() != host)
		return err_set(err, KODA_IO, 0, "the host is gone");
	ev_io_init(&c->host, on_host_gone, c->host_fd, EV_READ);
	return 0;
}

/* ---- start ---- */

static void
control_free(struct egress_control *c)
{
	arena_done(&c->arena);
	close_at(&c->host_fd);
	c->fs.fd = -1; /* the caller's: it still reports the failure there */
	frame_done(&c->fs);
	free(c);
}

static int
first_order(struct egress_control *c, bool *ret_intercept, struct koda_error *err)
{
	const Koda__EgressOrder *o;
	const uint8_t *data;
	size_t len;
	int r;

	while ((r = frame_next(&c->fs, &data, &len, err)) == 0)
		if (frame_fill(&c->fs, true, err) < 0)
			return -1;
	if (r < 0)
		return -1;
	o = (const Koda__EgressOrder *)message_unpack(&koda__egress_order__descriptor, data, len,
	    &c->arena, err);
	if (o == NULL)
		return -1;
	if (o->order_case != KODA__EGRESS_ORDER__ORDER_START)
		return err_set(err, KODA_PROTOCOL, 0, "not started yet");
	if (o->start->protocol != KODA_PROTOCOL_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "the proxy speaks protocol %u and the host %u: they were not installed together",
		    KODA_PROTOCOL_VERSION, o->start->protocol);
	if (c->handler->start(c->proxy, o->start, ret_intercept, err) < 0)
		return -1;
	policy_digest(o->start->policy.data, o->start->policy.len, c->digest);
	return 0;
}

struct egress_control *
control_new(struct proxy *p, int fd, const struct control_handler *handler, bool *ret_intercept,
    struct koda_error *err)
{
	struct egress_control *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "start");
		return NULL;
	}
	c->proxy = p;
	c->handler = handler;
	c->host_fd = -1;
	frame_init(&c->fs, fd);
	arena_init(&c->arena);
	if (watch_host(c, err) < 0 || first_order(c, ret_intercept, err) < 0) {
		control_free(c);
		return NULL;
	}
	ev_io_init(&c->in, on_in, fd, EV_READ);
	ev_io_init(&c->out, on_out, fd, EV_WRITE);
	ev_timer_init(&c->batch, on_batch, BATCH_SECS, 0);
	c->in.data = c->out.data = c->batch.data = c;
	return c;
}

int
control_ready(struct egress_control *c, unsigned landlock_abi, const char *ca_certificate,
    struct koda_error *err)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressReady ready = KODA__EGRESS_READY__INIT;

	r.report_case = KODA__EGRESS_REPORT__REPORT_READY;
	r.ready = &ready;
	ready.protocol = KODA_PROTOCOL_VERSION;
	ready.policy_digest = (ProtobufCBinaryData){ sizeof(c->digest), c->digest };
	ready.landlock_abi = landlock_abi;
	ready.seccomp = true;
	if (ca_certificate != NULL) {
		ready.has_ca_certificate = true;
		ready.ca_certificate = message_text(ca_certificate);
	}
	if (message_queue(&c->fs, &r.base, err) < 0 || frame_flush(&c->fs, true, err) < 0)
		return -1;
	/* Handle orders before clients: a dropped slot must not be served any more. */
	ev_set_priority(&c->in, 1);
	ev_io_start(c->proxy->loop, &c->in);
	ev_io_start(c->proxy->loop, &c->host);
	/* Bytes that came with the first order raise no event. */
	if (c->fs.in_start != c->fs.in_end)
		ev_feed_event(c->proxy->loop, &c->in, EV_READ);
	return 0;
}

void
control_failed(int fd, const char *why)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressFailed failed = KODA__EGRESS_FAILED__INIT;
	struct frame_stream fs;

	frame_init(&fs, fd);
	r.report_case = KODA__EGRESS_REPORT__REPORT_FAILED;
	r.failed = &failed;
	failed.why = message_text(why);
	if (message_queue(&fs, &r.base, NULL) >= 0)
		frame_flush(&fs, true, NULL);
	free(fs.out);
}
