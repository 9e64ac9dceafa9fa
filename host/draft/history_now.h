/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workers of an entry were doing when they and their host were killed (worker/files/keep_now):
 * what another worker has to be asked. Workers are not trusted: a file that is not one Recover of its
 * own worker counts as none.
 */
#ifndef KODA_HOST_DRAFT_HISTORY_NOW_H
#define KODA_HOST_DRAFT_HISTORY_NOW_H

#include "host/draft/history_entry.h"

bool history_now_is_any(const struct history *h);
/* Call fn with each. If it returns false, the file is removed. */
typedef bool history_now_fn(void *data, Koda__Recover *m);
void history_now_visit(const struct history *h, history_now_fn *fn, void *data);
/* Remove them: no worker was killed in the middle of a change. */
void history_now_drop(const struct history *h);

#endif
