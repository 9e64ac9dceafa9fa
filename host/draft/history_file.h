/* SPDX-License-Identifier: Apache-2.0 */
/* The files of an entry of the history: `about` and `items`. */
#ifndef KODA_HOST_DRAFT_HISTORY_FILE_H
#define KODA_HOST_DRAFT_HISTORY_FILE_H

#include "host/draft/history_entry.h"

/* Write `about`, and make `items`. */
int history_file_make(struct history *h, struct koda_error *err);
/* Read both, and open `items` for more. A record that a killed host wrote in part is cut off; another
 * damage is an error. */
int history_file_read(struct history *h, struct koda_error *err);
/* Read `about` only. */
int history_file_read_about(struct history *h, struct koda_error *err);

/* Write down what was added, and sync. */
int history_write(struct history *h, struct koda_error *err);
/* Write down that the items that are `turning` get the other state, and sync. */
int history_turn(struct history *h, bool undone, struct koda_error *err);
/* Write down the results of n items: their state, here and held were set. */
int history_results(struct history *h, struct history_item *const *item, size_t n,
    struct koda_error *err);
/* Write down that nothing is left to do. */
int history_finish(struct history *h, struct koda_error *err);

#endif
