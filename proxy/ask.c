#include "proxy/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/list.h"
#include "shared/wire/message.h"

/* A refused tool tries again several times: for this long the user's no answers it. */
#define NO_SECS 10.0
#define NO_MAX  32

struct question {
	struct question *prev, *next;
	struct asks *asks;
	struct listener *listener;
	struct ask *waiting;
	uint64_t id;
	ev_timer timer;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
	bool answered;
};

struct ask {
	struct ask *prev, *next;
	struct question *question;
	ask_fn *fn;
	void *data;
};

struct grant {
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
};

struct no {
	uint64_t slot;
	struct grant target;
	ev_tstamp until;
};

struct asks {
	struct proxy *proxy;
	struct question *questions;
	struct grant *grants;
	size_t n_grants;
	struct no no[NO_MAX]; /* a ring */
	size_t next_no;
};

struct asks *
asks_new(struct proxy *p)
{
	struct asks *as = calloc(1, sizeof(*as));

	if (as != NULL)
		as->proxy = p;
	return as;
}

void
asks_free(struct asks *as)
{
	if (as == NULL)
		return;
	free(as->grants);
	free(as);
}

/* ---- the host ---- */

static void
report_question(const struct question *q, Koda__EgressKind kind)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressAsk msg = KODA__EGRESS_ASK__INIT;

	r.report_case = KODA__EGRESS_REPORT__REPORT_ASK;
	r.ask = &msg;
	msg.question = q->id;
	msg.slot = q->listener->slot;
	msg.kind = kind;
	msg.host = message_text(q->host);
	msg.port = q->port;
	control_report(q->asks->proxy, &r);
}

static void
report_withdrawal(const struct question *q)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressWithdraw msg = KODA__EGRESS_WITHDRAW__INIT;

	r.report_case = KODA__EGRESS_REPORT__REPORT_WITHDRAW;
	r.withdraw = &msg;
	msg.question = q->id;
	control_report(q->asks->proxy, &r);
}

/* ---- questions ---- */

static struct question *
question_find(const struct asks *as, const struct listener *l, const char *host, unsigned port)
{
	struct question *q = as->questions;

	while (q != NULL &&
	    ((l != NULL && q->listener != l) || q->port != port || strcmp(q->host, host) != 0))
		q = q->next;
	return q;
}

/* After this no further ask joins the question. */
static void
question_take(struct question *q)
{
	ev_timer_stop(q->asks->proxy->loop, &q->timer);
	list_remove(q->asks->questions, q);
	q->listener->n_asks--;
	q->answered = true;
}

/* A callback may cancel other asks of the same question. */
static void
question_answer(struct question *q, bool yes)
{
	question_take(q);
	while (q->waiting != NULL) {
		struct ask *a = q->waiting;
		ask_fn *fn = a->fn;
		void *data = a->data;

		list_remove(q->waiting, a);
		free(a);
		fn(data, yes);
	}
	free(q);
}

static void
on_no_answer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct question *q = w->data;

	report_withdrawal(q);
	question_answer(q, false);
}

static bool
said_no(const struct asks *as, uint64_t slot, const char *host, unsigned port)
{
	for (size_t i = 0; i < NO_MAX; i++)
		if (as->no[i].slot == slot && as->no[i].target.port == port &&
		    strcmp(as->no[i].target.host, host) == 0 &&
		    as->no[i].until > ev_now(as->proxy->loop))
			return true;
	return false;
}

static struct question *
question_new(struct asks *as, struct listener *l, Koda__EgressKind kind, const char *host,
    unsigned port)
{
	struct question *q;

	if (l->n_asks >= PROXY_ASKS_MAX || said_no(as, l->slot, host, port))
		return NULL;
	q = calloc(1, sizeof(*q));
	if (q == NULL)
		return NULL;
	q->asks = as;
	q->listener = l;
	q->id = as->proxy->next_id++;
	q->port = port;
	snprintf(q->host, sizeof(q->host), "%s", host);
	ev_timer_init(&q->timer, on_no_answer, PROXY_ASK_SECS, 0);
	q->timer.data = q;
	ev_timer_start(as->proxy->loop, &q->timer);
	list_add(as->questions, q);
	l->n_asks++;
	report_question(q, kind);
	return q;
}

struct ask *
ask_start(struct proxy *p, struct listener *l, Koda__EgressKind kind, const char *host,
    unsigned port, ask_fn *fn, void *data)
{
	struct ask *a = calloc(1, sizeof(*a));
	struct question *q = NULL;

	if (a != NULL)
		q = question_find(p->asks, l, host, port);
	if (a != NULL && q == NULL)
		q = question_new(p->asks, l, kind, host, port);
	if (q == NULL) {
		free(a);
		return NULL;
	}
	a->question = q;
	a->fn = fn;
	a->data = data;
	list_add(q->waiting, a);
	return a;
}

void
ask_cancel(struct ask *a)
{
	struct question *q = a->question;

	list_remove(q->waiting, a);
	free(a);
	/* A question that is being answered is freed by question_answer(). */
	if (q->waiting != NULL || q->answered)
		return;
	report_withdrawal(q);
	question_take(q);
	free(q);
}

/* ---- answers ---- */

bool
ask_granted(const struct proxy *p, const char *host, unsigned port)
{
	for (size_t i = 0; i < p->asks->n_grants; i++)
		if (p->asks->grants[i].port == port && strcmp(p->asks->grants[i].host, host) == 0)
			return true;
	return false;
}

void
ask_grant(struct asks *as, const char *host, unsigned port)
{
	struct grant *grants;

	if (as->n_grants >= ASK_GRANTS_MAX || ask_granted(as->proxy, host, port))
		return;
	grants = reallocarray(as->grants, as->n_grants + 1, sizeof(*grants));
	if (grants == NULL)
		return;
	as->grants = grants;
	snprintf(grants[as->n_grants].host, sizeof(grants->host), "%s", host);
	grants[as->n_grants++].port = port;
}

static void
remember_no(struct asks *as, const struct question *q)
{
	struct no *no = &as->no[as->next_no++ % NO_MAX];

	no->slot = q->listener->slot;
	no->target.port = q->port;
	memcpy(no->target.host, q->host, sizeof(q->host));
	no->until = ev_now(as->proxy->loop) + NO_SECS;
}

void
ask_answer(struct asks *as, uint64_t question, Koda__EgressConsent consent)
{
	struct question *q = as->questions;
	struct grant target;

	while (q != NULL && q->id != question)
		q = q->next;
	if (q == NULL)
		return;
	if (consent == KODA__EGRESS_CONSENT__EGRESS_CONSENT_NO)
		remember_no(as, q);
	if (consent != KODA__EGRESS_CONSENT__EGRESS_CONSENT_SESSION) {
		question_answer(q, consent == KODA__EGRESS_CONSENT__EGRESS_CONSENT_ONCE);
		return;
	}
	/* For every slot: the user need not answer the same question twice. */
	memcpy(target.host, q->host, sizeof(q->host));
	target.port = q->port;
	ask_grant(as, target.host, target.port);
	question_answer(q, true);
	while ((q = question_find(as, NULL, target.host, target.port)) != NULL) {
		report_withdrawal(q);
		question_answer(q, true);
	}
}
