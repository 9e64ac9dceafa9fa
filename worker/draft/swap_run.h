/* SPDX-License-Identifier: Apache-2.0 */
/* One item of a Swap: looks at it, does it, or clears up after it, whatever kind it is of. */
#ifndef KODA_WORKER_DRAFT_SWAP_RUN_H
#define KODA_WORKER_DRAFT_SWAP_RUN_H

#include "worker/draft/swap.h"

/* Finds out what has happened of an item. Returns the state; if `outcome` is set to anything but a
 * success, *err is set, too. */
enum swap_state swap_run_look(struct swap *w, struct koda_error *err);
/* Does an item, or finishes it; `state` is what swap_run_look() returned. Sets `outcome`, and *err if that
 * is not a success. */
void swap_run_act(struct swap *w, enum swap_state state, struct koda_error *err);
/* Removes what a worker that died left of an item that is not done. */
void swap_run_drop(struct swap *w);

#endif
