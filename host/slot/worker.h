/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot's worker: starting it, reading from it, killing it, and burying it: reading the last
 * replies of the dead process and closing its socket.
 */
#ifndef KODA_HOST_SLOT_WORKER_H
#define KODA_HOST_SLOT_WORKER_H

#include "host/slot/state.h"

/* How long a blocking read keeps the slot from checking deadlines. */
#define WORKER_READ_MS 1000

/* DOWN -> STARTING. Returns 0, or -1 with *err set. */
int worker_start(struct koda_slot *slot, struct koda_error *err);
/* Read once and process what has come. block: wait up to WORKER_READ_MS for it. */
void worker_read(struct koda_slot *slot, bool block);
/* Kill it: -> DYING. */
void worker_stop(struct koda_slot *slot);
/* DYING -> DOWN, or FAILED. gone: false if it was killed but hangs in the kernel. */
void worker_bury(struct koda_slot *slot, bool gone);
/* There will be no worker any more: -> FAILED, and all calls end. */
void worker_give_up(struct koda_slot *slot, const struct koda_error *why);

#endif
