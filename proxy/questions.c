/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/questions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/list.h"
#include "shared/wire/message.h"

/* A refused tool tries again several times: for this long the user's no answers it as well. */
#define NO_SECS 10.0
#define NO_MAX  32

struct open_question {
	struct open_question *prev, *next;
	struct open_questions *questions;
	struct listener *listener;
	struct question_wait *waiting;
	uint64_t id;
	ev_timer timer;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
	bool answered;
};

struct question_wait {
	struct question_wait *prev, *next;
	struct open_question *question;
	question_fn *fn;
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

struct open_questions {
	struct proxy *proxy;
	struct open_question *open;
	struct grant *grants;
	size_t n_grants;
	struct no no[NO_MAX]; /* a ring */
	size_t next_no;
};

struct open_questions *
questions_new(struct proxy *p)
{
	struct open_questions *qs = calloc(1, sizeof(*qs));

	if (qs != NULL)
		qs->proxy = p;
	return qs;
}

void
questions_free(struct open_questions *qs)
{
	if (qs == NULL)
		return;
	free(qs->grants);
	free(qs);
}

/* ---- the host ---- */

static void
report_question(const struct open_question *q, Koda__EgressKind kind)
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
	control_report(q->questions->proxy, &r);
}

static void
report_withdrawal(const struct open_question *q)
{
	Koda__EgressReport r = KODA__EGRESS_REPORT__INIT;
	Koda__EgressWithdraw msg = KODA__EGRESS_WITHDRAW__INIT;

	r.report_case = KODA__EGRESS_REPORT__REPORT_WITHDRAW;
	r.withdraw = &msg;
	msg.question = q->id;
	control_report(q->questions->proxy, &r);
}

/* ---- questions ---- */

static struct open_question *
question_find(const struct open_questions *qs, const struct listener *l, const char *host,
    unsigned port)
{
	struct open_question *q = qs->open;

	while (q != NULL &&
	    ((l != NULL && q->listener != l) || q->port != port || strcmp(q->host, host) != 0))
		q = q->next;
	return q;
}

/* After this no further request joins the question. */
static void
question_take(struct open_question *q)
{
	ev_timer_stop(q->questions->proxy->loop, &q->timer);
	list_remove(q->questions->open, q);
	q->listener->n_questions--;
	q->answered = true;
}

/* A callback may cancel other requests that wait for the same answer. */
static void
question_answer(struct open_question *q, bool yes)
{
	question_take(q);
	while (q->waiting != NULL) {
		struct question_wait *w = q->waiting;
		question_fn *fn = w->fn;
		void *data = w->data;

		list_remove(q->waiting, w);
		free(w);
		fn(data, yes);
	}
	free(q);
}

static void
on_no_answer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct open_question *q = w->data;

	report_withdrawal(q);
	question_answer(q, false);
}

static bool
said_no(const struct open_questions *qs, uint64_t slot, const char *host, unsigned port)
{
	for (size_t i = 0; i < NO_MAX; i++)
		if (qs->no[i].slot == slot && qs->no[i].target.port == port &&
		    strcmp(qs->no[i].target.host, host) == 0 &&
		    qs->no[i].until > ev_now(qs->proxy->loop))
			return true;
	return false;
}

static struct open_question *
question_new(struct open_questions *qs, struct listener *l, Koda__EgressKind kind, const char *host,
    unsigned port)
{
	struct open_question *q;

	if (l->n_questions >= PROXY_ASKS_MAX || said_no(qs, l->slot, host, port))
		return NULL;
	q = calloc(1, sizeof(*q));
	if (q == NULL)
		return NULL;
	q->questions = qs;
	q->listener = l;
	q->id = qs->proxy->next_id++;
	q->port = port;
	snprintf(q->host, sizeof(q->host), "%s", host);
	ev_timer_init(&q->timer, on_no_answer, PROXY_ASK_SECS, 0);
	q->timer.data = q;
	ev_timer_start(qs->proxy->loop, &q->timer);
	list_add(qs->open, q);
	l->n_questions++;
	report_question(q, kind);
	return q;
}

struct question_wait *
questions_ask(struct proxy *p, struct listener *l, Koda__EgressKind kind, const char *host,
    unsigned port, question_fn *fn, void *data)
{
	struct question_wait *w = calloc(1, sizeof(*w));
	struct open_question *q = NULL;

	if (w != NULL)
		q = question_find(p->questions, l, host, port);
	if (w != NULL && q == NULL)
		q = question_new(p->questions, l, kind, host, port);
	if (q == NULL) {
		free(w);
		return NULL;
	}
	w->question = q;
	w->fn = fn;
	w->data = data;
	list_add(q->waiting, w);
	return w;
}

void
questions_cancel(struct question_wait *w)
{
	struct open_question *q = w->question;

	list_remove(q->waiting, w);
	free(w);
	/* A question that is being answered is freed by question_answer(). */
	if (q->waiting != NULL || q->answered)
		return;
	report_withdrawal(q);
	question_take(q);
	free(q);
}

/* ---- answers ---- */

bool
questions_granted(const struct proxy *p, const char *host, unsigned port)
{
	for (size_t i = 0; i < p->questions->n_grants; i++)
		if (p->questions->grants[i].port == port &&
		    strcmp(p->questions->grants[i].host, host) == 0)
			return true;
	return false;
}

void
questions_grant(struct open_questions *qs, const char *host, unsigned port)
{
	struct grant *grants;

	if (qs->n_grants >= QUESTIONS_GRANTS_MAX || questions_granted(qs->proxy, host, port))
		return;
	grants = reallocarray(qs->grants, qs->n_grants + 1, sizeof(*grants));
	if (grants == NULL)
		return;
	qs->grants = grants;
	snprintf(grants[qs->n_grants].host, sizeof(grants->host), "%s", host);
	grants[qs->n_grants++].port = port;
}

static void
remember_no(struct open_questions *qs, const struct open_question *q)
{
	struct no *no = &qs->no[qs->next_no++ % NO_MAX];

	no->slot = q->listener->slot;
	no->target.port = q->port;
	memcpy(no->target.host, q->host, sizeof(q->host));
	no->until = ev_now(qs->proxy->loop) + NO_SECS;
}

void
questions_answer(struct open_questions *qs, uint64_t question, Koda__EgressConsent consent)
{
	struct open_question *q = qs->open;
	struct grant target;

	while (q != NULL && q->id != question)
		q = q->next;
	if (q == NULL)
		return;
	if (consent == KODA__EGRESS_CONSENT__EGRESS_CONSENT_NO)
		remember_no(qs, q);
	if (consent != KODA__EGRESS_CONSENT__EGRESS_CONSENT_SESSION) {
		question_answer(q, consent == KODA__EGRESS_CONSENT__EGRESS_CONSENT_ONCE);
		return;
	}
	/* For every slot: the user need not answer the same question twice. */
	memcpy(target.host, q->host, sizeof(q->host));
	target.port = q->port;
	questions_grant(qs, target.host, target.port);
	question_answer(q, true);
	while ((q = question_find(qs, NULL, target.host, target.port)) != NULL) {
		report_withdrawal(q);
		question_answer(q, true);
	}
}
