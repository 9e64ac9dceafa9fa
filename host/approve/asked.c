/* SPDX-License-Identifier: Apache-2.0 */
#include "host/approve/asked.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "host/approve/ticket.h"

static void
asked_free(struct asked *a)
{
	ticket_end(a->question.approval);
	if (a->content != NULL)
		munmap(a->content, a->content_len);
	koda_result_done(&a->seen);
	arena_done(&a->arena);
	free(a);
}

struct asked *
asked_new(const struct asked_ops *ops, void *about, struct asked **held, bool sync)
{
	struct asked *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	arena_init(&a->arena);
	a->seen.fd = -1;
	a->ops = ops;
	a->about = about;
	a->held = held;
	a->sync = sync;
	*held = a;
	return a;
}

static void
stop_waiting(struct asked *a)
{
	struct asked **at = a->waits_in;

	while (at != NULL && *at != a)
		at = &(*at)->next;
	if (at != NULL)
		*at = a->next;
	a->waits_in = NULL;
}

struct asked *
asked_end(struct asked **held)
{
	struct asked *a = *held;

	if (a == NULL)
		return NULL;
	stop_waiting(a);
	*held = NULL;
	a->about = NULL;
	a->held = NULL;
	/* Without a ticket, the embedder has not seen the question. */
	if (a->asking || (a->question.approval != NULL && !a->answered && !a->sync))
		return a;
	asked_free(a);
	return NULL;
}

static void
note_refusal(const struct asked_ops *ops, void *about, const char *why)
{
	if (ops->refuse != NULL)
		ops->refuse(about, why);
}

void
asked_refuse(const struct asked_ops *ops, void *about, const char *why)
{
	note_refusal(ops, about, why);
	ops->answer(about, KODA_SCOPE_NO, false);
}

/* The question has been answered. Frees it. */
static bool
settle_asked(struct asked *a, bool late)
{
	const struct asked_ops *ops = a->ops;
	const enum koda_scope scope = a->scope;
	void *about = a->about;

	asked_end(a->held);
	return ops->answer(about, scope, late);
}

void
asked_put(struct asked *a, koda_approve_fn *approve, void *data)
{
	const char *why = "this one was not approved";

	a->question.approval = ticket_issue(a);
	if (a->question.approval == NULL) {
		a->answered = true; /* with no */
		why = "there is not enough memory to ask the user";
	} else {
		a->asking = true;
		approve(data, &a->question);
		a->asking = false;
	}
	if (a->about == NULL) {
		/* The subject ended during the callback, which released its slot, or made a call at
		 * which the slot failed. */
		if (a->answered || a->sync)
			asked_free(a);
		return;
	}
	if (!a->answered && !a->sync)
		return;
	if (!a->answered)
		why = "the question was not answered";
	a->answered = true;
	if (a->scope == KODA_SCOPE_NO)
		note_refusal(a->ops, a->about, why);
	settle_asked(a, false);
}

/* ---- answers ---- */

static bool
settle_late(struct asked *a)
{
	if (a->scope == KODA_SCOPE_NO)
		note_refusal(a->ops, a->about, "this one was not approved");
	return settle_asked(a, true);
}

/* In the order in which they came. */
static void
wait_in(struct asked *a, struct asked **waiting)
{
	struct asked **at = waiting;

	while (*at != NULL)
		at = &(*at)->next;
	*at = a;
	a->next = NULL;
	a->waits_in = waiting;
}

void
asked_act_on(struct asked **waiting)
{
	while (*waiting != NULL)
		settle_late(*waiting);
}

/* Returns whether the answer counts. */
static bool
take_answer(struct asked *a, enum koda_scope scope)
{
	struct asked **waiting;

	if (a == NULL || a->answered)
		return false;
	a->answered = true;
	if (scope == KODA_SCOPE_ONCE || scope == KODA_SCOPE_SESSION)
		a->scope = scope;
	if (a->asking)
		return a->about != NULL; /* asked_put() goes on when the callback has returned */
	if (a->about == NULL) {
		asked_free(a);
		return false;
	}
	waiting = a->ops->postpone(a->about);
	if (waiting == NULL)
		return settle_late(a);
	wait_in(a, waiting);
	return true;
}

void
koda_approval_answer_scope(struct koda_approval *approval, enum koda_scope scope)
{
	errno = take_answer(ticket_find(approval), scope) ? 0 : ESTALE;
}

void
koda_approval_answer(struct koda_approval *approval, bool yes)
{
	koda_approval_answer_scope(approval, yes ? KODA_SCOPE_ONCE : KODA_SCOPE_NO);
}

const char *
asked_mode_name(enum koda_mode mode)
{
	static const char *const names[] = {
		[KODA_PLAN] = "Plan",
		[KODA_SAFE] = "Safe",
		[KODA_AUTO] = "Auto",
	};

	return names[mode];
}
