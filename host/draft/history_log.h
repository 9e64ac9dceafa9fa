/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of file operations in an entry of the history: each worker of the session has written
 * those that it made into a log of its own in `old` (worker/files/keep_log). Workers are not trusted:
 * what does not look like a change ends the log, and whatever a log says is done by another worker,
 * under the policy of who takes it back.
 */
#ifndef KODA_HOST_DRAFT_HISTORY_LOG_H
#define KODA_HOST_DRAFT_HISTORY_LOG_H

#include "host/draft/history_entry.h"
#include "proto/history.pb-c.h"

/* Add the changes of all logs to the entry, in the order in which they were made. They are done, unless
 * a log says otherwise: a worker that died may have left one that was not; the worker that takes it back
 * finds that out. Returns 0, or -1 with *err set. */
int history_log_read(struct history *h, struct koda_error *err);
/* Has any worker changed anything? */
bool history_log_is_any(const struct history *h);

/* Take over a message. Returns -1 with *err set: KODA_IO if it is damaged. The item has to be empty. */
int history_item_take(struct history_item *item, const Koda__HistoryItem *msg,
    struct koda_error *err);

#endif
