/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/questions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/approve/asked.h"

#define GRANTS_MAX 1024 /* "for this session": with a whole policy they fit a frame */
/* Limit for one slot, including questions for whose answers the proxy no longer waits. Above it the
 * answer is no. */
#define QUESTIONS_MAX 32

/* ---- grants ---- */

static bool
is_granted(const struct questions *all, const char *host, unsigned port)
{
	for (size_t i = 0; i < all->n_grants; i++)
		if (all->grants[i].port == port && strcmp(all->grants[i].host, host) == 0)
			return true;
	return false;
}

static bool
add_grant(struct questions *all, const char *host, unsigned port)
{
	struct egress_grant *more;

	if (is_granted(all, host, port))
		return true;
	if (all->n_grants >= GRANTS_MAX)
		return false;
	more = realloc(all->grants, (all->n_grants + 1) * sizeof(*more));
	if (more == NULL)
		return false;
	all->grants = more;
	snprintf(more[all->n_grants].host, sizeof(more[0].host), "%s", host);
	more[all->n_grants++].port = port;
	return true;
}

/* ---- the list ---- */

static void
free_question(struct egress_question *q)
{
	struct egress_question **at = &q->all->first;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	asked_end(&q->asked);
	free(q);
}

static struct egress_question *
find_question(const struct questions *all, const struct egress *e, uint64_t slot, const char *host,
    unsigned port)
{
	struct egress_question *q = all->first;

	while (q != NULL &&
	    (q->egress != e || q->slot != slot || q->port != port || strcmp(q->host, host) != 0))
		q = q->next;
	return q;
}

static struct egress_question *
find_id(const struct questions *all, const struct egress *e, uint64_t id)
{
	struct egress_question *q = all->first;

	while (q != NULL && (q->egress != e || q->id != id || id == 0))
		q = q->next;
	return q;
}

static size_t
count_questions(const struct questions *all, const struct egress *e, uint64_t slot)
{
	size_t n = 0;

	for (const struct egress_question *q = all->first; q != NULL; q = q->next)
		n += q->egress == e && q->slot == slot;
	return n;
}

enum question_verdict
questions_add(struct questions *all, struct egress *e, uint64_t slot, uint64_t id, const char *host,
    unsigned port)
{
	struct egress_question *q;

	if (is_granted(all, host, port))
		return QUESTION_YES;
	q = find_question(all, e, slot, host, port);
	if (q != NULL && q->id != 0)
		return QUESTION_TWICE;
	if (q != NULL) {
		/* The user still decides a question whose first client has given up. */
		q->id = id;
		return QUESTION_ASKED;
	}
	if (count_questions(all, e, slot) >= QUESTIONS_MAX || (q = calloc(1, sizeof(*q))) == NULL)
		return QUESTION_NO;
	*q = (struct egress_question){ .next = all->first,
		.all = all,
		.egress = e,
		.id = id,
		.slot = slot,
		.unasked = true,
		.port = port };
	snprintf(q->host, sizeof(q->host), "%s", host);
	all->first = q;
	return QUESTION_ASKED;
}

bool
questions_wait(const struct questions *all, const struct egress *e, uint64_t id)
{
	return find_id(all, e, id) != NULL;
}

/* The user may still be deciding, and may allow it for the session. */
static void
orphan_question(struct egress_question *q)
{
	q->id = 0;
	if (q->unasked)
		free_question(q);
}

void
questions_withdraw(struct questions *all, const struct egress *e, uint64_t id)
{
	struct egress_question *q = find_id(all, e, id);

	if (q != NULL)
		orphan_question(q);
}

void
questions_orphan(struct questions *all, const struct egress *e)
{
	for (struct egress_question *q = all->first, *next; q != NULL; q = next) {
		next = q->next;
		if (q->egress == e)
			orphan_question(q);
	}
}

void
questions_free(struct questions *all, const struct egress *e, uint64_t slot)
{
	for (struct egress_question *q = all->first, *next; q != NULL; q = next) {
		next = q->next;
		if (q->egress == e && (slot == 0 || q->slot == slot))
			free_question(q);
	}
}

void
questions_done(struct questions *all)
{
	free(all->grants);
}

/* ---- asking ---- */

static struct egress_question *
find_unasked(const struct questions *all)
{
	struct egress_question *q = all->first;

	while (q != NULL && !q->unasked)
		q = q->next;
	return q;
}

bool
questions_pending(const struct questions *all)
{
	return find_unasked(all) != NULL;
}

void
questions_answer(struct egress_question *q, enum koda_scope scope)
{
	struct questions *all = q->all;
	struct egress *e = q->egress;
	char host[DOMAIN_HOST_MAX + 1];
	const unsigned port = q->port;
	uint64_t id = q->id;

	memcpy(host, q->host, sizeof(host));
	/* When the grants are full, the answer counts only for the connections that wait now. */
	if (scope == KODA_SCOPE_SESSION && !add_grant(all, host, port))
		scope = KODA_SCOPE_ONCE;
	free_question(q);
	if (id != 0)
		all->client->answer(e, id, scope);
	if (scope != KODA_SCOPE_SESSION)
		return;
	/* Other questions for the same host are answered, too. */
	for (struct egress_question *next = (q = all->first); q != NULL; q = next) {
		next = q->next;
		if (q->port != port || strcmp(q->host, host) != 0)
			continue;
		e = q->egress;
		id = q->id;
		free_question(q);
		if (id != 0) {
			all->client->answer(e, id, scope);
			/* The proxy may have died, which frees questions. */
			next = all->first;
		}
	}
}

static bool
on_answer(void *about, enum koda_scope scope, bool late)
{
	struct egress_question *q = about;

	return q->all->client->answered(q, scope);
}

static struct asked **
postpone(void *about)
{
	struct egress_question *q = about;

	return q->all->client->postpone(q);
}

static const struct asked_ops question_ops = { NULL, on_answer, postpone };

void
questions_ask_next(struct questions *all, enum koda_mode mode, koda_approve_fn *approve, void *data)
{
	struct egress_question *q = find_unasked(all);
	struct asked *a;

	if (q == NULL)
		return;
	q->unasked = false;
	a = asked_new(&question_ops, q, &q->asked, false);
	if (a == NULL) {
		asked_refuse(&question_ops, q, "");
		return;
	}
	memcpy(a->host, q->host, sizeof(a->host));
	a->question = (struct koda_question){
		.kind = KODA_OP_CONNECT,
		.mode = mode,
		.host = a->host,
		.port = q->port,
	};
	asked_put(a, approve, data);
}
