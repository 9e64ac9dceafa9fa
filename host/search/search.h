/*
 * One search: a koda-fs-search of its own, beside the slot's worker, from its start to its answer. Nothing of it can
 * change anything, so there is nothing to recover: one that dies is begun again, and what was told is not told twice.
 * Every search becomes over exactly once.
 */
#ifndef KODA_HOST_SEARCH_SEARCH_H
#define KODA_HOST_SEARCH_SEARCH_H

#include "host/session/session.h"

#define SEARCHES_MAX      8 /* of one slot, at once: processes that read as fast as they can */
#define SEARCH_DEATHS_MAX 2 /* it is the pattern, or what is searched */

/* Of the session's loop: what has arrived is taken and told; deadlines. */
void search_tick(struct koda_slot *slot);
uint64_t search_next_time(const struct koda_slot *slot);
/* The slot goes away: its searches are over. */
void search_close_all(struct koda_slot *slot);
/* In a forked child: they are the parent's. */
void search_abandon_all(struct koda_slot *slot);

#endif
