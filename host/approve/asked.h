/*
 * One question to the embedder: put to its approval callback, answered there or later, over with
 * the answer or with the end of what it is about. Knows neither sessions nor what is asked about;
 * that is the caller's, behind two operations. The embedder holds a ticket (host/approve/ticket)
 * and no address, so that an answer to a question that is over is refused.
 */
#ifndef KODA_HOST_APPROVE_ASKED_H
#define KODA_HOST_APPROVE_ASKED_H

#include "shared/rules/domain.h"
#include "shared/wire/message.h"

struct asked_ops {
	/* Note why it is not approved. Called before answer() if the answer is no. NULL: nothing is
	 * noted. */
	void (*refuse)(void *about, const char *why);
	/* Act on the answer; the question is over. late: the embedder calls from outside of its
	 * approval callback. Returns false if the answer may not count in this process. */
	bool (*answer)(void *about, enum koda_scope scope, bool late);
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
	void *about;         /* NULL: it ended without waiting for the answer */
	struct asked **held; /* where `about` keeps the question */
	bool sync;           /* over when the callback returns, answered or not */
	bool asking;         /* the callback is running */
	bool answered;
	enum koda_scope scope;
};

/* Make a question about something, and keep it in *held. NULL: no memory; *held is NULL. */
struct asked *asked_new(const struct asked_ops *ops, void *about, struct asked **held, bool sync);
/* Run the callback. An answer that is there when it returns is acted on at once; so is a missing
 * one if the question is synchronous, which means no. */
void asked_put(struct asked *a, koda_approve_fn *approve, void *data);
/* What it is about has ended, or the question could not be put: *held becomes NULL. Frees the
 * question, unless the embedder may still read and answer it; then it is returned, to be given
 * what it points into. Accepts *held NULL. */
struct asked *asked_end(struct asked **held);
/* Not asked at all: refuse, and act on that. */
void asked_refuse(const struct asked_ops *ops, void *about, const char *why);

#endif
