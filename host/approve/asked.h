/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to the embedder, about a call, a command or a connection. The approval callback gets
 * it and answers there or later; it ends with the answer, or with the end of its subject. This code
 * knows neither sessions nor subjects: the caller acts through two operations. The embedder holds a
 * ticket (host/approve/ticket) and no address, so an answer to a question that has ended is
 * refused.
 */
#ifndef KODA_HOST_APPROVE_ASKED_H
#define KODA_HOST_APPROVE_ASKED_H

#include "shared/rules/domain.h"
#include "shared/wire/message.h"

/* Why the embedder is not asked. */
#define ASKED_NOBODY  "this session cannot ask the user"
#define ASKED_NO_ROOM "there is not enough memory to ask the user"

struct asked_ops {
	/* Note why it is not approved. Called before answer() if the answer is no. NULL: nothing is
	 * noted. */
	void (*refuse)(void *about, const char *why);
	/* Act on the answer; the question is over. late: the embedder calls from outside of its
	 * approval callback. Returns false if the answer may not count in this process. */
	bool (*answer)(void *about, enum koda_scope scope, bool late);
	/* Returns where a late answer waits until asked_act_on() is called for it, or NULL if
	 * answer() may act now. */
	struct asked **(*postpone)(void *about);
};

struct asked {
	struct koda_question question; /* the caller fills it, except `approval` */
	/* What the question points into: */
	struct arena arena;
	void *content; /* mapped, or NULL */
	size_t content_len;
	struct koda_result seen; /* taken from a call that ended */
	char host[DOMAIN_HOST_MAX + 1];

	/* The rest belongs to asked.c. */
	const struct asked_ops *ops;
	void *about;         /* NULL: the subject ended before the answer */
	struct asked **held; /* where `about` keeps the question */
	bool sync;           /* over when the callback returns, answered or not */
	bool asking;         /* the callback is running */
	bool answered;
	enum koda_scope scope;
	struct asked **waits_in; /* answered; not acted on yet */
	struct asked *next;
};

/* Make a question about something, and keep it in *held. NULL: no memory; *held is NULL. */
struct asked *asked_new(const struct asked_ops *ops, void *about, struct asked **held, bool sync);
/* Run the callback. If the embedder has answered when it returns, act on the answer at once. A
 * synchronous question without an answer then counts as answered with no. */
void asked_put(struct asked *a, koda_approve_fn *approve, void *data);
/* The subject has ended, or the question could not be put: *held becomes NULL. Frees the question,
 * unless the embedder may still read and answer it; then returns it, so that the caller can hand
 * over what the question points into. Accepts *held NULL. */
struct asked *asked_end(struct asked **held);
/* Act on the answers that wait. */
void asked_act_on(struct asked **waiting);
/* The name of a mode, for a refusal. */
const char *asked_mode_name(enum koda_mode mode);
/* The embedder is not asked: call refuse(), and answer() with no. */
void asked_refuse(const struct asked_ops *ops, void *about, const char *why);

#endif
