/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/entry.h"
#include "host/context/turn.h"
#include "host/egress/certificates.h"
#include "host/egress/mapped_socket.h"
#include "host/egress/questions.h"
#include "host/egress/variables.h"
#include "host/machine/helpers.h"
#include "host/policy/policy_api.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* One policy of a session, and the process that serves it. */
struct egress {
	struct egress_process process;
	struct egress *next;
	struct koda_session *ses;
	struct koda_policy *policy; /* a reference */
	struct egress_port *ports;
	uint64_t next_slot;
	char *certificates; /* directory, or NULL */
	int certificates_held;
};

struct egress_session {
	struct egress *all;
	char path[PATH_LEN_MAX + 1], connect_path[PATH_LEN_MAX + 1];
	struct upstream_variables variables;
	struct questions questions;
	bool foreign; /* in a forked child */
};

static struct questions *
questions_of(const struct egress *e)
{
	return &e->ses->egress->questions;
}

/* ---- what a proxy reports ---- */

/* Find a slot that the proxy was told about. *ret is NULL if the slot has ended meanwhile. */
static int
find_served(const struct egress *e, uint64_t slot, struct egress_port **ret, struct koda_error *err)
{
	if (slot == 0 || slot >= e->next_slot)
		return err_set(err, KODA_PROTOCOL, 0, "it reported a slot that it does not serve");
	*ret = port_find(e->ports, slot);
	if (*ret != NULL && !(*ret)->served)
		return err_set(err, KODA_PROTOCOL, 0, "it reported a slot that it does not serve");
	return 0;
}

/* Give the proxy the sockets of its slots. */
static int
on_ready(void *data, const void *ca, size_t ca_len, struct koda_error *err)
{
	struct egress *e = data;

	if (ca != NULL &&
	    certificates_write(e->certificates, EGRESS_CERTIFICATES_NAME,
		koda_policy_get(e->policy)->ca_bundle, ca, ca_len, err) < 0) {
		/* This is not a failure of the proxy's socket. */
		if (err != NULL)
			err->code = KODA_UNSUPPORTED;
		return -1;
	}
	egress_process_set_up(&e->process);
	for (struct egress_port *p = e->ports; p != NULL; p = p->next)
		if (p->fd >= 0 && port_serve(p, &e->process.wire, err) < 0)
			return -1;
	return 0;
}

static int
on_connection(void *data, uint64_t slot, uint64_t id, const struct koda_connection *one,
    struct koda_error *err)
{
	struct egress *e = data;
	struct egress_port *port = NULL;

	if (find_served(e, slot, &port, err) < 0)
		return -1;
	egress_process_set_useful(&e->process);
	if (port != NULL)
		port_record(port, id, one);
	return 0;
}

/* A slot that asks for each host also asks about an address, if a rule allows that address. */
static bool
may_ask(const struct egress *e, const struct egress_port *port, enum domain_kind kind)
{
	return port->of.consent == WIRE_CONSENT_EACH ||
	    (port->of.consent == WIRE_CONSENT_UNNAMED && e->process.wire.asks &&
		kind == DOMAIN_NAME);
}

static int
on_ask(void *data, uint64_t slot, uint64_t question, const char *host, enum domain_kind kind,
    unsigned port, struct koda_error *err)
{
	struct egress *e = data;
	struct egress_port *asking = NULL;
	enum question_verdict v = QUESTION_TWICE;

	if (find_served(e, slot, &asking, err) < 0)
		return -1;
	if (asking != NULL && !may_ask(e, asking, kind))
		return err_set(err, KODA_PROTOCOL, 0, "it asked an invalid question");
	if (!questions_wait(questions_of(e), e, question)) {
		if (asking == NULL)
			return 0;
		v = questions_add(questions_of(e), e, slot, question, host, port);
	}
	if (v == QUESTION_TWICE)
		return err_set(err, KODA_PROTOCOL, 0, "it asked the same question twice");
	if (v == QUESTION_ASKED) {
		loop_wake_at(&e->ses->loop, 0);
		return 0;
	}
	return wire_send_answer(&e->process.wire, question,
	    v == QUESTION_YES ? KODA_SCOPE_SESSION : KODA_SCOPE_NO, err);
}

static void
on_withdraw(void *data, uint64_t question)
{
	struct egress *e = data;

	questions_withdraw(questions_of(e), e, question);
}

static int
on_want_socket(void *data, uint64_t id, const char *domain, struct koda_error *err)
{
	struct egress *e = data;
	const struct policy *p = koda_policy_get(e->policy);
	cleanup_close int fd = -1;
	const char *path = NULL;

	for (size_t i = 0; path == NULL && i < p->n_sockets; i++)
		if (strcmp(p->sockets[i].domain, domain) == 0)
			path = p->sockets[i].path;
	if (path == NULL)
		return err_set(err, KODA_PROTOCOL, 0,
		    "it asked for a socket that the policy does not have");
	fd = mapped_socket_connect(path);
	return wire_send_socket(&e->process.wire, id, fd, errno, err);
}

/* ---- what becomes of a process ---- */

/* A policy with trust "forbid" allows no change, not even with approval. It is for an agent that
 * plans: that agent gets only what its rules allow, even if other agents of the session ask. */
static bool
may_be_granted(const struct egress *e)
{
	return e->ses->mode == KODA_SAFE && koda_policy_get(e->policy)->trust != KODA_TRUST_FORBID;
}

static int
on_start(void *data, struct koda_error *err)
{
	struct egress *e = data;
	const struct egress_session *es = e->ses->egress;
	const struct wire_start start = { .policy = e->policy,
		.mode = e->ses->mode,
		.upstream = es->variables,
		/* Only in Safe mode, by the mode's table. */
		.asks = may_be_granted(e) && e->ses->approve != NULL,
		.intercepts = e->ses->intercept,
		.grants = es->questions.grants,
		.n_grants = may_be_granted(e) ? es->questions.n_grants : 0 };

	return wire_send_start(&e->process.wire, &start, err);
}

static void
on_stopped(void *data)
{
	struct egress *e = data;

	port_unserve_all(e->ports);
	questions_orphan(questions_of(e), e);
}

/* Watch the sockets that no proxy serves: the next connection starts one, as soon as the backoff
 * allows. */
static void
watch_ports(void *data)
{
	struct egress *e = data;
	const struct egress_process *p = &e->process;
	const bool wait = egress_process_may_start(p);

	if (p->state == PROCESS_FAILED)
		port_close_all(e->ports, &e->ses->loop);
	port_watch_all(e->ports, &e->ses->loop, wait);
	if (p->state == PROCESS_DOWN && !wait && e->ports != NULL)
		loop_wake_at(&e->ses->loop, p->not_before);
}

static const struct process_client process_client = { on_start, on_stopped, watch_ports,
	{ on_ready, on_connection, on_ask, on_withdraw, on_want_socket } };

/* ---- questions ---- */

static bool
on_answered(struct egress_question *q, enum koda_scope scope)
{
	struct koda_session *ses = q->egress->ses;

	if (*ses->here != 1)
		return false; /* the parent's question */
	session_enter(ses);
	questions_answer(q, scope);
	session_leave(ses);
	return true;
}

static void
send_answer(struct egress *e, uint64_t id, enum koda_scope scope)
{
	struct koda_error err;

	if (e->process.state == PROCESS_UP)
		egress_process_ordered(&e->process,
		    wire_send_answer(&e->process.wire, id, scope, &err), &err);
}

static struct asked **
postpone_answer(struct egress_question *q)
{
	return session_postpones(q->egress->ses);
}

static const struct questions_client questions_client = { on_answered, send_answer,
	postpone_answer };

/* ---- the session ---- */

void
egress_go_directly(struct koda_session *ses)
{
	if (ses->egress != NULL)
		variables_done(&ses->egress->variables);
}

const char *
egress_connect_path(const struct koda_session *ses)
{
	return ses->egress != NULL ? ses->egress->connect_path : "";
}

static struct egress *
egress_new(struct koda_session *ses, struct koda_policy *policy)
{
	struct egress *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	egress_process_init(&e->process, ses->egress->path, ses, &process_client, e);
	e->ses = ses;
	e->policy = koda_policy_ref(policy);
	e->certificates_held = -1;
	e->next_slot = 1;
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
	questions_free(questions_of(e), e, 0);
	egress_process_done(&e->process);
	if (e->ses->egress->foreign)
		free(e->certificates);
	else
		certificates_remove(e->certificates, EGRESS_CERTIFICATES_NAME);
	close_at(&e->certificates_held);
	koda_policy_free(e->policy);
	free(e);
}

static struct egress *
find_egress(struct koda_session *ses, struct koda_policy *policy)
{
	struct egress *e = ses->egress->all;

	while (e != NULL && !koda_policy_equal(e->policy, policy))
		e = e->next;
	return e != NULL ? e : egress_new(ses, policy);
}

/* ---- time ---- */

static uint64_t
next_time(struct koda_session *ses)
{
	uint64_t first = UINT64_MAX;

	if (questions_pending(&ses->egress->questions))
		return 0;
	for (const struct egress *e = ses->egress->all; e != NULL; e = e->next) {
		uint64_t at = egress_process_next_time(&e->process, e->ports != NULL);

		if (at < first)
			first = at;
	}
	return first;
}

/* Check deadlines, and ask the user the pending questions. */
static void
tick(struct koda_session *ses)
{
	struct egress_session *es = ses->egress;
	uint64_t now;

	if (es->all == NULL)
		return;
	now = monotonic_ns();
	for (struct egress *e = es->all, *next; e != NULL; e = next) {
		next = e->next;
		if (e->ports == NULL)
			egress_free(e);
		else
			egress_process_tick(&e->process, now);
	}
	while (!ses->closing && questions_pending(&es->questions))
		questions_ask_next(&es->questions, ses->mode, ses->approve, ses->data);
}

static const struct ticker ticker = { tick, NULL, next_time };

int
egress_open(struct koda_session *ses, const char *helper_dir, struct koda_error *err)
{
	struct egress_session *es = calloc(1, sizeof(*es));

	if (es == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "session");
	es->questions.client = &questions_client;
	ses->egress = es;
	turn_add(ses, &ticker);
	if (helpers_find(helper_dir, "koda-egress-proxy", es->path, err) < 0)
		return -1;
	/* Without this program everything but ssh works. */
	if (helpers_find(helper_dir, "koda-egress-connect", es->connect_path, NULL) < 0)
		es->connect_path[0] = '\0';
	return variables_read(&es->variables, err);
}

/* ---- slots come and go ---- */

static void
on_waiting(struct source *source)
{
	struct egress *e = ((struct egress_port *)source)->egress;

	if (e->process.state == PROCESS_DOWN)
		egress_process_start(&e->process);
}

void
egress_port_init(struct egress_port *port, const struct egress_slot *of)
{
	*port = (struct egress_port){ .source = { .ready = on_waiting, .fd = -1 },
		.fd = -1,
		.of = *of };
}

int
egress_prepare(struct egress_port *port, struct koda_error *err)
{
	struct egress *e = find_egress(port->of.ses, port->of.policy);
	const char *failed;

	if (e == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "egress");
	port->egress = e;
	port->slot = e->next_slot++;
	port->next = e->ports;
	e->ports = port;
	if (!port->of.ses->intercept)
		return 0;
	if (e->certificates == NULL &&
	    (e->certificates = certificates_make(EGRESS_CERTIFICATES_NAME, &e->certificates_held,
		 err)) == NULL)
		return -1;
	if (e->process.state == PROCESS_DOWN)
		egress_process_start(&e->process);
	if (e->process.state == PROCESS_STARTING)
		egress_process_wait_up(&e->process);
	if (e->process.state == PROCESS_UP)
		return 0;
	failed = e->process.wire.failed;
	return err_set(err, KODA_UNSUPPORTED, 0,
	    "the egress proxy does not start, and this policy needs it to intercept TLS%s%s",
	    failed[0] != '\0' ? ": " : "", failed);
}

void
egress_serve(struct egress_port *port, int fd)
{
	struct egress *e = port->egress;
	struct koda_error err;

	port->fd = fd;
	if (e->process.state == PROCESS_FAILED) {
		/* Connections fail at once, rather than wait for a proxy that will not come. */
		port_close(port, &e->ses->loop);
		return;
	}
	if (e->process.state == PROCESS_UP)
		egress_process_ordered(&e->process, port_serve(port, &e->process.wire, &err), &err);
	else
		watch_ports(e);
}

void
egress_drain(struct egress_port *port, bool sync)
{
	struct egress *e = port->egress;
	struct koda_error err;

	if (e == NULL || e->process.state != PROCESS_UP || !port->served)
		return;
	if (!sync) {
		egress_process_drain(&e->process);
		return;
	}
	egress_process_ordered(&e->process, wire_send_sync(&e->process.wire, port->slot, &err),
	    &err);
	egress_process_wait_synced(&e->process);
}

void
egress_drop(struct egress_port *port)
{
	struct egress *e = port->egress;
	struct koda_error err;
	bool served;

	if (e == NULL)
		return;
	egress_drain(port, false); /* also for commands that die with the sandbox */
	served = port->served;
	port_unlink(&e->ports, port);
	port_close(port, &e->ses->loop);
	port->egress = NULL;
	if (port->connections != NULL)
		connections_cut(port->connections, "its sandbox ended");
	questions_free(questions_of(e), e, port->slot);
	if (!egress_process_runs(&e->process))
		return;
	if (e->ports == NULL) {
		/* The next tick frees the rest: code further up the stack may still use it. */
		egress_process_stop(&e->process);
		return;
	}
	if (served)
		egress_process_ordered(&e->process,
		    wire_send_drop(&e->process.wire, port->slot, &err), &err);
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

/* ---- the end ---- */

void
egress_close(struct koda_session *ses)
{
	struct egress_session *es = ses->egress;

	if (es == NULL)
		return;
	while (es->all != NULL)
		egress_free(es->all);
	variables_done(&es->variables);
	questions_done(&es->questions);
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
		egress_process_abandon(&e->process);
		for (struct egress_port *p = e->ports; p != NULL; p = p->next)
			p->source.fd = -1;
	}
}
