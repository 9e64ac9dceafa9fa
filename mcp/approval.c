/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/approval.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/connection_slot.h"
#include "mcp/content.h"
#include "mcp/memory.h"
#include "mcp/questions.h"
#include "mcp/text.h"
#include "mcp/tool_call.h"

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
	struct tool_call *call;
	struct koda_op op;
	koda_done_fn *done;
	enum stage stage;
	struct text old;
	bool has_old;
	uint8_t digest[KODA_DIGEST_BYTES]; /* of old */
	struct question_about about;
	struct question *question;
};

struct approvals {
	struct connection *conn;
	bool wanted;          /* set by the policy, which never changes */
	struct pending *line; /* STAGE_WAITING, first come, first served */
	/* STAGE_PREVIEW: at most one, so that a question of the library is known to belong to
	 * it. */
	struct pending *turn;
	struct question_queue *questions;
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
	a->questions = questions_new(conn);
	koda_policy_visit(koda_session_policy(conn->ses), find_dials, a);
	return a;
}

bool
approval_wanted(const struct connection *conn)
{
	return conn->approvals->wanted;
}

bool
approval_is_of_effects(const struct connection *conn)
{
	return conn->approvals->wanted && conn->asks_hosts && !conn->no_effects && !conn->drafts;
}

/* ---- changes ---- */

static void next_turn(struct approvals *a);

static void
on_cancel(struct tool_call *call)
{
	questions_withdraw_call(call->conn->approvals->questions, call, "the call was cancelled");
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
		question_withdraw(q, "the call has ended");
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
	struct question_wish wish = { .question = question, .about = &nothing };
	struct pending *p = NULL;

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
		wish.about = &p->about;
		wish.call = p->call;
		wish.change = &p->question;
	}
	if (!can_ask(conn, question, p) || question_new(a->questions, &wish) == NULL) {
		koda_approval_answer(question->approval, false);
	} else {
		if (p != NULL) {
			p->call->cancel = on_cancel;
			text_done(&p->old);
		}
		questions_next(a->questions);
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
approval_submit(struct tool_call *call, const struct koda_op *op, koda_done_fn *done)
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

/* Sets *ret to everything that identifies the command, each part ended by a NUL. */
static void
cover_command(struct text *ret, const char *const *argv, const char *cwd, const char *const *env,
    bool background)
{
	text_add(ret, background ? "b" : "f", 2);
	text_add(ret, cwd, strlen(cwd) + 1);
	for (; *argv != NULL; argv++)
		text_add(ret, *argv, strlen(*argv) + 1);
	text_add(ret, "", 1);
	for (; env != NULL && *env != NULL; env++)
		text_add(ret, *env, strlen(*env) + 1);
}

void
approval_command(struct tool_call *call, const char *const *argv, const char *cwd,
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
	struct question_wish wish = {
		.question = &question,
		.about = &about,
		.call = call,
		.answered = answered,
	};
	struct text covers = { 0 };
	struct question *q;

	cover_command(&covers, argv, cwd, env, background);
	wish.covers = covers.p;
	wish.covers_len = covers.len;
	q = call->can_ask ? question_new(a->questions, &wish) : NULL;
	text_done(&covers);
	if (q == NULL) {
		answered(call, false);
		return;
	}
	call->cancel = on_cancel;
	questions_next(a->questions);
}

#define CUT                                                                                        \
	"NOT ALL OF THIS IS SHOWN: [...] marks what is left out, so it can be allowed once only. "

void
approval_cover_effects(struct text *ret, const char *const *argv, const char *cwd)
{
	text_add(ret, "e", 2);
	cover_command(ret, argv, cwd, NULL, false);
}

bool
approval_effects_begin(struct connection *conn, const struct text *covers)
{
	return questions_hold(conn->approvals->questions, covers);
}

void
approval_effects_end(struct connection *conn, const struct text *covers, bool held)
{
	if (held)
		questions_renew(conn->approvals->questions, covers);
}

void
approval_effects(struct tool_call *call, const struct text *message, bool cut,
    const struct text *covers, approval_answered_fn *answered)
{
	const struct koda_question question = { .kind = KODA_OP_RUN };
	const struct question_about about = { 0 };
	struct approvals *a = call->conn->approvals;
	struct text shown = { 0 };
	const struct question_wish wish = {
		.question = &question,
		.about = &about,
		.message = &shown,
		.cut = cut,
		.effects = true,
		.covers = covers != NULL ? covers->p : NULL,
		.covers_len = covers != NULL ? covers->len : 0,
		.call = call,
		.answered = answered,
	};
	struct question *q;

	text_printf(&shown, "%sAllow this? ", cut ? CUT : "");
	text_add(&shown, message->p, message->len);
	q = call->can_ask ? question_new(a->questions, &wish) : NULL;
	text_done(&shown);
	if (q == NULL) {
		answered(call, false);
		return;
	}
	call->cancel = on_cancel;
	questions_next(a->questions);
}

void
approval_lapse(struct connection *conn)
{
	questions_lapse(conn->approvals->questions);
}

void
approval_hosts_over(struct connection *conn)
{
	questions_withdraw_hosts(conn->approvals->questions, "the command has ended");
}

/* ---- the end ---- */

void
approval_end(struct approvals *a)
{
	questions_end(a->questions);
}

void
approval_free(struct approvals *a)
{
	questions_free(a->questions);
	free(a);
}
