/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One search: a koda-fs-search process of its own, beside the slot's worker, from its start to its
 * answer. It cannot change anything, so there is nothing to recover: if it dies, another one is
 * started, and what was reported is not reported twice. Every search becomes over exactly once.
 */
#ifndef KODA_HOST_SEARCH_SEARCH_H
#define KODA_HOST_SEARCH_SEARCH_H

#include "host/slot/state.h"

#define SEARCHES_MAX      8 /* at once in one slot: processes that read as fast as they can */
#define SEARCH_DEATHS_MAX 2 /* then the pattern or a searched file is the cause */

/* Called by the session's loop: reports what has arrived and handles deadlines. */
void search_tick(struct koda_slot *slot);
uint64_t search_next_time(const struct koda_slot *slot);
/* The slot is freed: its searches become over. */
void search_close_all(struct koda_slot *slot);
/* In a forked child: release the searches without touching the parent's processes. */
void search_abandon_all(struct koda_slot *slot);

#endif
