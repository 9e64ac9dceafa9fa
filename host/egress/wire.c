/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/wire.h"

#include <errno.h>
#include <stdlib.h>

#include "host/egress/certificates.h"
#include "host/policy/policy_api.h"
#include "proto/proxy.pb-c.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "shared/confine/rights.h"
#include "shared/rules/egress.h"
#include "shared/wire/protocol.h"

/* Limit of unread orders: room for the longest order, and for more answers than there can be
 * questions. */
#define PENDING_MAX (FRAME_MAX + (64u << 10))
#define CA_MAX      (64u << 10) /* of one certificate */

void
wire_init(struct egress_wire *w, void (*queued)(struct egress_wire *wire))
{
	*w = (struct egress_wire){ .fs.fd = -1, .queued = queued };
	arena_init(&w->arena);
}

void
wire_open(struct egress_wire *w, int fd)
{
	frame_init(&w->fs, fd);
	w->ready = false;
	w->sync_sent = w->synced = 0;
}

void
wire_close(struct egress_wire *w)
{
	frame_done(&w->fs);
}

void
wire_done(struct egress_wire *w)
{
	arena_done(&w->arena);
}

/* ---- orders ---- */

/* fd -1: no descriptor goes with it. */
static int
send_order(struct egress_wire *w, const Koda__EgressOrder *order, int fd, struct koda_error *err)
{
	ssize_t len = message_queue(&w->fs, &order->base, err);
	int r;

	if (len < 0)
		return -1;
	r = fd >= 0 ? frame_flush_with_fd(&w->fs, (size_t)len, fd, EGRESS_SYNC_MS, err)
		    : frame_flush(&w->fs, false, err);
	if (r < 0)
		return -1;
	if (frame_pending(&w->fs) > PENDING_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "it does not read its orders");
	w->queued(w);
	return 0;
}

static bool
fill_text(ProtobufCBinaryData *field, const char *text)
{
	if (text != NULL)
		*field = message_text(text);
	return text != NULL;
}

int
wire_send_start(struct egress_wire *w, const struct wire_start *start, struct koda_error *err)
{
	cleanup_free Koda__EgressGrant *grants = calloc(start->n_grants + 1, sizeof(*grants));
	cleanup_free Koda__EgressGrant **list =
	    calloc(start->n_grants + 1, sizeof(Koda__EgressGrant *));
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressStart m = KODA__EGRESS_START__INIT;
	Koda__EgressUpstream upstream = KODA__EGRESS_UPSTREAM__INIT;
	const struct upstream_variables *v = &start->upstream;
	const uint8_t *packed;
	size_t len;

	if (grants == NULL || list == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "egress");
	for (size_t i = 0; i < start->n_grants; i++) {
		koda__egress_grant__init(&grants[i]);
		grants[i].host = message_text(start->grants[i].host);
		grants[i].port = start->grants[i].port;
		list[i] = &grants[i];
	}
	w->policy = start->policy;
	w->asks = start->asks;
	w->intercepts = start->intercepts;
	packed = koda_policy_packed(start->policy, &len);
	m.protocol = KODA_PROTOCOL_VERSION;
	m.policy = (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)packed };
	m.mode = (Koda__Mode)start->mode;
	upstream.has_https_proxy = fill_text(&upstream.https_proxy, v->https_proxy);
	upstream.has_http_proxy = fill_text(&upstream.http_proxy, v->http_proxy);
	upstream.has_all_proxy = fill_text(&upstream.all_proxy, v->all_proxy);
	upstream.has_no_proxy = fill_text(&upstream.no_proxy, v->no_proxy);
	m.upstream = &upstream;
	m.ask = start->asks;
	m.intercept = start->intercepts;
	m.grant = list;
	m.n_grant = start->n_grants;
	one.order_case = KODA__EGRESS_ORDER__ORDER_START;
	one.start = &m;
	return send_order(w, &one, -1, err);
}

int
wire_send_serve(struct egress_wire *w, uint64_t slot, enum wire_consent consent, int fd,
    struct koda_error *err)
{
	static const Koda__EgressConsentFor consents[] = {
		[WIRE_CONSENT_UNNAMED] = KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_UNNAMED,
		[WIRE_CONSENT_EACH] = KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_EACH,
		[WIRE_CONSENT_EACH_GIVEN] = KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_EACH_GIVEN,
	};
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressServe serve = KODA__EGRESS_SERVE__INIT;

	serve.slot = slot;
	serve.consent_for = consents[consent];
	one.order_case = KODA__EGRESS_ORDER__ORDER_SERVE;
	one.serve = &serve;
	return send_order(w, &one, fd, err);
}

int
wire_send_drop(struct egress_wire *w, uint64_t slot, struct koda_error *err)
{
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressDrop drop = KODA__EGRESS_DROP__INIT;

	drop.slot = slot;
	one.order_case = KODA__EGRESS_ORDER__ORDER_DROP;
	one.drop = &drop;
	return send_order(w, &one, -1, err);
}

int
wire_send_answer(struct egress_wire *w, uint64_t question, enum koda_scope scope,
    struct koda_error *err)
{
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressAnswer answer = KODA__EGRESS_ANSWER__INIT;

	answer.question = question;
	answer.consent = scope == KODA_SCOPE_SESSION ? KODA__EGRESS_CONSENT__EGRESS_CONSENT_SESSION
	    : scope == KODA_SCOPE_ONCE               ? KODA__EGRESS_CONSENT__EGRESS_CONSENT_ONCE
						     : KODA__EGRESS_CONSENT__EGRESS_CONSENT_NO;
	one.order_case = KODA__EGRESS_ORDER__ORDER_ANSWER;
	one.answer = &answer;
	return send_order(w, &one, -1, err);
}

int
wire_send_socket(struct egress_wire *w, uint64_t id, int fd, int errnum, struct koda_error *err)
{
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressSocket answer = KODA__EGRESS_SOCKET__INIT;

	answer.id = id;
	answer.errnum = fd >= 0 ? 0 : errnum;
	one.order_case = KODA__EGRESS_ORDER__ORDER_SOCKET;
	one.socket = &answer;
	return send_order(w, &one, fd, err);
}

int
wire_send_sync(struct egress_wire *w, uint64_t slot, struct koda_error *err)
{
	Koda__EgressOrder one = KODA__EGRESS_ORDER__INIT;
	Koda__EgressSync sync = KODA__EGRESS_SYNC__INIT;

	sync.number = ++w->sync_sent;
	sync.has_slot = true;
	sync.slot = slot;
	one.order_case = KODA__EGRESS_ORDER__ORDER_SYNC;
	one.sync = &sync;
	return send_order(w, &one, -1, err);
}

bool
wire_is_synced(const struct egress_wire *w)
{
	return w->synced == w->sync_sent;
}

/* ---- fields of a report ---- */

/* Take a field as text: no NUL, shorter than size. An empty field has no data. */
static int
take_text(char *ret, size_t size, const ProtobufCBinaryData *field, const char *what,
    struct koda_error *err)
{
	if (field->len >= size || (field->len > 0 && memchr(field->data, '\0', field->len) != NULL))
		return err_set(err, KODA_PROTOCOL, 0, "it reported an invalid %s", what);
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
		return err_set(err, KODA_PROTOCOL, 0, "it reported an invalid host");
	return 0;
}

/* ---- reports ---- */

/* The receiver of a report. */
struct taker {
	struct egress_wire *wire;
	const struct wire_client *client;
	void *data;
};

static int
take_ready(const struct taker *t, const Koda__EgressReady *r, struct koda_error *err)
{
	struct egress_wire *w = t->wire;
	const unsigned wanted = lockdown_landlock_abi();

	if (w->ready)
		return err_set(err, KODA_PROTOCOL, 0, "it reported twice that it is ready");
	if (r->protocol != KODA_PROTOCOL_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "koda-egress-proxy speaks protocol %u and this library %u: install both from "
		    "one build",
		    r->protocol, KODA_PROTOCOL_VERSION);
	if (r->policy_digest.len != KODA_DIGEST_BYTES ||
	    memcmp(r->policy_digest.data, koda_policy_digest(w->policy), KODA_DIGEST_BYTES) != 0)
		return err_set(err, KODA_PROTOCOL, 0,
		    "it reports another policy than the one it was given");
	if (!r->seccomp || r->landlock_abi < wanted || rights_lost(CONFINED_PROXY, wanted) != NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "it is not confined (Landlock ABI %u, %u needed; seccomp %s)", r->landlock_abi,
		    wanted, r->seccomp ? "yes" : "no");
	if (r->has_ca_certificate != w->intercepts ||
	    (r->has_ca_certificate &&
		(r->ca_certificate.len > CA_MAX ||
		    !certificates_is_pem(r->ca_certificate.data, r->ca_certificate.len))))
		return err_set(err, KODA_PROTOCOL, 0, "it sent an invalid certificate");
	w->ready = true;
	return t->client->ready(t->data, r->has_ca_certificate ? r->ca_certificate.data : NULL,
	    r->ca_certificate.len, err);
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
take_connection(const struct taker *t, const Koda__EgressConnection *m, struct koda_error *err)
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
	enum domain_kind kind;

	if (take_host(host, &m->host, invalid, &kind, err) < 0 ||
	    take_text(rule, sizeof(rule), &m->rule, "rule", err) < 0 ||
	    take_text(detail, sizeof(detail), &m->detail, "sentence", err) < 0)
		return -1;
	if (one.protocol == NULL || m->outcome < KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED ||
	    m->outcome > KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID || m->port > UINT16_MAX ||
	    (m->port == 0 && !invalid) ||
	    (m->open && m->outcome != KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED))
		return err_set(err, KODA_PROTOCOL, 0, "it reported an invalid connection");
	return t->client->connection(t->data, m->slot, m->id, &one, err);
}

static int
take_ask(const struct taker *t, const Koda__EgressAsk *m, struct koda_error *err)
{
	char host[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;

	if (take_host(host, &m->host, false, &kind, err) < 0)
		return -1;
	if (m->question == 0 || m->port == 0 || m->port > UINT16_MAX ||
	    protocol_name(m->kind) == NULL)
		return err_set(err, KODA_PROTOCOL, 0, "it asked an invalid question");
	return t->client->ask(t->data, m->slot, m->question, host, kind, m->port, err);
}

static int
take_want_socket(const struct taker *t, const Koda__EgressWantSocket *m, struct koda_error *err)
{
	char domain[DOMAIN_PATTERN_MAX + 1];

	if (take_text(domain, sizeof(domain), &m->domain, "domain", err) < 0)
		return -1;
	return t->client->want_socket(t->data, m->id, domain, err);
}

static int
take_synced(struct egress_wire *w, const Koda__EgressSynced *m, struct koda_error *err)
{
	if (m->number > w->sync_sent || m->number <= w->synced)
		return err_set(err, KODA_PROTOCOL, 0, "it answered a request that was not made");
	w->synced = m->number;
	return 0;
}

static int
take_report(const struct taker *t, const uint8_t *frame, size_t len, struct koda_error *err)
{
	struct egress_wire *w = t->wire;
	Koda__EgressReport *r;

	arena_reset(&w->arena);
	r = (Koda__EgressReport *)message_unpack(&koda__egress_report__descriptor, frame, len,
	    &w->arena, err);
	if (r == NULL)
		return -1;
	if (r->report_case == KODA__EGRESS_REPORT__REPORT_READY)
		return take_ready(t, r->ready, err);
	if (r->report_case == KODA__EGRESS_REPORT__REPORT_FAILED) {
		bytes_show(w->failed, sizeof(w->failed), r->failed->why.data, r->failed->why.len);
		return 0; /* the proxy ends itself next */
	}
	if (!w->ready)
		return err_set(err, KODA_PROTOCOL, 0, "it sent a report before it was ready");
	switch ((int)r->report_case) {
	case KODA__EGRESS_REPORT__REPORT_CONNECTION:
		return take_connection(t, r->connection, err);
	case KODA__EGRESS_REPORT__REPORT_ASK:
		return take_ask(t, r->ask, err);
	case KODA__EGRESS_REPORT__REPORT_WITHDRAW:
		t->client->withdraw(t->data, r->withdraw->question);
		return 0;
	case KODA__EGRESS_REPORT__REPORT_WANT_SOCKET:
		return take_want_socket(t, r->want_socket, err);
	case KODA__EGRESS_REPORT__REPORT_SYNCED:
		return take_synced(w, r->synced, err);
	default:
		return err_set(err, KODA_PROTOCOL, 0, "an empty report");
	}
}

int
wire_receive(struct egress_wire *w, const struct wire_client *client, void *data,
    struct koda_error *err)
{
	const struct taker taker = { w, client, data };
	const uint8_t *frame;
	size_t len;
	int r;

	while ((r = frame_next(&w->fs, &frame, &len, err)) > 0)
		if (take_report(&taker, frame, len, err) < 0)
			return -1;
	if (r == 0 && frame_fds_waiting(&w->fs) > 0)
		return err_set(err, KODA_PROTOCOL, 0, "it sent an unexpected descriptor");
	return r;
}
