/* Operations on a slot: waiting for one, or a callback later, which calls_deliver() runs. */
#ifndef KODA_HOST_SESSION_CALLS_H
#define KODA_HOST_SESSION_CALLS_H

struct koda_session;

/* Run the callbacks of the calls that are finished now. */
void calls_deliver(struct koda_session *ses);
/* Free them instead. */
void calls_drop(struct koda_session *ses);

#endif
