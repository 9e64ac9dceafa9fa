/* SPDX-License-Identifier: Apache-2.0 */
/* Finished asynchronous calls whose callback has not run. The loop's next turn runs it. */
#ifndef KODA_HOST_CONTEXT_FINISHED_H
#define KODA_HOST_CONTEXT_FINISHED_H

#include <stdbool.h>

struct koda_session;

struct finished {
	struct finished *next;
	/* Run the callback, or only free it if !tell. The call is not in the list any more. */
	void (*deliver)(struct finished *f, bool tell);
};

/* Take over a call that has ended, and wake up the loop. */
void finished_add(struct koda_session *ses, struct finished *f);
/* Run the callbacks of the calls that are finished now. */
void finished_deliver(struct koda_session *ses);
/* Free these calls without running their callbacks. */
void finished_drop(struct koda_session *ses);

#endif
