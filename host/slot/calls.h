/* Operations on a slot, synchronous or with a callback, which calls_deliver() runs later. */
#ifndef KODA_HOST_SLOT_CALLS_H
#define KODA_HOST_SLOT_CALLS_H

struct koda_session;

/* Run the callbacks of the calls that are finished now. */
void calls_deliver(struct koda_session *ses);
/* Free these calls without running their callbacks. */
void calls_drop(struct koda_session *ses);

#endif
