/* SPDX-License-Identifier: Apache-2.0 */
/* A call: its place in the slot's queue, its state, and how it ends. */
#ifndef KODA_HOST_SLOT_CALL_H
#define KODA_HOST_SLOT_CALL_H

#include "host/slot/state.h"

/* Put a new call at the end of the slot's queue. */
void call_queue(struct koda_slot *slot, struct call *c);
/* Move a call to the end of the queue, to be sent again. */
void call_queue_again(struct call *c);
/* The slot counts its calls by state, so only this function changes the state of a call. */
void call_set_state(struct call *c, enum call_state state);

/* False for a dry run. */
bool call_changes_something(const struct call *c);

/* Every call ends here. err NULL: the call ends with its result. An asynchronous call
 * belongs to the session's finished calls afterwards. */
void call_finish(struct call *c, const struct koda_error *err);
void call_fail(struct call *c, enum koda_code code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Frees what the call holds, but not the call. */
void call_done(struct call *c);
/* For the slot's asynchronous calls, finished or not, whose user data is `data`, which is about to be
 * freed: neither their callback nor their take() runs. */
void call_forget(struct koda_slot *slot, const void *data);

#endif
