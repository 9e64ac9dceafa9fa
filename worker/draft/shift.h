/* SPDX-License-Identifier: Apache-2.0 */
/* A swap that holds nothing: what is at one place of the project is moved to another, free one, as a
 * rename that is taken back. */
#ifndef KODA_WORKER_DRAFT_SHIFT_H
#define KODA_WORKER_DRAFT_SHIFT_H

#include "worker/draft/swap.h"

/* Only which file it is matters: what was written into it since moves along. */
enum swap_state shift_look(struct swap *w, struct koda_error *err);
void shift(struct swap *w, struct koda_error *err);

#endif
