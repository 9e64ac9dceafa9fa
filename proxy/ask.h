/*
 * Questions to the user, through the host, about hosts that no rule names, and the user's answers.
 * A question is for one slot, host and port; requests for the same share one question and its
 * answer. Bounded by PROXY_ASKS_MAX and PROXY_ASK_SECS, and a no is remembered for a moment.
 */
#ifndef KODA_PROXY_ASK_H
#define KODA_PROXY_ASK_H

#include "proxy/control.h"

/* Limit of grants for the session; above, a yes is valid once. */
#define ASK_GRANTS_MAX 4096

struct asks *asks_new(struct proxy *p);
void asks_free(struct asks *as);

typedef void ask_fn(void *data, bool yes);
struct ask;
/* Ask. NULL: too many questions, no memory, or the user has just said no to it. */
struct ask *ask_start(struct proxy *p, struct listener *l, Koda__EgressKind kind, const char *host,
    unsigned port, ask_fn *fn, void *data);
/* Stop waiting; the question is withdrawn when the last ask of it is cancelled. */
void ask_cancel(struct ask *a);

/* Has the host been allowed for the session? */
bool ask_granted(const struct proxy *p, const char *host, unsigned port);
void ask_grant(struct asks *as, const char *host, unsigned port);
/* Deliver an answer; it may come after every ask of the question was cancelled. */
void ask_answer(struct asks *as, uint64_t question, Koda__EgressConsent consent);

#endif
