/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File operations of sessions that were killed together with their workers: what is left of them in the
 * project under a temporary name is removed, or a removal is done to the end. A worker does that, under
 * the policy of this session.
 */
#ifndef KODA_HOST_REVIEW_SETTLE_H
#define KODA_HOST_REVIEW_SETTLE_H

#include "host/draft/history_entry.h"
#include "host/review/held.h"

/* Before the session's first slot looks at the project. What cannot be finished now is left to the
 * next session. */
void settle_killed(struct koda_session *ses);

/* The same for one entry, whose worker is held. Returns true if something may have changed in it. */
bool settle_entry(const struct history *h, struct holder *held);

#endif
