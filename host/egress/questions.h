/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions to the user about hosts that no rule names, and the hosts that the user granted for
 * the session. A question belongs to one slot of one egress; an answer for the session answers the
 * same question in all slots.
 */
#ifndef KODA_HOST_EGRESS_QUESTIONS_H
#define KODA_HOST_EGRESS_QUESTIONS_H

#include "host/egress/wire.h"

struct asked;
struct egress;
struct questions;

struct egress_question {
	struct egress_question *next;
	struct questions *all;
	struct egress *egress;
	uint64_t id; /* the proxy's; 0: the proxy no longer waits for the answer */
	uint64_t slot;
	bool unasked;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
	struct asked *asked; /* NULL: not asked yet */
};

struct questions_client {
	/* The user has answered. Calls questions_answer(), unless this process is a forked child;
	 * then it returns false. */
	bool (*answered)(struct egress_question *q, enum koda_scope scope);
	/* Send the answer to the proxy that waits for it. May run the event callback. */
	void (*answer)(struct egress *e, uint64_t id, enum koda_scope scope);
	/* Returns where the user's answer has to wait (see asked.h), or NULL. */
	struct asked **(*postpone)(struct egress_question *q);
};

/* Of a session. */
struct questions {
	const struct questions_client *client;
	struct egress_question *first;
	struct egress_grant *grants;
	size_t n_grants;
};

enum question_verdict {
	QUESTION_ASKED, /* or will be */
	QUESTION_YES,   /* granted before */
	QUESTION_NO,    /* too many questions, or memory is short */
	QUESTION_TWICE, /* the proxy waits for that answer already */
};

/* The proxy of `e` asks for a slot. */
enum question_verdict questions_add(struct questions *all, struct egress *e, uint64_t slot,
    uint64_t id, const char *host, unsigned port);
/* Does the proxy of `e` wait for the answer to the question of that id? */
bool questions_wait(const struct questions *all, const struct egress *e, uint64_t id);
/* The proxy no longer waits for that answer. */
void questions_withdraw(struct questions *all, const struct egress *e, uint64_t id);
/* The proxy that waited for the answers is gone. */
void questions_orphan(struct questions *all, const struct egress *e);
/* The slot is gone: free its questions. slot 0: those of all slots of `e`. */
void questions_free(struct questions *all, const struct egress *e, uint64_t slot);
void questions_done(struct questions *all);

/* Is there a question that has not been put to the user? */
bool questions_pending(const struct questions *all);
/* Put the next such question to the user. */
void questions_ask_next(struct questions *all, enum koda_mode mode, koda_approve_fn *approve,
    void *data);
/* The user's answer; frees the question. */
void questions_answer(struct egress_question *q, enum koda_scope scope);

#endif
