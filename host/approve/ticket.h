/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets: how the embedder names an open question. The public `struct koda_approval *` is a
 * number in the shape of a pointer. It is never dereferenced and never used twice, so a ticket that
 * is too old, answered or invented finds nothing.
 *
 * Several threads may use this at once: tickets outlive their sessions, so the whole process shares
 * them.
 */
#ifndef KODA_HOST_APPROVE_TICKET_H
#define KODA_HOST_APPROVE_TICKET_H

#include "include/koda/sandbox.h"

struct asked;

/* Issue a ticket for a question, which stays the caller's. NULL: no memory. */
struct koda_approval *ticket_issue(struct asked *a);
/* Return the question, or NULL if the ticket has ended or was never issued. */
struct asked *ticket_find(const struct koda_approval *ticket);
/* The question is over: from now on the ticket finds nothing. Accepts NULL. */
void ticket_end(const struct koda_approval *ticket);

#endif
