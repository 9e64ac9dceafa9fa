/* One turn of a session's loop: ready sources are read, all parts check their deadlines, callbacks
 * run, and the loop is told what to wait for next. */
#ifndef KODA_HOST_CONTEXT_TURN_H
#define KODA_HOST_CONTEXT_TURN_H

#include "shared/base/err.h"

struct koda_session;
struct koda_slot;

/* A turn for a function that waits. Returns -1 when called from inside one of the loop's
 * callbacks. */
int session_turn(struct koda_session *ses, int timeout_ms, struct koda_error *err);
/* The slot's state changed outside of the loop: watch what the slot waits for now. */
void session_rearm(struct koda_session *ses, struct koda_slot *slot);
/* A turn without waiting, for the caller's loop. */
void turn_ready(void *session);

#endif
