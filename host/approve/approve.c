/*
 * Asks the embedder for approval. The worker has resolved and judged a mutation as a dry run. The
 * question shows what it found, and the mutation is bound to what was shown: canonical path and
 * content go back to the worker as its guard.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "host/command/command.h"
#include "host/egress/egress.h"
#include "host/session/session.h"

struct koda_approval {
	/* NULL: the call ended without waiting for the answer, or the question is not about a
	 * call. */
	struct call *call;
	struct koda_command *command;
	struct egress_question *connect;
	char host[DOMAIN_HOST_MAX + 1]; /* copy: connect may be gone before the answer comes */
	struct arena arena;             /* holds the request that the question points into */
	/* The content of a large write, mapped; the memfd is sealed, so no process can change
	 * it. */
	void *content;
	size_t content_len;
	struct koda_question question;
	/* What the question points into once the call has ended. */
	struct koda_result seen;
	bool asking; /* the callback is running */
	bool answered, yes;
	enum koda_scope scope;
};

static void
approval_free(struct koda_approval *a)
{
	if (a->content != NULL)
		munmap(a->content, a->content_len);
	koda_result_done(&a->seen);
	arena_done(&a->arena);
	free(a);
}

void
approve_done(struct call *c)
{
	struct koda_approval *a = c->approval;

	if (a == NULL)
		return;
	c->approval = NULL;
	a->call = NULL;
	if (!a->asking && (a->answered || c->done == NULL)) {
		approval_free(a);
		return;
	}
	/* The embedder may still answer later, so the approval and what its question points into
	 * have to stay valid. */
	a->seen = c->result;
	c->result = (struct koda_result){ .fd = -1 };
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

static int
map_content(struct koda_approval *a, int fd)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_size == 0)
		return 0;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	a->content = p;
	a->content_len = (size_t)st.st_size;
	a->question.data = p;
	a->question.len = a->content_len;
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
	a->seen.fd = -1;
	c->approval = a;
	req = request_unpack(&c->request, &a->arena);
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
	if (c->fd >= 0 && map_content(a, c->fd) < 0)
		return NULL;
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

static const char *const mode_names[] = {
	[KODA_PLAN] = "Plan",
	[KODA_SAFE] = "Safe",
	[KODA_AUTO] = "Auto",
};

static void
refuse(struct call *c, const char *why)
{
	char shown[384];

	bytes_show(shown, sizeof(shown), c->result.path, strlen(c->result.path));
	err_set(&c->err, KODA_NOT_APPROVED, 0,
	    "'%s': the %s mode's policy wants each change approved, and %s", shown,
	    mode_names[c->slot->ses->mode], why);
}

void
approve_ask(struct koda_session *ses, struct call *c)
{
	const bool sync = c->done == NULL;
	struct koda_approval *a;

	if (ses->approve == NULL) {
		refuse(c, "there is nobody to ask");
		slot_answer(c, false);
		return;
	}
	a = approval_new(ses, c);
	if (a == NULL) {
		if (c->approval != NULL)
			c->approval->answered = true; /* the embedder has not seen it */
		approve_done(c);
		refuse(c, "memory is too short to ask");
		slot_answer(c, false);
		return;
	}
	a->asking = true;
	ses->approve(ses->data, &a->question);
	a->asking = false;
	if (a->call == NULL) {
		/* The call ended during the callback, which made a call at which the slot
		 * failed. */
		if (a->answered || sync)
			approval_free(a);
		return;
	}
	if (!a->answered && sync) {
		refuse(c, "nobody answered");
		a->answered = true;
	} else if (a->answered && !a->yes) {
		refuse(c, "this one was not");
	}
	if (a->answered)
		settle(a);
}

/* ---- commands ---- */

static void
refuse_command(struct koda_command *c, const char *why)
{
	char shown[384];

	bytes_show(shown, sizeof(shown), c->name, strlen(c->name));
	err_set(&c->error, KODA_NOT_APPROVED, 0,
	    "'%s' was not run: the %s mode's policy wants each command approved, and %s", shown,
	    mode_names[c->slot->ses->mode], why);
}

void
approve_command_done(struct koda_command *c)
{
	struct koda_approval *a = c->approval;

	if (a == NULL)
		return;
	c->approval = NULL;
	a->command = NULL;
	if (!a->asking && a->answered)
		approval_free(a);
}

static void
settle_command(struct koda_approval *a)
{
	struct koda_command *c = a->command;
	bool yes = a->yes;

	approve_command_done(c);
	command_answer(c, yes);
}

void
approve_ask_command(struct koda_session *ses, struct koda_command *c)
{
	struct koda_approval *a = ses->approve == NULL ? NULL : calloc(1, sizeof(*a));

	if (a == NULL) {
		refuse_command(c,
		    ses->approve == NULL ? "there is nobody to ask" : "memory is too short to ask");
		command_answer(c, false);
		return;
	}
	arena_init(&a->arena);
	a->seen.fd = -1;
	a->command = c;
	c->approval = a;
	a->question = (struct koda_question){
		.kind = KODA_OP_RUN,
		.mode = ses->mode,
		.path = c->cwd,
		.argv = (const char *const *)c->argv,
		.cwd = c->cwd,
		.env = (const char *const *)c->added,
		.approval = a,
	};
	a->asking = true;
	ses->approve(ses->data, &a->question);
	a->asking = false;
	if (a->command == NULL) {
		if (a->answered || c->sync)
			approval_free(a);
		return;
	}
	if (!a->answered && c->sync) {
		refuse_command(c, "nobody answered");
		a->answered = true;
	} else if (a->answered && !a->yes) {
		refuse_command(c, "this one was not");
	}
	if (a->answered)
		settle_command(a);
}

/* ---- hosts ---- */

void
approve_connect_done(struct egress_question *q)
{
	struct koda_approval *a = q->approval;

	if (a == NULL)
		return;
	q->approval = NULL;
	a->connect = NULL;
	if (!a->asking && a->answered)
		approval_free(a);
}

void
approve_ask_connect(struct koda_session *ses, struct egress_question *q)
{
	struct koda_approval *a = ses->approve == NULL ? NULL : calloc(1, sizeof(*a));

	if (a == NULL) {
		egress_answer(q, KODA_SCOPE_NO);
		return;
	}
	arena_init(&a->arena);
	a->seen.fd = -1;
	a->connect = q;
	q->approval = a;
	memcpy(a->host, q->host, sizeof(a->host));
	a->question = (struct koda_question){
		.kind = KODA_OP_CONNECT,
		.mode = ses->mode,
		.host = a->host,
		.port = q->port,
		.approval = a,
	};
	a->asking = true;
	ses->approve(ses->data, &a->question);
	a->asking = false;
	if (a->connect == NULL) {
		if (a->answered)
			approval_free(a); /* the slot ended during the callback */
	} else if (a->answered) {
		egress_answer(a->connect, a->scope); /* frees both */
	}
}

/* ---- answers ---- */

void
koda_approval_answer(struct koda_approval *approval, bool yes)
{
	koda_approval_answer_scope(approval, yes ? KODA_SCOPE_ONCE : KODA_SCOPE_NO);
}

void
koda_approval_answer_scope(struct koda_approval *approval, enum koda_scope scope)
{
	const bool yes = scope == KODA_SCOPE_ONCE || scope == KODA_SCOPE_SESSION;
	struct call *c = approval->call;
	struct koda_session *ses;
	struct koda_slot *slot;

	if (approval->answered)
		return;
	approval->answered = true;
	approval->yes = yes;
	approval->scope = yes ? scope : KODA_SCOPE_NO;
	if (approval->asking)
		return; /* approve_ask goes on when the callback has returned */
	if (approval->connect != NULL) {
		ses = approval->connect->ses;
		if (*ses->here != 1)
			return; /* the parent's question */
		session_enter(ses);
		egress_answer(approval->connect, approval->scope);
		session_leave(ses);
		return;
	}
	if (approval->command != NULL) {
		ses = approval->command->slot->ses;
		if (*ses->here != 1)
			return; /* the parent's question */
		if (!yes)
			refuse_command(approval->command, "this one was not");
		session_enter(ses);
		settle_command(approval);
		session_leave(ses);
		return;
	}
	if (c == NULL) {
		approval_free(approval);
		return;
	}
	slot = c->slot;
	ses = slot->ses;
	if (*ses->here != 1)
		return; /* the parent's question */
	if (!yes)
		refuse(c, "this one was not");
	settle(approval);
	session_enter(ses);
	slot_advance(slot);
	session_rearm(ses, slot);
	session_leave(ses);
}
