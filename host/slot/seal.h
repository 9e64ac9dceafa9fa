/*
 * How a worker begins, whichever program it is: Seal, and what its Ready has to say. Policy, root and mode are the
 * session's and the slot's; nothing here sends, or kills.
 */
#ifndef KODA_HOST_SLOT_SEAL_H
#define KODA_HOST_SLOT_SEAL_H

#include "host/session/session.h"

/* Queue Seal as request `id` for a worker of that slot. quarantine: it may have to take away what commands planted. */
int seal_queue(const struct koda_slot *slot, struct frame_stream *fs, uint64_t id,
    const uint8_t token[TOKEN_BYTES], bool quarantine, struct koda_error *err);

/*
 * Its answer. 0 with *ret: it is confined as the mode wants it (less, where the mode puts up with that, is said once a
 * session). With *err set: -1, it is not to be trusted; 1, none like it can be had here.
 */
int seal_check(const struct koda_slot *slot, const Koda__Reply *reply, struct koda_enforcement *ret,
    struct koda_error *err);

#endif
