/* SPDX-License-Identifier: Apache-2.0 */
/* The events that a session reports to the embedder's event callback. */
#ifndef KODA_HOST_CONTEXT_EVENT_H
#define KODA_HOST_CONTEXT_EVENT_H

#include "host/context/context.h"

/* The callback runs at once, in the middle of the operation that it reports. */
void session_event(struct koda_session *ses, enum koda_event_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The kernel sandbox does not work here. In Plan and Safe the session goes on without commands and
 * reports that: returns true. In Auto it must not: returns false. */
bool session_degrade(struct koda_session *ses, const struct koda_error *why);

#endif
