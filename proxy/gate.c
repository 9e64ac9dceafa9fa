/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/questions.h"

/* The `rule` of hosts that the user has approved. */
static const char rule_session[] = "approved for the session";
static const char rule_asked[] = "approved";

struct gate {
	struct listener *l;
	Koda__EgressKind kind;
	struct target target;
	unsigned flags;
	gate_fn *fn;
	void *data;
	struct question_wait *question;
	struct dial *dial;
	struct account *account;
	const char *rule; /* the rule that allowed it */
	/* Never started, only fed, so that the answer comes after gate_start() has returned. */
	ev_prepare answer;
	struct flushed flushed;
	struct gate_answer ret;
};

/* ---- answers ---- */

static void
refusal_fill(struct refusal *r, int status, unsigned char socks, const char *rule,
    const struct target *target, const char *sentence)
{
	r->status = status;
	r->socks = socks;
	snprintf(r->rule, sizeof(r->rule), "%s", rule);
	if (target != NULL && target->host[0] != '\0')
		snprintf(r->host, sizeof(r->host), "%s:%u", target->host, target->port);
	else
		r->host[0] = '\0';
	snprintf(r->sentence, sizeof(r->sentence), "%s", sentence);
}

static void
gate_free(struct gate *g)
{
	struct proxy *p = g->l->proxy;

	if (g->question != NULL)
		questions_cancel(g->question);
	if (g->dial != NULL)
		dial_cancel(g->dial);
	ev_clear_pending(p->loop, &g->answer);
	control_forget(p, &g->flushed);
	if (g->ret.fd >= 0)
		close(g->ret.fd);
	free(g);
}

static void
tell(void *data)
{
	struct gate *g = data;
	const struct gate_answer answer = g->ret;
	gate_fn *fn = g->fn;

	data = g->data;
	g->ret.fd = -1;
	gate_free(g);
	fn(data, &answer);
}

static void
on_answer(struct ev_loop *loop, ev_prepare *w, int events)
{
	tell(w->data);
}

/* The host has to know of a denial before the client does. */
static void
tell_when_known(struct gate *g)
{
	if (g->ret.refusal.status == 403 && !control_flush(g->l->proxy))
		control_wait(g->l->proxy, &g->flushed);
	else
		ev_feed_event(g->l->proxy->loop, &g->answer, EV_CUSTOM);
}

static void
refuse(struct gate *g, Koda__EgressOutcome outcome, int status, unsigned char socks,
    const char *rule, const char *sentence)
{
	struct account *a = g->account;

	g->account = NULL;
	if (a == NULL)
		a = account_new(g->l->proxy, g->l->slot, g->kind, g->target.host, g->target.port);
	account_end(a, outcome, rule, sentence);
	refusal_fill(&g->ret.refusal, status, socks, rule, &g->target, sentence);
	tell_when_known(g);
}

static void
deny(struct gate *g)
{
	char sentence[EGRESS_SENTENCE_MAX];

	egress_sentence(sentence, sizeof(sentence), g->target.host, g->target.port, &g->ret.verdict,
	    g->l->proxy->mode);
	refuse(g, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED, 403, 2, g->ret.verdict.rule,
	    sentence);
}

/* ---- judging and dialing ---- */

static const struct {
	Koda__EgressOutcome outcome;
	int status;
	unsigned char socks;
	const char *rule;
} failures[] = {
	[DIAL_DNS] = { KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, 502, 1, "dns" },
	[DIAL_TIMEOUT] = { KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, 504, 1, "timeout" },
	[DIAL_REFUSED] = { KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, 502, 5, "refused" },
	[DIAL_UNREACHABLE] = { KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, 502, 4, "unreachable" },
	[DIAL_ADDRESS] = { KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED, 403, 2, "address" },
	[DIAL_UPSTREAM] = { KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, 502, 1, "upstream" },
	[DIAL_RESOURCES] = { KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, 503, 1, "resources" },
};

static void
no_memory(struct gate *g)
{
	refuse(g, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, 503, 1, "resources",
	    "the proxy is out of memory");
}

static void
on_dialed(void *data, const struct dial_result *result)
{
	struct gate *g = data;

	g->dial = NULL;
	if (result->error != DIAL_OK) {
		refuse(g, failures[result->error].outcome, failures[result->error].status,
		    failures[result->error].socks, failures[result->error].rule, result->detail);
		return;
	}
	account_open(g->account, g->rule);
	g->ret.fd = result->fd;
	g->ret.via = result->via;
	g->ret.account = g->account;
	g->account = NULL;
	/* Safe to call back here: dial never calls back before dial_start() has returned. */
	tell(g);
}

static void
go(struct gate *g)
{
	if ((g->flags & GATE_JUDGE_ONLY) != 0) {
		ev_feed_event(g->l->proxy->loop, &g->answer, EV_CUSTOM);
		return;
	}
	g->dial = dial_start(g->l->proxy, g->l->slot, g->target.host, g->target.kind,
	    g->target.port, (g->flags & GATE_PLAIN) != 0, on_dialed, g);
	if (g->dial == NULL)
		no_memory(g);
}

/* Go on with a host that the user has approved. It is treated like a named host, and nothing
 * wider: the rule that allows it may allow other TLS names. */
static void
go_approved(struct gate *g, const char *rule)
{
	g->rule = rule;
	g->ret.verdict = (struct egress_verdict){ EGRESS_ALLOW, rule, NULL, false };
	go(g);
}

static void
on_asked(void *data, bool yes)
{
	struct gate *g = data;

	g->question = NULL;
	if (yes)
		go_approved(g, rule_asked);
	else
		deny(g);
}

static void
ask_or_deny(struct gate *g, bool ask)
{
	struct proxy *p = g->l->proxy;

	if (questions_granted(p, g->target.host, g->target.port)) {
		go_approved(g, rule_session);
		return;
	}
	if (ask)
		g->question =
		    questions_ask(p, g->l, g->kind, g->target.host, g->target.port, on_asked, g);
	if (g->question == NULL)
		deny(g);
}

static void
judge(struct gate *g)
{
	const Koda__EgressConsentFor consent_for = g->l->consent_for;
	struct proxy *p = g->l->proxy;
	struct egress_verdict *v = &g->ret.verdict;

	*v = egress_judge(p->rules, g->target.host, g->target.kind, g->target.port);
	switch (v->decision) {
	case EGRESS_ALLOW:
		g->rule = v->pattern != NULL ? v->pattern : v->rule;
		if (consent_for == KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_UNNAMED) {
			go(g);
			return;
		}
		/* The verdict without the user's consent. */
		*v = egress_unapproved(
		    consent_for == KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_EACH);
		ask_or_deny(g, consent_for == KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_EACH);
		return;
	case EGRESS_UNNAMED:
		if (g->target.kind != DOMAIN_NAME)
			deny(g);
		else
			ask_or_deny(g, p->ask);
		return;
	case EGRESS_DENY:
		deny(g);
		return;
	}
}

struct gate *
gate_start(struct listener *l, Koda__EgressKind kind, const struct target *target, unsigned flags,
    gate_fn *fn, void *data)
{
	struct gate *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->l = l;
	g->kind = kind;
	g->target = *target;
	g->flags = flags;
	g->fn = fn;
	g->data = data;
	g->ret.fd = -1;
	ev_prepare_init(&g->answer, on_answer);
	g->answer.data = g;
	g->flushed.fn = tell;
	g->flushed.data = g;
	/* A refusal is reported through an account, so there has to be one; with GATE_JUDGE_ONLY
	 * it is made when needed. */
	if ((flags & GATE_JUDGE_ONLY) == 0) {
		g->account = account_new(l->proxy, l->slot, kind, target->host, target->port);
		if (g->account == NULL) {
			free(g);
			return NULL;
		}
	}
	judge(g);
	return g;
}

void
gate_cancel(struct gate *g)
{
	account_end(g->account, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, "client",
	    "the client did not wait");
	gate_free(g);
}

bool
gate_asks(const struct gate *g)
{
	return g->question != NULL;
}

void
gate_refuse(struct listener *l, Koda__EgressKind kind, const struct target *target, int status,
    const char *rule, const char *why, struct refusal *ret)
{
	struct account *a = account_new(l->proxy, l->slot, kind, target == NULL ? "" : target->host,
	    target == NULL ? 0 : target->port);

	/* A report without a host can only be invalid: the host takes any other such report for
	 * a lie. */
	account_end(a,
	    target == NULL      ? KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID
		: status == 403 ? KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED
		: status >= 500 ? KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED
				: KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID,
	    rule, why);
	refusal_fill(ret, status, status == 403 ? 2 : 1, rule, target, why);
}

/* ---- the answer to a client ---- */

static const char *
reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = {
		{ 400, "Bad Request" },
		{ 403, "Forbidden" },
		{ 408, "Request Timeout" },
		{ 417, "Expectation Failed" },
		{ 431, "Request Header Fields Too Large" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Refused";
}

/* Make text a single line, since sentences may quote a server. */
static size_t
one_line(char *buf, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text != '\0' && n + 1 < size; text++)
		buf[n++] = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
	buf[n] = '\0';
	return n;
}

size_t
refusal_text(const struct refusal *r, enum koda_mode mode, bool close, char buf[REFUSAL_TEXT_MAX])
{
	char line[EGRESS_SENTENCE_MAX], rule[sizeof(r->rule)];
	size_t len = one_line(line, sizeof(line), r->sentence);
	int n;

	one_line(rule, sizeof(rule), r->rule);
	n = snprintf(buf, REFUSAL_TEXT_MAX,
	    "HTTP/1.1 %d %s\r\n"
	    "Koda-Sandbox: %s; host=%s; rule=%s; mode=%s\r\n"
	    "Content-Type: text/plain; charset=utf-8\r\n"
	    "Content-Length: %zu\r\n"
	    "Cache-Control: no-store\r\n"
	    "Connection: %s\r\n"
	    "\r\n"
	    "koda-sandbox: %s\n",
	    r->status, reason(r->status),
	    r->status == 403      ? "deny"
		: r->status < 500 ? "invalid"
				  : "fail",
	    r->host[0] == '\0' ? "-" : r->host, rule, policy_mode_name(mode),
	    len + strlen("koda-sandbox: \n"), close ? "close" : "keep-alive", line);
	return n < 0 ? 0 : n < REFUSAL_TEXT_MAX ? (size_t)n : REFUSAL_TEXT_MAX - 1;
}
