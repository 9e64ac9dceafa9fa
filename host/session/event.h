/* What the embedder's event callback hears of a session. */
#ifndef KODA_HOST_SESSION_EVENT_H
#define KODA_HOST_SESSION_EVENT_H

#include "host/session/state.h"

/* The callback runs at once, in the middle of the operation that it reports. */
void session_event(struct koda_session *ses, enum koda_event_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The kernel sandbox does not work here. Returns true if the session goes on without it (which is
 * reported), false if it may not (Auto). */
bool session_degrade(struct koda_session *ses, const struct koda_error *why);

#endif
