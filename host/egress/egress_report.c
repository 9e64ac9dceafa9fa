#include "host/egress/egress_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "host/approve/asked.h"
#include "host/command/command.h"
#include "host/egress/certificates.h"
#include "host/egress/connections.h"
#include "host/sandbox/sandbox.h"
#include "host/slot/open_exact.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/rules/egress.h"

/* ---- permission to ask, and grants ---- */

/* With trust "forbid" a policy allows no change, not even with approval: it is for an agent that
 * plans, which gets only what its rules allow, even in a session where other agents ask. */
bool
egress_may_be_granted(const struct egress *e)
{
	return e->ses->mode == KODA_SAFE && koda_policy_get(e->policy)->trust != KODA_TRUST_FORBID;
}

/* Only in Safe mode, by the mode's table. */
bool
egress_asks(const struct egress *e)
{
	return egress_may_be_granted(e) && e->ses->approve != NULL;
}

static bool
is_granted(const struct egress_session *es, const char *host, unsigned port)
{
	for (size_t i = 0; i < es->n_grants; i++)
		if (es->grants[i].port == port && strcmp(es->grants[i].host, host) == 0)
			return true;
	return false;
}

static bool
add_grant(struct egress_session *es, const char *host, unsigned port)
{
	struct egress_grant *more;

	if (is_granted(es, host, port))
		return true;
	if (es->n_grants >= EGRESS_GRANTS_MAX)
		return false;
	more = realloc(es->grants, (es->n_grants + 1) * sizeof(*more));
	if (more == NULL)
		return false;
	es->grants = more;
	snprintf(more[es->n_grants].host, sizeof(more[0].host), "%s", host);
	more[es->n_grants++].port = port;
	return true;
}

/* ---- questions ---- */

static void
unlink_question(struct egress_question *q)
{
	struct egress_question **at = &q->egress->questions;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
}

static void
free_question(struct egress_question *q)
{
	unlink_question(q);
	asked_end(&q->asked);
	free(q);
}

void
egress_questions_free(struct egress *e, uint64_t slot)
{
	for (struct egress_question *q = e->questions, *next; q != NULL; q = next) {
		next = q->next;
		if (slot == 0 || q->slot == slot)
			free_question(q);
	}
}

void
egress_questions_orphan(struct egress *e)
{
	for (struct egress_question *q = e->questions, *next; q != NULL; q = next) {
		next = q->next;
		q->id = 0;
		/* The user may still be deciding, and may allow it for the session. */
		if (q->unasked)
			free_question(q);
	}
}

static void
fill_answer(Koda__EgressOrder *one, Koda__EgressAnswer *answer, uint64_t question,
    enum koda_scope scope)
{
	koda__egress_order__init(one);
	koda__egress_answer__init(answer);
	answer->question = question;
	answer->consent = scope == KODA_SCOPE_SESSION ? KODA__EGRESS_CONSENT__EGRESS_CONSENT_SESSION
	    : scope == KODA_SCOPE_ONCE                ? KODA__EGRESS_CONSENT__EGRESS_CONSENT_ONCE
						      : KODA__EGRESS_CONSENT__EGRESS_CONSENT_NO;
	one->order_case = KODA__EGRESS_ORDER__ORDER_ANSWER;
	one->answer = answer;
}

static int
send_answer(struct egress *e, uint64_t question, enum koda_scope scope, struct koda_error *err)
{
	Koda__EgressAnswer answer;
	Koda__EgressOrder one;

	fill_answer(&one, &answer, question, scope);
	return egress_send(e, &one, -1, err);
}

/* The user has answered. Frees the question. */
static void
answer_question(struct egress_question *q, enum koda_scope scope)
{
	struct egress *e = q->egress;
	struct egress_session *es = e->ses->egress;
	char host[DOMAIN_HOST_MAX + 1];
	const unsigned port = q->port;
	Koda__EgressAnswer answer;
	Koda__EgressOrder one;

	memcpy(host, q->host, sizeof(host));
	/* When the grants are full, the answer counts only for the connections that wait now. */
	if (scope == KODA_SCOPE_SESSION && !add_grant(es, host, port))
		scope = KODA_SCOPE_ONCE;
	fill_answer(&one, &answer, q->id, scope);
	free_question(q);
	if (answer.question != 0 && e->state == EGRESS_UP)
		egress_order(e, &one);
	if (scope != KODA_SCOPE_SESSION)
		return;
	/* Other questions for the same host are answered, too. */
	for (e = es->all; e != NULL; e = e->next) {
		for (struct egress_question *next = (q = e->questions); q != NULL; q = next) {
			next = q->next;
			if (q->port != port || strcmp(q->host, host) != 0)
				continue;
			fill_answer(&one, &answer, q->id, scope);
			free_question(q);
			if (answer.question != 0 && e->state == EGRESS_UP) {
				egress_order(e, &one);
				/* The proxy may have died, which frees questions. */
				next = e->questions;
			}
		}
	}
}

static bool
on_answer(void *about, enum koda_scope scope, bool late)
{
	struct egress_question *q = about;
	struct koda_session *ses = q->ses;

	if (*ses->here != 1)
		return false; /* the parent's question */
	session_enter(ses);
	answer_question(q, scope);
	session_leave(ses);
	return true;
}

static const struct asked_ops question_ops = { NULL, on_answer };

static void
put_question(struct koda_session *ses, struct egress_question *q)
{
	struct asked *a = asked_new(&question_ops, q, &q->asked, false);

	if (a == NULL) {
		asked_refuse(&question_ops, q, "");
		return;
	}
	memcpy(a->host, q->host, sizeof(a->host));
	a->question = (struct koda_question){
		.kind = KODA_OP_CONNECT,
		.mode = ses->mode,
		.host = a->host,
		.port = q->port,
	};
	asked_put(a, ses->approve, ses->data);
}

static struct egress_question *
find_unasked(const struct egress_session *es)
{
	for (const struct egress *e = es->all; e != NULL; e = e->next)
		for (struct egress_question *q = e->questions; q != NULL; q = q->next)
			if (q->unasked)
				return q;
	return NULL;
}

void
egress_questions_put(struct koda_session *ses)
{
	struct egress_question *q;

	while (!ses->closing && (q = find_unasked(ses->egress)) != NULL) {
		q->unasked = false;
		put_question(ses, q);
	}
}

/* ---- fields of a report ---- */

/* Take a field as text: no NUL, shorter than size. An empty field has no data. */
static int
take_text(char *ret, size_t size, const ProtobufCBinaryData *field, const char *what,
    struct koda_error *err)
{
	if (field->len >= size || (field->len > 0 && memchr(field->data, '\0', field->len) != NULL))
		return err_set(err, KODA_PROTOCOL, 0, "it reported a %s that is none", what);
	if (field->len > 0)
		memcpy(ret, field->data, field->len);
	ret[field->len] = '\0';
	return 0;
}

/* Take a host. It has to be canonical, like every host that the proxy judges. */
static int
take_host(char ret[DOMAIN_HOST_MAX + 1], const ProtobufCBinaryData *field, bool may_be_empty,
    enum domain_kind *ret_kind, struct koda_error *err)
{
	ret[0] = '\0';
	*ret_kind = DOMAIN_NAME;
	if (field->len == 0 && may_be_empty)
		return 0;
	if (domain_host_parse(field->data, field->len, true, ret, ret_kind) != NULL ||
	    strlen(ret) != field->len || memcmp(ret, field->data, field->len) != 0)
		return err_set(err, KODA_PROTOCOL, 0, "it reported a host that is none");
	return 0;
}

static struct egress_port *
find_port(const struct egress *e, uint64_t slot)
{
	struct egress_port *p = e->ports;

	while (p != NULL && p->slot != slot)
		p = p->next;
	return p;
}

/* Take a slot that the proxy was told about; *ret is NULL if it is gone meanwhile. */
static int
take_slot(const struct egress *e, uint64_t slot, struct egress_port **ret, struct koda_error *err)
{
	if (slot == 0 || slot >= e->next_slot)
		return err_set(err, KODA_PROTOCOL, 0, "it reported a slot that it does not serve");
	*ret = find_port(e, slot);
	if (*ret != NULL && !(*ret)->served)
		return err_set(err, KODA_PROTOCOL, 0, "it reported a slot that it does not serve");
	return 0;
}

/* ---- reports ---- */

static int
on_ready(struct egress *e, const Koda__EgressReady *r, struct koda_error *err)
{
	const unsigned kernel = lockdown_landlock_abi();
	const unsigned wanted = kernel < LOCKDOWN_ABI_FULL ? kernel : LOCKDOWN_ABI_FULL;

	if (e->state != EGRESS_STARTING)
		return err_set(err, KODA_PROTOCOL, 0, "it said twice that it is ready");
	if (r->protocol != KODA_PROTOCOL_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "koda-egress-proxy speaks protocol %u and this library %u: install both from "
		    "one build",
		    r->protocol, KODA_PROTOCOL_VERSION);
	if (r->policy_digest.len != KODA_DIGEST_BYTES ||
	    memcmp(r->policy_digest.data, koda_policy_digest(e->policy), KODA_DIGEST_BYTES) != 0)
		return err_set(err, KODA_PROTOCOL, 0, "it goes by another policy");
	if (!r->seccomp || r->landlock_abi < wanted)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "it is not confined (Landlock ABI %u, %u needed; seccomp %s)", r->landlock_abi,
		    wanted, r->seccomp ? "yes" : "no");
	if (r->has_ca_certificate != e->ses->intercept ||
	    (r->has_ca_certificate &&
		(r->ca_certificate.len > EGRESS_CA_MAX ||
		    !certificates_is_pem(r->ca_certificate.data, r->ca_certificate.len))))
		return err_set(err, KODA_PROTOCOL, 0, "what it calls its certificate is none");
	if (r->has_ca_certificate &&
	    certificates_write(e->certificates, EGRESS_CERTIFICATES_NAME,
		koda_policy_get(e->policy)->ca_bundle, r->ca_certificate.data,
		r->ca_certificate.len, err) < 0) {
		/* This is not a failure of the proxy's socket. */
		if (err != NULL)
			err->code = KODA_UNSUPPORTED;
		return -1;
	}
	return egress_up(e, err);
}

static int
on_failed(struct egress *e, const Koda__EgressFailed *f)
{
	bytes_show(e->failed, sizeof(e->failed), f->why.data, f->why.len);
	return 0; /* the proxy ends itself next */
}

static void
record_violation(struct egress_port *port, const char *host, unsigned number, const char *rule,
    const char *detail)
{
	struct sandbox *sb = port->sb;
	char target[DOMAIN_HOST_MAX + 16], shown_rule[256], shown_detail[EGRESS_SENTENCE_MAX];
	const struct koda_violation v = { .kind = KODA_VIOLATION_NETWORK_OUTBOUND,
		.target = target,
		.command = sandbox_only_command(sb),
		.rule = shown_rule,
		.detail = shown_detail,
		.certain = true };

	snprintf(target, sizeof(target), "%s:%u", host, number);
	bytes_show(shown_rule, sizeof(shown_rule), rule, strlen(rule));
	bytes_show(shown_detail, sizeof(shown_detail), detail, strlen(detail));
	violations_record(&sb->violations, &v);
}

static const char *
protocol_name(Koda__EgressKind kind)
{
	switch ((int)kind) {
	case KODA__EGRESS_KIND__EGRESS_KIND_CONNECT:
		return "connect";
	case KODA__EGRESS_KIND__EGRESS_KIND_SOCKS:
		return "socks";
	case KODA__EGRESS_KIND__EGRESS_KIND_HTTP:
		return "http";
	case KODA__EGRESS_KIND__EGRESS_KIND_INTERCEPT:
		return "https";
	default:
		return NULL;
	}
}

static int
on_connection(struct egress *e, const Koda__EgressConnection *m, struct koda_error *err)
{
	char host[DOMAIN_HOST_MAX + 1], rule[DOMAIN_PATTERN_MAX + 64],
	    detail[EGRESS_SENTENCE_MAX + 1];
	const bool invalid = m->outcome == KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID;
	struct koda_connection one = { .protocol = protocol_name(m->kind),
		.host = host,
		.port = m->port,
		.outcome = (enum koda_connection_outcome)m->outcome,
		.open = m->open,
		.rule = rule,
		.detail = detail,
		.up = m->up,
		.down = m->down,
		.duration_us = m->duration_us };
	struct egress_port *port = NULL;
	enum domain_kind kind;

	if (take_slot(e, m->slot, &port, err) < 0 ||
	    take_host(host, &m->host, invalid, &kind, err) < 0 ||
	    take_text(rule, sizeof(rule), &m->rule, "rule", err) < 0 ||
	    take_text(detail, sizeof(detail), &m->detail, "sentence", err) < 0)
		return -1;
	if (one.protocol == NULL || m->outcome < KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED ||
	    m->outcome > KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID || m->port > UINT16_MAX ||
	    (m->port == 0 && !invalid) ||
	    (m->open && m->outcome != KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED))
		return err_set(err, KODA_PROTOCOL, 0, "it reported a connection that is none");
	e->useful = true;
	e->barren = 0;
	if (port == NULL)
		return 0;
	if (port->connections == NULL)
		port->connections = connections_new(EGRESS_CONNECTIONS_MAX);
	if (port->connections != NULL)
		connections_report(port->connections, m->id, &one);
	if (one.outcome == KODA_CONNECTION_DENIED)
		record_violation(port, host, m->port, rule, detail);
	return 0;
}

static struct egress_question *
find_question(const struct egress *e, uint64_t slot, const char *host, unsigned port)
{
	struct egress_question *q = e->questions;

	while (q != NULL && (q->slot != slot || q->port != port || strcmp(q->host, host) != 0))
		q = q->next;
	return q;
}

static size_t
count_questions(const struct egress *e, uint64_t slot)
{
	size_t n = 0;

	for (const struct egress_question *q = e->questions; q != NULL; q = q->next)
		n += q->slot == slot;
	return n;
}

static int
on_ask(struct egress *e, const Koda__EgressAsk *m, struct koda_error *err)
{
	char host[DOMAIN_HOST_MAX + 1];
	struct egress_question *q;
	struct egress_port *port = NULL;
	enum domain_kind kind;

	if (take_slot(e, m->slot, &port, err) < 0 ||
	    take_host(host, &m->host, false, &kind, err) < 0)
		return -1;
	if (!egress_asks(e) || m->question == 0 || kind != DOMAIN_NAME || m->port == 0 ||
	    m->port > UINT16_MAX || protocol_name(m->kind) == NULL)
		return err_set(err, KODA_PROTOCOL, 0, "it asked what is not to be asked");
	for (q = e->questions; q != NULL; q = q->next)
		if (q->id == m->question)
			return err_set(err, KODA_PROTOCOL, 0, "it asked the same twice");
	if (port == NULL)
		return 0;
	if (is_granted(e->ses->egress, host, m->port))
		return send_answer(e, m->question, KODA_SCOPE_SESSION, err);
	q = find_question(e, m->slot, host, m->port);
	if (q != NULL && q->id != 0)
		return err_set(err, KODA_PROTOCOL, 0, "it asked the same twice");
	if (q != NULL) {
		/* The user still decides a question whose first client has given up. */
		q->id = m->question;
		return 0;
	}
	if (count_questions(e, m->slot) >= EGRESS_ASKS_MAX || (q = calloc(1, sizeof(*q))) == NULL)
		return send_answer(e, m->question, KODA_SCOPE_NO, err);
	*q = (struct egress_question){ .next = e->questions,
		.egress = e,
		.ses = e->ses,
		.id = m->question,
		.slot = m->slot,
		.unasked = true,
		.port = m->port };
	memcpy(q->host, host, sizeof(q->host));
	e->questions = q;
	session_wake_at(e->ses, 0);
	return 0;
}

static void
on_withdraw(struct egress *e, const Koda__EgressWithdraw *m)
{
	for (struct egress_question *q = e->questions; q != NULL; q = q->next) {
		if (q->id != m->question || m->question == 0)
			continue;
		q->id = 0;
		if (q->unasked)
			free_question(q);
		return;
	}
}

/* Returns -1 with errno. */
static int
connect_socket(const char *path)
{
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* A command that may write to the path must not choose which of the host's sockets it
	 * is. */
	cleanup_close int place = open_exact(path, O_PATH);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct stat st;

	if (fd < 0 || place < 0 || fstat(place, &st) < 0)
		return -1;
	if (!S_ISSOCK(st.st_mode)) {
		errno = ENOTSOCK;
		return -1;
	}
	/* The path may also be too long for a socket address. */
	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d", place);
	/* A Unix socket is connected at once, or (EAGAIN) its queue is full. */
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0)
		return -1;
	return take_fd(&fd);
}

static int
on_want_socket(struct egress *e, const Koda__EgressWantSocket *m, struct koda_error *err)
{
	const struct policy *p = koda_policy_get(e->policy);
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressSocket answer = KODA__EGRESS_SOCKET__INIT;
	char domain[DOMAIN_PATTERN_MAX + 1];
	cleanup_close int fd = -1;
	const char *path = NULL;

	if (take_text(domain, sizeof(domain), &m->domain, "domain", err) < 0)
		return -1;
	for (size_t i = 0; path == NULL && i < p->n_sockets; i++)
		if (strcmp(p->sockets[i].domain, domain) == 0)
			path = p->sockets[i].path;
	if (path == NULL)
		return err_set(err, KODA_PROTOCOL, 0,
		    "it wants a socket that the policy does not have");
	fd = connect_socket(path);
	answer.id = m->id;
	answer.errnum = fd >= 0 ? 0 : errno;
	one.order_case = KODA__EGRESS_ORDER__ORDER_SOCKET;
	one.socket = &answer;
	return egress_send(e, &one, fd, err);
}

static int
on_report(struct egress *e, const uint8_t *frame, size_t len, struct koda_error *err)
{
	Koda__EgressReport *r;

	arena_reset(&e->arena);
	r = (Koda__EgressReport *)message_unpack(&koda__egress_report__descriptor, frame, len,
	    &e->arena, err);
	if (r == NULL)
		return -1;
	if (r->report_case == KODA__EGRESS_REPORT__REPORT_READY)
		return on_ready(e, r->ready, err);
	if (r->report_case == KODA__EGRESS_REPORT__REPORT_FAILED)
		return on_failed(e, r->failed);
	if (e->state != EGRESS_UP)
		return err_set(err, KODA_PROTOCOL, 0, "it reports before it is ready");
	switch ((int)r->report_case) {
	case KODA__EGRESS_REPORT__REPORT_CONNECTION:
		return on_connection(e, r->connection, err);
	case KODA__EGRESS_REPORT__REPORT_ASK:
		return on_ask(e, r->ask, err);
	case KODA__EGRESS_REPORT__REPORT_WITHDRAW:
		on_withdraw(e, r->withdraw);
		return 0;
	case KODA__EGRESS_REPORT__REPORT_WANT_SOCKET:
		return on_want_socket(e, r->want_socket, err);
	case KODA__EGRESS_REPORT__REPORT_SYNCED:
		if (r->synced->number > e->sync_sent || r->synced->number <= e->synced)
			return err_set(err, KODA_PROTOCOL, 0, "it answers what nobody asked");
		e->synced = r->synced->number;
		return 0;
	default:
		return err_set(err, KODA_PROTOCOL, 0, "an empty report");
	}
}

int
egress_report_take(struct egress *e, struct koda_error *err)
{
	const uint8_t *frame;
	size_t len;
	int r;

	while ((r = frame_next(&e->fs, &frame, &len, err)) > 0)
		if (on_report(e, frame, len, err) < 0)
			return -1;
	if (r == 0 && frame_fds_waiting(&e->fs) > 0)
		return err_set(err, KODA_PROTOCOL, 0, "a descriptor from who has none to give");
	return r;
}
