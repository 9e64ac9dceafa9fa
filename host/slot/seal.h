/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of any worker program: the host sends Seal, the worker answers Ready. Policy, root and
 * mode come from the session and the slot; nothing here sends or kills.
 */
#ifndef KODA_HOST_SLOT_SEAL_H
#define KODA_HOST_SLOT_SEAL_H

#include "host/slot/state.h"
#include "shared/confine/rights.h"

/* Queue Seal as request `id` for a worker of that slot. with_places: the worker may have to remove
 * what commands planted. Returns 0, or -1 with *err set. */
int seal_queue(const struct koda_slot *slot, struct frame_stream *fs, uint64_t id,
    const uint8_t token[TOKEN_BYTES], bool with_places, struct koda_error *err);

/*
 * Check the worker's answer. Returns 0 with *ret if the worker is confined as the mode requires.
 * (If the mode accepts less than full confinement, this is reported once a session.) With *err set:
 * -1 if the worker cannot be trusted, 1 if no worker of this kind can run here.
 */
int seal_check(const struct koda_slot *slot, enum confined_kind who, const Koda__Reply *reply,
    struct koda_enforcement *ret, struct koda_error *err);

#endif
