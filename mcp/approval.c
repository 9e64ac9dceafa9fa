#include "mcp/approval.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/ask.h"
#include "mcp/connection_slot.h"
#include "mcp/consent.h"
#include "mcp/content.h"
#include "mcp/form.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/text.h"
#include "mcp/tool.h"
#include "mcp/tool_call.h"
#include "show/question.h"

/* Maximum bytes of the old content that are read to show a change. The diff of a larger file
 * would not be read by anyone. */
#define OLD_BYTES_MAX (4u << 20)

enum stage {
	STAGE_LOOKING = 1, /* the old content is being read */
	STAGE_WAITING,     /* it waits for its turn with the library */
	STAGE_PREVIEW,     /* the library may ask about it */
	STAGE_ASKED,       /* it has asked */
};

/* A change on its way through the stages. */
struct pending {
	struct pending *next; /* in the queue of those that wait */
	struct approvals *a;
	struct call *call;
	struct koda_op op;
	koda_done_fn *done;
	enum stage stage;
	struct text old;
	bool has_old;
	uint8_t digest[KODA_DIGEST_BYTES]; /* of old */
	struct question_about about;
	struct question *question;
};

/* A queued question that the user has to say yes to. */
struct question {
	struct question *next;
	struct approvals *a;
	enum koda_op_kind kind;
	struct koda_approval *approval; /* the library's; NULL: a command of the client */
	struct pending *pending;        /* NULL: none */
	struct call *call;              /* of a command, together with answered; otherwise NULL */
	approval_answered_fn *answered;
	struct text message;
	bool cut; /* not shown in full: a yes is for once only */
	/* What an answer for the session would cover, a directory or a command; NULL: nothing. */
	char *covers;
	size_t covers_len;
	char *path; /* canonical, of a write or an edit */
	struct tree_state tree;
	struct ask *ask; /* NULL: not asked yet */
};

struct approvals {
	struct connection *conn;
	bool wanted; /* set by the policy, which never changes */
	bool ending;
	struct pending *line; /* STAGE_WAITING, first come, first served */
	/* STAGE_PREVIEW: at most one, so that a question of the library is known to belong to
	 * it. */
	struct pending *turn;
	struct question *questions; /* the first one is being asked; with rounds, several may be */
	struct consents consents;
};

static int
find_dials(void *data, const char *section, const char *field, const char *value)
{
	struct approvals *a = data;

	if (strcmp(field, "trust") == 0 && value != NULL)
		a->wanted = strcmp(value, "require") == 0;
	return 0;
}

struct approvals *
approval_new(struct connection *conn)
{
	struct approvals *a = memory_zero(sizeof(*a));

	a->conn = conn;
	koda_policy_visit(koda_session_policy(conn->ses), find_dials, a);
	return a;
}

bool
approval_wanted(const struct connection *conn)
{
	return conn->approvals->wanted;
}

/* ---- what was allowed for longer ---- */

static struct consent
consent_of(const struct question *q)
{
	return (struct consent){
		.kind = question_is_content(q->kind) ? CONSENT_CONTENT : CONSENT_COMMAND,
		.covers = q->covers,
		.covers_len = q->covers_len,
		.tree = q->tree,
	};
}

static bool
is_covered(struct approvals *a, const struct question *q)
{
	const struct consent wanted = consent_of(q);

	if (question_is_content(q->kind))
		return consents_have_content(&a->consents, q->path);
	return q->kind == KODA_OP_RUN && q->covers != NULL &&
	    consents_have_command(&a->consents, &wanted);
}

static void
add_consent(struct approvals *a, const struct question *q)
{
	const struct consent given = consent_of(q);

	if (q->covers != NULL)
		consents_add(&a->consents, &given);
}

void
approval_lapse(struct connection *conn)
{
	consents_lapse(&conn->approvals->consents);
}

/* ---- questions ---- */

static void ask_next(struct approvals *a);

static void
unlink_question(struct question *q)
{
	struct question **at = &q->a->questions;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	if (q->pending != NULL)
		q->pending->question = NULL;
}

static void
free_question(struct question *q)
{
	text_done(&q->message);
	free(q->covers);
	free(q->path);
	free(q);
}

/* A change has been allowed. Commands whose questions are open were shown with the tree as it
 * was before the change, so a yes to them is for once. */
static void
lapse_asked(struct approvals *a)
{
	for (struct question *q = a->questions; q != NULL; q = q->next) {
		if (q->call != NULL && q->ask != NULL) {
			free(q->covers);
			q->covers = NULL;
		}
	}
}

/* The only place where a question ends. how is as in record_approved(), if the answer is yes. */
static void
settle(struct question *q, enum koda_scope scope, const char *how)
{
	struct call *call = q->pending != NULL ? q->pending->call : q->call;

	if (call != NULL && scope != KODA_SCOPE_NO)
		record_approved(call, how);
	unlink_question(q);
	if (q->call != NULL)
		q->call->cancel = NULL;
	/* The change is under way, so a look at the tree may not see it yet. */
	if (q->pending != NULL && scope != KODA_SCOPE_NO) {
		approval_lapse(q->a->conn);
		lapse_asked(q->a);
	}
	if (q->approval != NULL)
		koda_approval_answer_scope(q->approval, scope);
	else
		q->answered(q->call, scope != KODA_SCOPE_NO);
	free_question(q);
}

static void
on_elicited(void *data, const json_t *result)
{
	struct question *q = data;
	struct approvals *a = q->a;
	enum koda_scope scope = form_scope(result);

	q->ask = NULL;
	/* Keeps nothing if the session was not offered: then covers is NULL, and the yes is for
	 * this one only. */
	if (scope == KODA_SCOPE_SESSION && q->kind != KODA_OP_CONNECT)
		add_consent(a, q);
	settle(q, scope, scope == KODA_SCOPE_SESSION && q->covers != NULL ? "session" : "once");
	ask_next(a);
}

/* Returns whether a question about the call's command is still open. */
static bool
is_asked_for(const struct approvals *a, const struct call *call)
{
	const struct question *q = a->questions;

	while (q != NULL && q->call != call)
		q = q->next;
	return q != NULL;
}

/* Returns the call of a running command through which the client can be asked about a host, or
 * NULL. *ret_later: there will be such a call once the client has answered the question that it
 * was given. */
static struct call *
find_running(const struct approvals *a, bool *ret_later)
{
	struct call *call = a->conn->calls;

	*ret_later = false;
	for (; call != NULL; call = call->next) {
		if (call->tool == NULL || (call->tool->flags & TOOL_RUNS) == 0 || call->mute ||
		    call->cancel == NULL || !call->can_ask || is_asked_for(a, call))
			continue;
		if (call->parked == NULL)
			return call;
		*ret_later = true;
	}
	return NULL;
}

/* Returns the question to ask now, or NULL. Without rounds the client is asked one question at a
 * time, as a person reads one at a time. With rounds each question goes to the call that it is
 * about, and a call that is never called again blocks no other. */
static struct question *
next_question(const struct approvals *a)
{
	struct question *q = a->questions;
	bool later;

	if (q == NULL || !a->conn->version->rounds || a->ending)
		return q != NULL && q->ask == NULL ? q : NULL;
	for (; q != NULL; q = q->next) {
		if (q->ask == NULL &&
		    (q->kind != KODA_OP_CONNECT || find_running(a, &later) != NULL || !later))
			break;
	}
	return q;
}

/* Returns NULL if the question cannot be asked. */
static struct ask *
ask(struct question *q)
{
	struct connection *conn = q->a->conn;
	struct call *call = q->pending != NULL ? q->pending->call : q->call;
	json_t *params;
	bool later;

	if (conn->version->rounds && call == NULL && (call = find_running(q->a, &later)) == NULL)
		return NULL;
	params = json_object();
	json_object_set_new_nocheck(params, "message",
	    text_json_bytes(q->message.p, q->message.len));
	json_object_set_new_nocheck(params, "requestedSchema",
	    form_new(q->kind, q->covers, q->covers_len));
	return conn->version->rounds
	    ? connection_ask_by(call, "elicitation/create", params, on_elicited, q)
	    : connection_ask(conn, "elicitation/create", params, on_elicited, q);
}

static void
ask_next(struct approvals *a)
{
	struct question *q;

	while ((q = next_question(a)) != NULL) {
		/* The tree as it is when the user looks, not as it was when the question was
		 * queued. */
		if (q->call != NULL && q->covers != NULL && !tree_look(a->conn->root, &q->tree)) {
			free(q->covers);
			q->covers = NULL;
		}
		if (a->ending) {
			settle(q, KODA_SCOPE_NO, NULL);
		} else if (is_covered(a, q)) {
			settle(q, KODA_SCOPE_ONCE, "kept");
		} else if ((q->ask = ask(q)) == NULL) {
			settle(q, KODA_SCOPE_NO, NULL);
		}
	}
}

static struct question *
question_new(struct approvals *a, const struct koda_question *q, const struct question_about *about)
{
	struct question *ret = memory_zero(sizeof(*ret)), **at = &a->questions;

	ret->a = a;
	ret->kind = q->kind;
	ret->approval = q->approval;
	if (!question_show(q, about, (struct page_medium){ .style = PAGE_MESSAGE }, text_put,
		&ret->message, &ret->cut)) {
		free_question(ret);
		return NULL;
	}
	if (question_is_content(q->kind)) {
		const char *slash = strrchr(q->path, '/');

		ret->path = memory_string(q->path);
		if ((q->type == KODA_FILE_NONE || q->type == KODA_FILE_REGULAR) &&
		    slash > q->path && !ret->cut) {
			ret->covers_len = (size_t)(slash - q->path);
			ret->covers = memory_copy(q->path, ret->covers_len);
		}
	}
	while (*at != NULL)
		at = &(*at)->next;
	*at = ret;
	return ret;
}

static void
withdraw(struct question *q, const char *reason)
{
	struct approvals *a = q->a;

	if (q->ask != NULL)
		connection_withdraw(q->ask, reason);
	q->ask = NULL;
	settle(q, KODA_SCOPE_NO, NULL);
	ask_next(a);
}

/* ---- changes ---- */

static void next_turn(struct approvals *a);

static void
on_cancel(struct call *call)
{
	struct question *q = call->conn->approvals->questions;

	while (q != NULL && (q->pending == NULL || q->pending->call != call))
		q = q->next;
	if (q != NULL)
		withdraw(q, "the call was cancelled");
}

static void
on_done(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct pending *p = data;
	struct approvals *a = p->a;
	struct question *q = p->question;

	/* The call ended while its question was open, for example because the worker died too
	 * often. */
	if (q != NULL)
		withdraw(q, "the call has ended");
	p->call->cancel = NULL;
	p->done(p->call, result, err);
	if (a->turn == p)
		a->turn = NULL;
	text_done(&p->old);
	free(p);
	next_turn(a);
}

static void
submit(struct pending *p)
{
	struct koda_error err;
	struct koda_slot *slot = NULL;

	p->stage = STAGE_PREVIEW;
	if (p->call->mute) {
		err = (struct koda_error){ .code = KODA_NOT_APPROVED, .message = "cancelled" };
	} else {
		slot = connection_slot(p->call->conn, &err);
		if (slot != NULL && koda_call_async(slot, &p->op, on_done, p, &err) == 0)
			return;
	}
	on_done(p, NULL, &err);
}

static void
next_turn(struct approvals *a)
{
	struct pending *p = a->line;

	if (a->turn != NULL || p == NULL)
		return;
	a->line = p->next;
	a->turn = p;
	submit(p);
}

static void
line_up(struct pending *p)
{
	struct pending **at = &p->a->line;

	p->stage = STAGE_WAITING;
	p->next = NULL;
	while (*at != NULL)
		at = &(*at)->next;
	*at = p;
	next_turn(p->a);
}

/* p is the change that the question is about; NULL: the question is about a host. */
static bool
can_ask(const struct connection *conn, const struct koda_question *question,
    const struct pending *p)
{
	if (question->kind == KODA_OP_CONNECT)
		return conn->asks_hosts && (conn->version->rounds || conn->can_ask);
	return p != NULL ? p->call->can_ask : conn->can_ask;
}

void
approval_question(struct connection *conn, const struct koda_question *question)
{
	struct approvals *a = conn->approvals;
	const struct question_about nothing = { 0 };
	struct pending *p = NULL;
	struct question *q;

	if (question->kind != KODA_OP_CONNECT && question->kind != KODA_OP_RUN) {
		/* One turn at a time, so the library's question is about the change that was
		 * submitted. */
		p = a->turn;
		a->turn = NULL;
		if (p == NULL || p->op.kind != question->kind || p->call->mute) {
			koda_approval_answer(question->approval, false);
			next_turn(a);
			return;
		}
		p->stage = STAGE_ASKED;
	}
	q = a->ending || !can_ask(conn, question, p)
	    ? NULL
	    : question_new(a, question, p != NULL ? &p->about : &nothing);
	if (q == NULL) {
		koda_approval_answer(question->approval, false);
	} else {
		q->pending = p;
		if (p != NULL) {
			p->question = q;
			p->call->cancel = on_cancel;
			text_done(&p->old);
		}
		ask_next(a);
	}
	next_turn(a);
}

/* ---- reading before the library is asked ---- */

static void
on_old(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct pending *p = data;
	struct koda_error why;

	if (err == NULL && result->size <= OLD_BYTES_MAX &&
	    content_read(result, 0, OLD_BYTES_MAX, &p->old, &why) == 0) {
		memcpy(p->digest, result->digest, sizeof(p->digest));
		/* The user is shown this content, so the change applies to it or fails. */
		if (p->op.if_digest == NULL)
			p->op.if_digest = p->digest;
		if (memcmp(p->op.if_digest, p->digest, sizeof(p->digest)) == 0) {
			p->about.old = p->old.len > 0 ? p->old.p : "";
			p->about.old_len = p->old.len;
		}
	}
	line_up(p);
}

static void
on_target(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct pending *p = data;

	if (err == NULL) {
		p->about.replaced = result->type;
		p->about.replaced_size = result->size;
	}
	/* Nothing is there now, so nothing that appears there meanwhile may be replaced. */
	if (err != NULL || result->type == KODA_FILE_NONE)
		p->op.flags &= ~(unsigned)KODA_OVERWRITE;
	line_up(p);
}

static void
look(struct pending *p, enum koda_op_kind kind, const char *path, koda_done_fn *done)
{
	const struct koda_op op = { .kind = kind, .path = path, .flags = KODA_DIGEST };
	struct koda_error err;
	struct koda_slot *slot = connection_slot(p->call->conn, &err);

	p->stage = STAGE_LOOKING;
	if (slot == NULL || koda_call_async(slot, &op, done, p, &err) < 0)
		on_done(p, NULL, &err);
}

void
approval_submit(struct call *call, const struct koda_op *op, koda_done_fn *done)
{
	struct connection *conn = call->conn;
	struct koda_error err;
	struct koda_slot *slot;
	struct pending *p;

	if (!approval_wanted(conn)) {
		slot = connection_slot(conn, &err);
		if (slot == NULL || koda_call_async(slot, op, done, call, &err) < 0)
			tool_failed(call, &err, NULL);
		return;
	}
	p = memory_zero(sizeof(*p));
	*p = (struct pending){ .a = conn->approvals, .call = call, .op = *op, .done = done };
	if (!call->can_ask)
		line_up(p);
	else if (op->kind == KODA_OP_WRITE || op->kind == KODA_OP_EDIT)
		look(p, KODA_OP_READ, op->path, on_old);
	else if (op->kind == KODA_OP_RENAME && op->flags & KODA_OVERWRITE)
		look(p, KODA_OP_STAT, op->to, on_target);
	else
		line_up(p);
}

/* ---- commands ---- */

static void
on_command_cancel(struct call *call)
{
	struct question *q = call->conn->approvals->questions;

	while (q != NULL && q->call != call)
		q = q->next;
	if (q != NULL)
		withdraw(q, "the call was cancelled");
}

/* Sets covers to everything that identifies the command, each part ended by a NUL. */
static void
cover_command(struct question *q, const char *const *argv, const char *cwd, const char *const *env,
    bool background)
{
	struct text t = { 0 };

	text_add(&t, background ? "b" : "f", 2);
	text_add(&t, cwd, strlen(cwd) + 1);
	for (; *argv != NULL; argv++)
		text_add(&t, *argv, strlen(*argv) + 1);
	text_add(&t, "", 1);
	for (; env != NULL && *env != NULL; env++)
		text_add(&t, *env, strlen(*env) + 1);
	q->covers = t.p;
	q->covers_len = t.len;
}

void
approval_command(struct call *call, const char *const *argv, const char *cwd,
    const char *const *env, bool background, approval_answered_fn *answered)
{
	const struct koda_question question = {
		.kind = KODA_OP_RUN,
		.mode = call->conn->mode,
		.path = cwd,
		.argv = argv,
		.cwd = cwd,
		.env = env,
	};
	const struct question_about about = { .background = background };
	struct approvals *a = call->conn->approvals;
	struct question *q;

	q = a->ending || !call->can_ask ? NULL : question_new(a, &question, &about);
	if (q == NULL) {
		answered(call, false);
		return;
	}
	q->call = call;
	q->answered = answered;
	if (!q->cut)
		cover_command(q, argv, cwd, env, background);
	call->cancel = on_command_cancel;
	ask_next(a);
}

void
approval_hosts_over(struct connection *conn)
{
	struct question *q = conn->approvals->questions, *next;

	for (; q != NULL; q = next) {
		next = q->next;
		if (q->kind != KODA_OP_CONNECT)
			continue;
		withdraw(q, "the command has ended");
		next = conn->approvals->questions; /* withdraw() may have removed others */
	}
}

/* ---- the end ---- */

void
approval_end(struct approvals *a)
{
	a->ending = true;
	while (a->questions != NULL)
		withdraw(a->questions, "the session has ended");
}

void
approval_free(struct approvals *a)
{
	consents_done(&a->consents);
	free(a);
}
