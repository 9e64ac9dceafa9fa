/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the user, through the host, about hosts that no rule names, and the user's answers.
 * A question is for one slot, host and port; requests for the same share one question and its
 * answer. Bounded by PROXY_ASKS_MAX and PROXY_ASK_SECS, and a no is remembered for a moment.
 */
#ifndef KODA_PROXY_QUESTIONS_H
#define KODA_PROXY_QUESTIONS_H

#include "proxy/control.h"

/* Limit of grants for the session; above, a yes is valid once. */
#define QUESTIONS_GRANTS_MAX 4096

struct open_questions *questions_new(struct proxy *p);
void questions_free(struct open_questions *qs);

typedef void question_fn(void *data, bool yes);
struct question_wait;
/* Ask. NULL: too many questions, no memory, or the user has just said no to it. */
struct question_wait *questions_ask(struct proxy *p, struct listener *l, Koda__EgressKind kind,
    const char *host, unsigned port, question_fn *fn, void *data);
/* Stop waiting. When no request waits for the question any more, it is withdrawn. */
void questions_cancel(struct question_wait *w);

/* Has the host been allowed for the session? */
bool questions_granted(const struct proxy *p, const char *host, unsigned port);
void questions_grant(struct open_questions *qs, const char *host, unsigned port);
/* Deliver an answer. It may come after all requests that waited for it were cancelled. */
void questions_answer(struct open_questions *qs, uint64_t question, Koda__EgressConsent consent);

#endif
