/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record: memory that the host shares with a worker, in which the worker notes the progress of
 * its changes. The host reads it only after the worker's death, and trusts it as little as frames
 * from the socket.
 */
#ifndef KODA_HOST_SLOT_RECORD_H
#define KODA_HOST_SLOT_RECORD_H

#include "host/slot/state.h"

/* Returns the descriptor of an empty record, which the caller owns, or -1. */
int record_new(void);
/* Take over what the dead worker left in the slot's record, and close the record. If it breaks the
 * protocol, the worker counts as broken (slot->broken, slot->failure). */
void record_read(struct koda_slot *slot);

#endif
