#include "host/egress/egress_report.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/command/command.h"
#include "host/egress/certificates.h"
#include "host/egress/connections.h"
#include "host/machine/helpers.h"
#include "host/sandbox/sandbox.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/rules/upstream.h"

/* Limit of reads in one turn of the loop: a proxy that never stops reporting must not keep the
 * host from other work. */
#define READS_MAX 16
/* Limit of unread orders: the longest one, and more answers than there are questions. */
#define PENDING_MAX (FRAME_MAX + (64u << 10))
/* How long to wait for the death of a process that has closed its socket. */
#define GONE_MS 200

enum { HTTPS, HTTP, ALL, NO };

/* ---- opening ---- */

/* An empty variable counts as not set. */
static int
copy_variable(const char *upper, const char *lower, char **ret, struct koda_error *err)
{
	const char *value = getenv(upper);

	if (value == NULL || value[0] == '\0')
		value = getenv(lower);
	if (value == NULL || value[0] == '\0')
		return 0;
	if (strlen(value) > UPSTREAM_VALUE_MAX)
		return err_set(err, KODA_INVALID, 0, "%s has more than %d bytes", upper,
		    UPSTREAM_VALUE_MAX);
	*ret = strdup(value);
	return *ret != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "session");
}

static int
read_variables(struct egress_session *es, struct koda_error *err)
{
	struct upstream_variables v;
	struct upstream upstream = { 0 };

	if (copy_variable("HTTPS_PROXY", "https_proxy", &es->variable[HTTPS], err) < 0 ||
	    copy_variable("HTTP_PROXY", "http_proxy", &es->variable[HTTP], err) < 0 ||
	    copy_variable("ALL_PROXY", "all_proxy", &es->variable[ALL], err) < 0 ||
	    copy_variable("NO_PROXY", "no_proxy", &es->variable[NO], err) < 0)
		return -1;
	v = (struct upstream_variables){ .https_proxy = es->variable[HTTPS],
		.http_proxy = es->variable[HTTP],
		.all_proxy = es->variable[ALL],
		.no_proxy = es->variable[NO] };
	if (upstream_parse(&v, &upstream, err) < 0)
		return err_wrap(err, "commands have no network as it is set up here");
	upstream_done(&upstream);
	return 0;
}

int
egress_open(struct koda_session *ses, const char *helper_dir, struct koda_error *err)
{
	struct egress_session *es = calloc(1, sizeof(*es));

	if (es == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "session");
	ses->egress = es;
	if (helpers_find(helper_dir, "koda-egress-proxy", es->path, err) < 0)
		return -1;
	/* Without this program everything but ssh works. */
	if (helpers_find(helper_dir, "koda-egress-connect", es->connect_path, NULL) < 0)
		es->connect_path[0] = '\0';
	return read_variables(es, err);
}

void
egress_go_directly(struct koda_session *ses)
{
	for (size_t i = 0; ses->egress != NULL && i < N_ELEMENTS(ses->egress->variable); i++) {
		free(ses->egress->variable[i]);
		ses->egress->variable[i] = NULL;
	}
}

const char *
egress_connect_path(const struct koda_session *ses)
{
	return ses->egress != NULL ? ses->egress->connect_path : "";
}

/* ---- the listening sockets ---- */

static void on_waiting(struct source *source);

/* Watch the sockets that no proxy serves: the next connection starts one, as soon as the backoff
 * allows. */
static void
watch_ports(struct egress *e)
{
	bool wait = e->state == EGRESS_DOWN && monotonic_ns() >= e->not_before;

	for (struct egress_port *p = e->ports; p != NULL; p = p->next) {
		if (wait && p->fd >= 0)
			session_watch(e->ses, &p->source, p->fd, EPOLLIN);
		else
			session_unwatch(e->ses, &p->source);
	}
	if (e->state == EGRESS_DOWN && !wait && e->ports != NULL)
		session_wake_at(e->ses, e->not_before);
}

static void
close_port(struct egress_port *port)
{
	session_unwatch(port->egress->ses, &port->source);
	close_at(&port->fd);
	port->fd = -1;
	port->served = false;
}

/* ---- the process's end ---- */

static void
stop(struct egress *e)
{
	session_unwatch(e->ses, &e->source);
	frame_done(&e->fs); /* it ends with its socket */
	child_kill(&e->child);
	session_adopt(e->ses, &e->child);
	close_at(&e->child.pidfd);
	e->child.pidfd = -1;
	e->state = EGRESS_DOWN;
	for (struct egress_port *p = e->ports; p != NULL; p = p->next) {
		p->served = false;
		if (p->connections != NULL)
			connections_cut(p->connections, "the egress proxy ended under it");
	}
	egress_questions_orphan(e);
}

static uint64_t
backoff_ns(unsigned deaths)
{
	if (deaths > EGRESS_BARREN_MAX)
		deaths = EGRESS_BARREN_MAX;
	return deaths < 2 ? 0 : (EGRESS_BACKOFF_MS * NS_PER_MS) << (2 * (deaths - 2));
}

static void
bury(struct egress *e, bool barren, const char *why)
{
	stop(e);
	e->barren += barren;
	e->useless = e->useful && !barren ? 0 : e->useless + 1;
	e->not_before = monotonic_ns() + backoff_ns(e->useless);
	if (e->barren >= EGRESS_BARREN_MAX) {
		e->state = EGRESS_FAILED;
		for (struct egress_port *p = e->ports; p != NULL; p = p->next)
			close_port(p);
	}
	watch_ports(e);
	/* Last: the callback may answer questions, and release slots or the session. */
	session_event(e->ses, KODA_EVENT_DEATH, "the egress proxy is gone: %s", why);
	if (e->state == EGRESS_FAILED)
		session_event(e->ses, KODA_EVENT_DEGRADED,
		    "commands have no network, the egress proxy cannot be used: %s", why);
}

/* The proxy has sent something invalid, hangs, or does not start. */
static void
lost(struct egress *e, const char *why)
{
	bury(e, true, why);
}

/* The proxy has closed its socket. One that does that and does not exit is broken. */
static void
ended(struct egress *e)
{
	const bool gone = child_gone(&e->child, GONE_MS);
	char how[64], why[KODA_MESSAGE_MAX];

	if (e->failed[0] != '\0')
		snprintf(why, sizeof(why), "%s", e->failed);
	else
		snprintf(why, sizeof(why), "%s",
		    gone ? child_end(&e->child, how, sizeof(how)) : "it closed its socket");
	bury(e, e->state != EGRESS_UP || !gone, why);
}

/* Read the last reports of a proxy that no longer takes orders. */
static void
read_rest(struct egress *e)
{
	for (int i = 0; !e->fs.eof && i < READS_MAX; i++)
		if (egress_report_take(e, NULL) < 0 || frame_fill(&e->fs, false, NULL) <= 0)
			return;
}

/* A read or a write has failed. A socket that the proxy has closed is an ordinary death; any
 * other error is the proxy's fault. */
static void
broke(struct egress *e, const struct koda_error *err)
{
	if (err->code != KODA_IO && !e->fs.eof) {
		lost(e, err->message);
		return;
	}
	read_rest(e);
	ended(e);
}

/* ---- orders ---- */

int
egress_send(struct egress *e, const Koda__EgressOrder *order, int fd, struct koda_error *err)
{
	ssize_t len = message_queue(&e->fs, &order->base, err);
	int r;

	if (len < 0)
		return -1;
	r = fd >= 0 ? frame_flush_with_fd(&e->fs, (size_t)len, fd, EGRESS_SYNC_MS, err)
		    : frame_flush(&e->fs, false, err);
	if (r < 0)
		return -1;
	if (frame_pending(&e->fs) > PENDING_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "it does not read what it is told");
	session_watch(e->ses, &e->source, e->fs.fd,
	    EPOLLIN | (frame_pending(&e->fs) > 0 ? EPOLLOUT : 0));
	return 0;
}

void
egress_order(struct egress *e, const Koda__EgressOrder *order)
{
	struct koda_error err;

	if (egress_send(e, order, -1, &err) < 0)
		broke(e, &err);
}

static int
send_serve(struct egress *e, struct egress_port *port, struct koda_error *err)
{
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressServe serve = KODA__EGRESS_SERVE__INIT;

	serve.slot = port->slot;
	one.order_case = KODA__EGRESS_ORDER__ORDER_SERVE;
	one.serve = &serve;
	if (egress_send(e, &one, port->fd, err) < 0)
		return -1;
	port->served = true;
	return 0;
}

static int
send_start(struct egress *e, struct koda_error *err)
{
	const struct egress_session *es = e->ses->egress;
	cleanup_free Koda__EgressGrant *grants = calloc(es->n_grants + 1, sizeof(*grants));
	cleanup_free Koda__EgressGrant **list =
	    calloc(es->n_grants + 1, sizeof(Koda__EgressGrant *));
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressStart start = KODA__EGRESS_START__INIT;
	Koda__EgressUpstream upstream = KODA__EGRESS_UPSTREAM__INIT;
	const uint8_t *packed;
	size_t len;

	if (grants == NULL || list == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "egress");
	for (size_t i = 0; i < es->n_grants; i++) {
		koda__egress_grant__init(&grants[i]);
		grants[i].host = message_text(es->grants[i].host);
		grants[i].port = es->grants[i].port;
		list[i] = &grants[i];
	}
	packed = koda_policy_packed(e->policy, &len);
	start.protocol = KODA_PROTOCOL_VERSION;
	start.policy = (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)packed };
	start.mode = (Koda__Mode)e->ses->mode;
	if ((upstream.has_https_proxy = es->variable[HTTPS] != NULL))
		upstream.https_proxy = message_text(es->variable[HTTPS]);
	if ((upstream.has_http_proxy = es->variable[HTTP] != NULL))
		upstream.http_proxy = message_text(es->variable[HTTP]);
	if ((upstream.has_all_proxy = es->variable[ALL] != NULL))
		upstream.all_proxy = message_text(es->variable[ALL]);
	if ((upstream.has_no_proxy = es->variable[NO] != NULL))
		upstream.no_proxy = message_text(es->variable[NO]);
	start.upstream = &upstream;
	start.ask = egress_asks(e);
	start.intercept = e->ses->intercept;
	start.grant = list;
	start.n_grant = egress_may_be_granted(e) ? es->n_grants : 0;
	one.order_case = KODA__EGRESS_ORDER__ORDER_START;
	one.start = &start;
	return egress_send(e, &one, -1, err);
}

int
egress_up(struct egress *e, struct koda_error *err)
{
	e->state = EGRESS_UP;
	for (struct egress_port *p = e->ports; p != NULL; p = p->next)
		if (p->fd >= 0 && send_serve(e, p, err) < 0)
			return -1;
	return 0;
}

/* Is this a shortage that may be over at the next connection? */
static bool
passes(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == EAGAIN || errnum == ENOMEM;
}

static void
start(struct egress *e)
{
	struct koda_error err;
	int pair[2];

	e->failed[0] = '\0';
	e->useful = false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		err_set(&err, KODA_INTERNAL, errno, "socketpair");
		bury(e, !passes(err.errnum), err.message);
		return;
	}
	frame_init(&e->fs, pair[0]);
	e->state = EGRESS_STARTING;
	e->deadline = monotonic_ns() + EGRESS_READY_MS * NS_PER_MS;
	e->sync_sent = e->synced = 0;
	if (spawn_helper(e->ses->egress->path, pair[1], &e->child, &err) < 0 ||
	    send_start(e, &err) < 0)
		bury(e, !passes(err.errnum), err.message);
	else
		session_wake_at(e->ses, e->deadline);
	close(pair[1]);
	watch_ports(e);
}

static void
on_waiting(struct source *source)
{
	struct egress *e = ((struct egress_port *)source)->egress;

	if (e->state == EGRESS_DOWN)
		start(e);
}

/* Take what is there. False: everything was taken, or the proxy is gone. */
static bool
receive(struct egress *e)
{
	struct koda_error err;
	int r = 1;

	for (int i = 0; r > 0 && i < READS_MAX; i++) {
		r = frame_fill(&e->fs, false, &err);
		if (r > 0 && egress_report_take(e, &err) < 0) {
			broke(e, &err);
			return false;
		}
	}
	if (r < 0)
		broke(e, &err);
	return r > 0;
}

static void
on_control(struct source *source)
{
	struct egress *e = (struct egress *)source;
	struct koda_error err;

	receive(e);
	if (e->fs.fd < 0 || (source->events & EPOLLOUT) == 0)
		return;
	if (frame_flush(&e->fs, false, &err) < 0)
		broke(e, &err);
	else if (frame_pending(&e->fs) == 0)
		session_watch(e->ses, &e->source, e->fs.fd, EPOLLIN);
}

/* Wait until the proxy has sent what is needed, for at most timeout_ms. */
static bool
wait_for(struct egress *e, bool (*there)(const struct egress *e), int timeout_ms)
{
	const uint64_t until = monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	while (e->fs.fd >= 0 && !there(e)) {
		struct pollfd pfd = { .fd = e->fs.fd, .events = POLLIN };
		struct koda_error err;
		uint64_t now = monotonic_ns();

		if (now >= until)
			return false;
		if (frame_pending(&e->fs) > 0)
			pfd.events |= POLLOUT;
		poll(&pfd, 1, (int)((until - now) / NS_PER_MS + 1));
		if ((pfd.revents & POLLOUT) != 0 && frame_flush(&e->fs, false, &err) < 0)
			broke(e, &err);
		else if ((pfd.revents & (POLLIN | POLLHUP | POLLERR)) != 0)
			receive(e);
	}
	return there(e);
}

static bool
is_up(const struct egress *e)
{
	return e->state == EGRESS_UP;
}

static bool
is_synced(const struct egress *e)
{
	return e->synced == e->sync_sent;
}

void
egress_drain(struct egress_port *port, bool sync)
{
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressSync number = KODA__EGRESS_SYNC__INIT;
	struct egress *e = port->egress;

	if (e == NULL || e->state != EGRESS_UP || !port->served)
		return;
	if (!sync) {
		/* READS_MAX rounds suffice: what is still unread then was sent after the reports
		 * needed here. */
		for (int i = 0; i < READS_MAX && e->fs.fd >= 0 && receive(e); i++)
			;
		return;
	}
	number.number = ++e->sync_sent;
	number.has_slot = true;
	number.slot = port->slot;
	one.order_case = KODA__EGRESS_ORDER__ORDER_SYNC;
	one.sync = &number;
	egress_order(e, &one);
	wait_for(e, is_synced, EGRESS_SYNC_MS);
}

/* ---- slots come and go ---- */

static struct egress *
egress_new(struct koda_session *ses, struct koda_policy *policy)
{
	struct egress *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->source = (struct source){ .ready = on_control, .fd = -1 };
	e->ses = ses;
	e->policy = koda_policy_ref(policy);
	e->child.pidfd = -1;
	e->fs.fd = e->certificates_held = -1;
	e->next_slot = 1;
	arena_init(&e->arena);
	e->next = ses->egress->all;
	ses->egress->all = e;
	return e;
}

static void
egress_free(struct egress *e)
{
	struct egress **at = &e->ses->egress->all;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	egress_questions_free(e, 0);
	if (e->fs.fd >= 0)
		stop(e);
	if (e->ses->egress->foreign)
		free(e->certificates);
	else
		certificates_remove(e->certificates, EGRESS_CERTIFICATES_NAME);
	close_at(&e->certificates_held);
	koda_policy_free(e->policy);
	arena_done(&e->arena);
	free(e);
}

void
egress_port_init(struct egress_port *port, struct sandbox *sb)
{
	*port =
	    (struct egress_port){ .source = { .ready = on_waiting, .fd = -1 }, .fd = -1, .sb = sb };
}

static struct egress *
find_egress(struct koda_session *ses, struct koda_policy *policy)
{
	struct egress *e = ses->egress->all;

	while (e != NULL && !koda_policy_equal(e->policy, policy))
		e = e->next;
	return e != NULL ? e : egress_new(ses, policy);
}

int
egress_prepare(struct egress_port *port, struct koda_error *err)
{
	struct koda_slot *slot = port->sb->slot;
	struct egress *e = find_egress(slot->ses, slot->policy);

	if (e == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "egress");
	port->egress = e;
	port->slot = e->next_slot++;
	port->next = e->ports;
	e->ports = port;
	if (!slot->ses->intercept)
		return 0;
	if (e->certificates == NULL &&
	    (e->certificates = certificates_make(EGRESS_CERTIFICATES_NAME, &e->certificates_held,
		 err)) == NULL)
		return -1;
	if (e->state == EGRESS_DOWN)
		start(e);
	if (e->state == EGRESS_STARTING)
		wait_for(e, is_up, EGRESS_READY_MS);
	if (e->state != EGRESS_UP)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "the egress proxy, which is to end TLS, does not start%s%s",
		    e->failed[0] != '\0' ? ": " : "", e->failed);
	return 0;
}

void
egress_serve(struct egress_port *port, int fd)
{
	struct egress *e = port->egress;
	struct koda_error why;

	port->fd = fd;
	if (e->state == EGRESS_FAILED) {
		/* Connections fail at once, rather than wait for a proxy that will not come. */
		close_port(port);
		return;
	}
	if (e->state == EGRESS_UP && send_serve(e, port, &why) < 0)
		broke(e, &why);
	else
		watch_ports(e);
}

void
egress_drop(struct egress_port *port)
{
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressDrop drop = KODA__EGRESS_DROP__INIT;
	struct egress *e = port->egress;
	struct egress_port **at;
	bool served;

	if (e == NULL)
		return;
	egress_drain(port, false); /* also for commands that die with the sandbox */
	served = port->served;
	for (at = &e->ports; *at != port; at = &(*at)->next)
		;
	*at = port->next;
	close_port(port);
	port->egress = NULL;
	if (port->connections != NULL)
		connections_cut(port->connections, "its sandbox ended");
	egress_questions_free(e, port->slot);
	if (e->fs.fd < 0)
		return;
	if (e->ports == NULL) {
		/* The next tick frees the rest: code further up the stack may still use it. */
		stop(e);
		return;
	}
	if (!served)
		return;
	drop.slot = port->slot;
	one.order_case = KODA__EGRESS_ORDER__ORDER_DROP;
	one.drop = &drop;
	egress_order(e, &one);
}

void
egress_port_done(struct egress_port *port)
{
	egress_drop(port);
	connections_free(port->connections);
	port->connections = NULL;
}

const char *
egress_certificates(const struct egress_port *port)
{
	return port->egress != NULL ? port->egress->certificates : NULL;
}

/* ---- time, the end ---- */

uint64_t
egress_next_time(const struct koda_session *ses)
{
	uint64_t first = UINT64_MAX;

	for (const struct egress *e = ses->egress != NULL ? ses->egress->all : NULL; e != NULL;
	     e = e->next) {
		uint64_t at = e->state == EGRESS_STARTING ? e->deadline
		    : e->state == EGRESS_DOWN && e->ports != NULL && e->not_before > 0
		    ? e->not_before
		    : UINT64_MAX;

		for (const struct egress_question *q = e->questions; q != NULL; q = q->next)
			if (q->unasked)
				at = 0;
		if (at < first)
			first = at;
	}
	return first;
}

void
egress_tick(struct koda_session *ses)
{
	struct egress_session *es = ses->egress;
	uint64_t now;

	if (es == NULL || es->all == NULL)
		return;
	now = monotonic_ns();
	for (struct egress *e = es->all, *next; e != NULL; e = next) {
		next = e->next;
		if (e->ports == NULL) {
			egress_free(e);
			continue;
		}
		if (e->state == EGRESS_STARTING && now >= e->deadline)
			lost(e, "it did not get ready in time");
		if (e->state == EGRESS_DOWN && e->not_before != 0 && now >= e->not_before) {
			e->not_before = 0;
			watch_ports(e);
		}
	}
	egress_questions_put(ses);
}

void
egress_close(struct koda_session *ses)
{
	struct egress_session *es = ses->egress;

	if (es == NULL)
		return;
	while (es->all != NULL)
		egress_free(es->all);
	for (size_t i = 0; i < N_ELEMENTS(es->variable); i++)
		free(es->variable[i]);
	free(es->grants);
	free(es);
	ses->egress = NULL;
}

void
egress_abandon(struct koda_session *ses)
{
	if (ses->egress == NULL)
		return;
	ses->egress->foreign = true;
	for (struct egress *e = ses->egress->all; e != NULL; e = e->next) {
		e->source.fd = -1; /* the parent shares the epoll set */
		close_at(&e->child.pidfd);
		e->child.pidfd = -1;
		frame_done(&e->fs);
		e->state = EGRESS_FAILED;
		for (struct egress_port *p = e->ports; p != NULL; p = p->next)
			p->source.fd = -1;
	}
}

KODA_API int
koda_slot_connections(struct koda_slot *slot, koda_connection_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct koda_connection *one;
	const struct connections *c;
	int stopped = 0;

	if (slot->sandbox == NULL)
		return 0;
	/* The callback may release the slot, or close the session. */
	session_enter(ses);
	if (session_check(ses, NULL) == 0)
		egress_drain(&slot->sandbox->egress, true);
	c = slot->sandbox->egress.connections;
	/* The callback may cause new entries, which push out the oldest. */
	for (uint64_t i = c != NULL ? connections_first(c) : 0;
	     c != NULL && stopped == 0 && i < connections_count(c); i++)
		if ((one = connections_at(c, i)) != NULL)
			stopped = fn(data, one);
	session_leave(ses);
	return stopped;
}

int
koda_slot_new_connections(struct koda_slot *slot, uint64_t *seen, uint64_t *ret_missed,
    koda_connection_fn *fn, void *data)
{
	struct koda_session *ses = slot->ses;
	const struct koda_connection *one;
	const struct connections *c;
	int stop = 0;

	*ret_missed = 0;
	session_enter(ses);
	while (stop == 0 && slot->sandbox != NULL &&
	    (c = slot->sandbox->egress.connections) != NULL && *seen < connections_count(c)) {
		if (*seen < connections_first(c)) {
			*ret_missed += connections_first(c) - *seen;
			*seen = connections_first(c);
		} else if ((one = connections_at(c, (*seen)++)) != NULL) {
			stop = fn(data, one);
		}
	}
	session_leave(ses);
	return stop;
}
