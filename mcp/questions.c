/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/questions.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/ask.h"
#include "mcp/consent.h"
#include "mcp/form.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/text.h"
#include "mcp/tool.h"

/* A queued question that the user has to say yes to. */
struct question {
	struct question *next;
	struct question_queue *all;
	enum koda_op_kind kind;
	struct koda_approval *approval; /* the library's; NULL: a command of the client */
	struct tool_call *call;         /* that it is about; NULL: none */
	struct question **change;       /* of a change: what refers to the question */
	question_answered_fn *answered; /* of a command of the client */
	struct text message;
	bool effects; /* of a command that has run */
	bool cut;     /* not shown in full: a yes is for once only */
	/* What an answer for the session would cover, a directory or a command; NULL: nothing. */
	char *covers;
	size_t covers_len;
	char *path; /* canonical, of a write or an edit */
	struct tree_state tree;
	struct client_question *ask; /* NULL: not asked yet */
};

struct question_queue {
	struct connection *conn;
	bool ending;
	struct question *first; /* it is being asked; with rounds, several may be */
	struct consents consents;
};

struct question_queue *
questions_new(struct connection *conn)
{
	struct question_queue *all = memory_zero(sizeof(*all));

	all->conn = conn;
	return all;
}

void
questions_free(struct question_queue *all)
{
	consents_done(&all->consents);
	free(all);
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
is_covered(struct question_queue *all, const struct question *q)
{
	const struct consent wanted = consent_of(q);

	if (question_is_content(q->kind))
		return consents_have_content(&all->consents, q->path);
	return q->kind == KODA_OP_RUN && q->covers != NULL &&
	    consents_have_command(&all->consents, &wanted);
}

static void
add_consent(struct question_queue *all, const struct question *q)
{
	const struct consent given = consent_of(q);

	if (q->covers != NULL)
		consents_add(&all->consents, &given);
}

static bool
look_for(struct question_queue *all, const struct text *covers, struct consent *ret)
{
	*ret = (struct consent){
		.kind = CONSENT_COMMAND,
		.covers = covers->p,
		.covers_len = covers->len,
	};
	return tree_look(all->conn->root, &ret->tree);
}

bool
questions_hold(struct question_queue *all, const struct text *covers)
{
	struct consent one;

	return look_for(all, covers, &one) && consents_have_command(&all->consents, &one);
}

void
questions_renew(struct question_queue *all, const struct text *covers)
{
	struct consent one;

	if (look_for(all, covers, &one))
		consents_renew(&all->consents, &one);
}

void
questions_lapse(struct question_queue *all)
{
	consents_lapse(&all->consents);
}

/* ---- the end of a question ---- */

static void
unlink_question(struct question *q)
{
	struct question **at = &q->all->first;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	if (q->change != NULL)
		*q->change = NULL;
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
lapse_asked(struct question_queue *all)
{
	for (struct question *q = all->first; q != NULL; q = q->next) {
		if (q->answered != NULL && q->ask != NULL) {
			free(q->covers);
			q->covers = NULL;
		}
	}
}

/* The only place where a question ends. how is as in record_approved(), if the answer is yes. */
static void
settle(struct question *q, enum koda_scope scope, const char *how)
{
	if (q->call != NULL && scope != KODA_SCOPE_NO)
		record_approved(q->call, how);
	unlink_question(q);
	if (q->answered != NULL)
		q->call->cancel = NULL;
	/* The change is under way, so a look at the tree may not see it yet. */
	if (q->change != NULL && scope != KODA_SCOPE_NO) {
		questions_lapse(q->all);
		lapse_asked(q->all);
	}
	if (q->approval != NULL)
		koda_approval_answer_scope(q->approval, scope);
	else
		q->answered(q->call, scope != KODA_SCOPE_NO);
	free_question(q);
}

/* ---- asking ---- */

static void
on_elicited(void *data, const json_t *result)
{
	struct question *q = data;
	struct question_queue *all = q->all;
	enum koda_scope scope = form_scope(result);

	q->ask = NULL;
	/* Keeps nothing if the session was not offered: then covers is NULL, and the yes is for
	 * this one only. */
	if (scope == KODA_SCOPE_SESSION && q->kind != KODA_OP_CONNECT)
		add_consent(all, q);
	settle(q, scope, scope == KODA_SCOPE_SESSION && q->covers != NULL ? "session" : "once");
	questions_next(all);
}

/* Returns whether a question about the call is still open. */
static bool
is_asked_for(const struct question_queue *all, const struct tool_call *call)
{
	const struct question *q = all->first;

	while (q != NULL && q->call != call)
		q = q->next;
	return q != NULL;
}

/* Returns the call of a running command through which the client can be asked about a host, or
 * NULL. *ret_later: there will be such a call once the client has answered the question that it
 * was given. */
static struct tool_call *
find_running(const struct question_queue *all, bool *ret_later)
{
	struct tool_call *call = all->conn->calls;

	*ret_later = false;
	for (; call != NULL; call = call->next) {
		if (call->tool == NULL || (call->tool->flags & TOOL_RUNS) == 0 || call->mute ||
		    call->cancel == NULL || !call->can_ask || is_asked_for(all, call))
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
next_question(const struct question_queue *all)
{
	struct question *q = all->first;
	bool later;

	if (q == NULL || !all->conn->version->rounds || all->ending)
		return q != NULL && q->ask == NULL ? q : NULL;
	for (; q != NULL; q = q->next) {
		if (q->ask == NULL &&
		    (q->kind != KODA_OP_CONNECT || find_running(all, &later) != NULL || !later))
			break;
	}
	return q;
}

/* Returns NULL if the question cannot be asked. */
static struct client_question *
ask(struct question *q)
{
	struct connection *conn = q->all->conn;
	struct tool_call *call = q->call;
	json_t *params;
	bool later;

	if (conn->version->rounds && call == NULL && (call = find_running(q->all, &later)) == NULL)
		return NULL;
	params = json_object();
	json_object_set_new_nocheck(params, "message",
	    text_json_bytes(q->message.p, q->message.len));
	json_object_set_new_nocheck(params, "requestedSchema",
	    form_new(q->kind, q->covers, q->covers_len, q->effects));
	return conn->version->rounds
	    ? connection_ask_by(call, "elicitation/create", params, on_elicited, q)
	    : connection_ask(conn, "elicitation/create", params, on_elicited, q);
}

void
questions_next(struct question_queue *all)
{
	struct question *q;

	while ((q = next_question(all)) != NULL) {
		/* The tree as it is when the user looks, not as it was when the question was
		 * queued. */
		if (q->answered != NULL && q->covers != NULL &&
		    !tree_look(all->conn->root, &q->tree)) {
			free(q->covers);
			q->covers = NULL;
		}
		if (all->ending) {
			settle(q, KODA_SCOPE_NO, NULL);
		} else if (is_covered(all, q)) {
			settle(q, KODA_SCOPE_ONCE, "kept");
		} else if ((q->ask = ask(q)) == NULL) {
			settle(q, KODA_SCOPE_NO, NULL);
		}
	}
}

struct question *
question_new(struct question_queue *all, const struct question_wish *wish)
{
	const struct koda_question *q = wish->question;
	struct question *ret, **at = &all->first;

	if (all->ending)
		return NULL;
	ret = memory_zero(sizeof(*ret));
	ret->all = all;
	ret->kind = q->kind;
	ret->approval = q->approval;
	ret->call = wish->call;
	ret->answered = wish->answered;
	ret->effects = wish->effects;
	if (wish->message != NULL) {
		ret->cut = wish->cut;
		text_add(&ret->message, wish->message->p, wish->message->len);
	} else if (!question_show(q, wish->about, (struct page_medium){ .style = PAGE_MESSAGE },
		       text_put, &ret->message, &ret->cut)) {
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
	if (wish->covers != NULL && !ret->cut) {
		ret->covers = memory_copy(wish->covers, wish->covers_len);
		ret->covers_len = wish->covers_len;
	}
	ret->change = wish->change;
	if (ret->change != NULL)
		*ret->change = ret;
	while (*at != NULL)
		at = &(*at)->next;
	*at = ret;
	return ret;
}

/* ---- withdrawing ---- */

void
question_withdraw(struct question *q, const char *reason)
{
	struct question_queue *all = q->all;

	if (q->ask != NULL)
		connection_withdraw(q->ask, reason);
	q->ask = NULL;
	settle(q, KODA_SCOPE_NO, NULL);
	questions_next(all);
}

void
questions_withdraw_call(struct question_queue *all, const struct tool_call *call,
    const char *reason)
{
	struct question *q = all->first;

	while (q != NULL && q->call != call)
		q = q->next;
	if (q != NULL)
		question_withdraw(q, reason);
}

void
questions_withdraw_hosts(struct question_queue *all, const char *reason)
{
	struct question *q = all->first, *next;

	for (; q != NULL; q = next) {
		next = q->next;
		if (q->kind != KODA_OP_CONNECT)
			continue;
		question_withdraw(q, reason);
		next = all->first; /* it may have removed others */
	}
}

void
questions_end(struct question_queue *all)
{
	all->ending = true;
	while (all->first != NULL)
		question_withdraw(all->first, "the session has ended");
}
