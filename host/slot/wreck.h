/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of the calls whose worker died: a change happened, or it did not happen and can be
 * sent again, or it is not known. The host decides from the reports of the dead worker and of its
 * successor, which the call keeps.
 */
#ifndef KODA_HOST_SLOT_WRECK_H
#define KODA_HOST_SLOT_WRECK_H

#include "host/slot/state.h"

/* The worker is gone (or hangs in the kernel: gone false), and its socket and record have been read
 * to the end: decide which calls are sent again, which ones the successor is asked about, and which
 * ones end. */
void wreck_sort(struct koda_slot *slot, bool gone);
/* Keep what a worker reports about a change that may have happened. Returns 0, or -1 with *err set
 * if the report breaks the protocol. */
int wreck_keep_verdict(struct call *c, const Koda__Verdict *v, struct koda_error *err);
/* The host cannot find out more: end the call, or queue it again, according to what it knows. */
void wreck_settle(struct call *c);
/* No worker can be asked any more: end all calls of the slot. */
void wreck_end_all(struct koda_slot *slot, const struct koda_error *err);

#endif
