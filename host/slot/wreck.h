/*
 * What became of the calls whose worker died: whether a change happened, did not happen and can be
 * sent again, or has to be left open. A call keeps what the dead worker and its successor have
 * reported; everything is decided from that.
 */
#ifndef KODA_HOST_SLOT_WRECK_H
#define KODA_HOST_SLOT_WRECK_H

#include "host/slot/state.h"

/* The worker is gone (or hangs in the kernel: gone false), and its socket and record have been read
 * to the end: sort out what is sent again, what the successor is asked about, and what ends. */
void wreck_sort(struct koda_slot *slot, bool gone);
/* Keep what a worker reports about a change that may have happened. Returns 0, or -1 with *err set
 * if the report breaks the protocol. */
int wreck_keep_verdict(struct call *c, const Koda__Verdict *v, struct koda_error *err);
/* No more can be found out: end the call, or queue it again, according to what is known. */
void wreck_settle(struct call *c);
/* No worker can be asked any more: end all calls of the slot. */
void wreck_end_all(struct koda_slot *slot, const struct koda_error *err);

#endif
