/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's reply to a call: the progress of a change, the answer to the call, or the verdict on a
 * change of a dead worker. A reply is untrusted; one that does not fit the call's state breaks the
 * protocol.
 */
#ifndef KODA_HOST_SLOT_INCOMING_H
#define KODA_HOST_SLOT_INCOMING_H

#include "host/slot/state.h"

/* frame: the packed reply; the call may keep a copy. fd: the descriptor that came with the reply,
 * or -1; it is consumed. The call may have ended afterwards. Returns 0, or -1 with *err set if the
 * worker cannot be trusted any more. */
int incoming_take(struct call *c, const Koda__Reply *reply, int fd, const uint8_t *frame,
    size_t len, struct koda_error *err);

#endif
