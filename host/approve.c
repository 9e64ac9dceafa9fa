/*
 * Asking somebody. The worker has resolved and judged a mutation as a dry run; what it found is shown,
 * and what was shown is bound to the act: canonical path and content go back to the worker as its guard.
 */
#include <stdlib.h>
#include <string.h>

#include "host/session.h"

struct koda_approval {
	struct call *call;
	struct arena arena; /* holds the request that the question points into */
	struct koda_question question;
	bool asking;   /* the callback is running */
	bool answered, yes;
};

void
approve_done(struct call *c)
{
	if (c->approval == NULL)
		return;
	arena_done(&c->approval->arena);
	free(c->approval);
	c->approval = NULL;
}

static int
fill_edits(struct koda_question *q, const Koda__Edit *m, struct arena *arena)
{
	struct koda_edit *edits = arena_alloc(arena, m->n_replacement * sizeof(*edits));

	if (edits == NULL)
		return -1;
	for (size_t i = 0; i < m->n_replacement; i++) {
		const Koda__Replacement *r = m->replacement[i];

		edits[i] = (struct koda_edit){ r->old.data, r->old.len, r->new_.data, r->new_.len,
			r->has_all && r->all };
	}
	q->edits = edits;
	q->n_edits = m->n_replacement;
	return 0;
}

static struct koda_approval *
approval_new(struct koda_session *ses, struct call *c)
{
	struct koda_approval *a = calloc(1, sizeof(*a));
	Koda__Request *req;

	if (a == NULL)
		return NULL;
	arena_init(&a->arena);
	a->call = c;
	c->approval = a;
	req = marshal_unpack_request(&c->request, &a->arena);
	if (req == NULL)
		return NULL;
	a->question = (struct koda_question){
		.kind = c->kind,
		.mode = ses->mode,
		.path = c->result.path,
		.to = c->result.to,
		.type = c->result.type,
		.size_before = c->result.size_before,
		.size_after = c->result.size,
		.lines = c->result.lines,
		.replacements = c->result.replacements,
		.entries = c->result.removed,
		.approval = a,
	};
	if (req->op_case == KODA__REQUEST__OP_WRITE && req->write->has_content) {
		a->question.data = req->write->content.data;
		a->question.len = req->write->content.len;
	}
	if (req->op_case == KODA__REQUEST__OP_EDIT) {
		if (c->result.n_lines != req->edit->n_replacement)
			a->question.lines = NULL;
		if (fill_edits(&a->question, req->edit, &a->arena) < 0)
			return NULL;
	}
	return a;
}

static void
settle(struct koda_approval *a)
{
	struct call *c = a->call;
	bool yes = a->yes;

	approve_done(c);
	slot_answer(c, yes);
}

void
approve_ask(struct koda_session *ses, struct call *c)
{
	struct koda_approval *a;

	if (ses->approve == NULL) {
		err_set(&c->err, KODA_NOT_APPROVED, 0,
		    "this mode wants each change approved, and there is nobody to ask");
		slot_answer(c, false);
		return;
	}
	a = approval_new(ses, c);
	if (a == NULL) {
		approve_done(c);
		err_set(&c->err, KODA_NOT_APPROVED, 0, "out of memory before anybody could be asked");
		slot_answer(c, false);
		return;
	}
	c->state = CALL_ASKING; /* from CALL_SENT: no count changes */
	a->asking = true;
	ses->approve(ses->data, &a->question);
	a->asking = false;
	if (!a->answered && c->done == NULL) {
		err_set(&c->err, KODA_NOT_APPROVED, 0, "nobody answered");
		a->answered = true;
	}
	if (a->answered)
		settle(a);
}

void
koda_approval_answer(struct koda_approval *approval, bool yes)
{
	struct koda_slot *slot = approval->call->slot;

	if (approval->answered)
		return;
	approval->answered = true;
	approval->yes = yes;
	if (approval->asking)
		return; /* approve_ask goes on when the callback has returned */
	settle(approval);
	slot_advance(slot);
	session_rearm(slot->ses, slot);
}
