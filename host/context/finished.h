/* Finished asynchronous calls whose callback has not run. The loop's next turn runs it
 * (host/slot/calls). */
#ifndef KODA_HOST_CONTEXT_FINISHED_H
#define KODA_HOST_CONTEXT_FINISHED_H

#include "host/slot/state.h"

/* Takes over a call that has ended; a synchronous one stays with its caller. Wakes up the loop. */
void finished_add(struct koda_session *ses, struct call *c);
/* The first one, which the caller owns; NULL: there is none. */
struct call *finished_take(struct koda_session *ses);
/* For calls whose user data is `data`: run `instead` in place of their callback. */
void finished_forget(struct koda_session *ses, const void *data, koda_done_fn *instead);

#endif
