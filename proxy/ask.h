/*
 * Questions to the user, by way of the host, and what he has answered: hosts that no rule names. A question is of one slot,
 * host and port; those who want the same wait for the same answer. Bounded: PROXY_ASKS_MAX, PROXY_ASK_SECS, and a no is
 * remembered for a moment.
 */
#ifndef KODA_PROXY_ASK_H
#define KODA_PROXY_ASK_H

#include "proxy/control.h"

/* As many as a user can have said yes to; beyond, a yes is for once. */
#define ASK_GRANTS_MAX 4096

struct asks *asks_new(struct proxy *p);
void asks_free(struct asks *as);

typedef void ask_fn(void *data, bool yes);
struct ask;
/* NULL: too many questions, or somebody said no to it just now. */
struct ask *ask_start(struct proxy *p, struct listener *l, Koda__EgressKind kind, const char *host,
    unsigned port, ask_fn *fn, void *data);
/* The last one who waits withdraws the question. */
void ask_cancel(struct ask *a);

/* Has it been allowed for the session? */
bool ask_granted(const struct proxy *p, const char *host, unsigned port);
void ask_grant(struct asks *as, const char *host, unsigned port);
/* An answer may come when nobody waits any more. */
void ask_answer(struct asks *as, uint64_t question, Koda__EgressConsent consent);

#endif
