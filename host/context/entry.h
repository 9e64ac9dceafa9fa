/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entering and leaving the library: may it be called now, where may callbacks run, what happens when
 * its outermost function returns, and how to wait.
 */
#ifndef KODA_HOST_CONTEXT_ENTRY_H
#define KODA_HOST_CONTEXT_ENTRY_H

#include "host/context/context.h"

struct pollfd;

/* Returns 0 if the library may be called in this process and at this point, -1 with *err set if
 * not. */
int session_check(const struct koda_session *ses, struct koda_error *err);

/* Around all code that may run callbacks. When session_leave() returns true, the session has
 * been freed. */
void session_enter(struct koda_session *ses);
bool session_leave(struct koda_session *ses);

/* Returns where the answer to a question has to wait now (see host/approve/asked), or NULL. */
struct asked **session_postpones(struct koda_session *ses);

/* Calls poll(), or the embedder's wait callback while a slot is acquired. Returns -1 when the
 * caller has to give up, or as poll() does. session_waits() returns true if session_poll() would
 * call the callback. */
int session_poll(struct koda_session *ses, struct pollfd *fds, size_t n, int timeout_ms);
bool session_waits(const struct koda_session *ses);

#endif
