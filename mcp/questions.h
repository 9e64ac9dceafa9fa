/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of a client's session to its user: which of them is asked now, and what the user
 * allowed for longer than once. What is done after a yes is up to the library, or to the caller.
 */
#ifndef KODA_MCP_QUESTIONS_H
#define KODA_MCP_QUESTIONS_H

#include "mcp/connection_state.h"
#include "show/question.h"

struct question_queue;
struct question;
struct text;

struct question_queue *questions_new(struct connection *conn);
/* Answers every open question with no, and accepts no more. */
void questions_end(struct question_queue *all);
void questions_free(struct question_queue *all);

typedef void question_answered_fn(struct tool_call *call, bool yes);
struct question_wish {
	const struct koda_question *question;
	/* Shown instead of the question; NULL: the question. cut: it is not all that there is. */
	const struct text *message;
	bool cut;
	bool effects; /* it is about what a command has done, not about running it */
	const struct question_about *about;
	struct tool_call *call; /* that it is about; NULL: none */
	/* Of a change: refers to the question until it ends. A yes drops what was allowed for
	 * commands. */
	struct question **change;
	/* Of a command of the client: gets the answer. Otherwise the library does. */
	question_answered_fn *answered;
	/* Everything that identifies the command, for an answer for the session; NULL: nothing. */
	const char *covers;
	size_t covers_len;
};
/* Queues a question. Returns NULL if it cannot be shown, or the session is ending. Call
 * questions_next() after it. */
struct question *question_new(struct question_queue *all, const struct question_wish *wish);
/* Asks what can be asked now. May end questions: some are covered by an earlier answer, or cannot be
 * asked. */
void questions_next(struct question_queue *all);

/* Each answers with no. */
void question_withdraw(struct question *q, const char *reason);
void questions_withdraw_call(struct question_queue *all, const struct tool_call *call,
    const char *reason);
void questions_withdraw_hosts(struct question_queue *all, const char *reason);

/* Returns whether the effects of this command are allowed for the session, and nothing else has
 * changed below the root since. */
bool questions_hold(struct question_queue *all, const struct text *covers);
/* The effects of the command were applied: they do not end what was allowed. */
void questions_renew(struct question_queue *all, const struct text *covers);
/* Drops what was allowed for commands. */
void questions_lapse(struct question_queue *all);

#endif
