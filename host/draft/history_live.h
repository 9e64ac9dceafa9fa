/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entries of the history sessions are writing to: a mark for each, history/<root>/.live/<id>. A
 * host that was killed leaves its mark, and the next session finds by it what has to be finished,
 * however many entries there are.
 */
#ifndef KODA_HOST_DRAFT_HISTORY_LIVE_H
#define KODA_HOST_DRAFT_HISTORY_LIVE_H

#include "host/draft/history_entry.h"

/* Set the mark, or remove it. If it cannot be set, the session goes on without: then only taking the
 * entry back finishes what was begun. */
void history_live_set(const char *state, const struct history *h);
void history_live_clear(const char *state, const char *root, const char *id);

/* Call fn with the id of each entry of the root that has a mark. */
typedef void history_live_fn(void *data, const char *id);
void history_live_visit(const char *state, const char *root, history_live_fn *fn, void *data);

#endif
