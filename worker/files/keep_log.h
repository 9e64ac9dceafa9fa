/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's log of its changes, in `old` of the history's entry: records that are only ever appended,
 * each with one write(). Each worker has a log of its own, so a record that was cut off by the
 * worker's death is the last one in its file. Nothing is synced: a power failure may cost the last
 * seconds of the history, which is cheaper than a sync for each change.
 */
#ifndef KODA_WORKER_FILES_KEEP_LOG_H
#define KODA_WORKER_FILES_KEEP_LOG_H

#include "proto/history.pb-c.h"
#include "worker/session.h"

/* The name that the history has for a part of a change: the token in hex, '-', the request, and "-N"
 * for parts after the first. */
void keep_name(char ret[SWAP_NAME_MAX + 1], const uint8_t token[TOKEN_BYTES], uint64_t request,
    unsigned part);

/* Append a record. Returns 0, or -1 with errno: then nothing more will be written. */
int keep_log_item(struct session *ses, Koda__HistoryItem *item);
/* Append that no part of that change happened. */
int keep_log_not_done(struct session *ses, const char *name);

#endif
