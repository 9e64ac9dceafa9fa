/* SPDX-License-Identifier: Apache-2.0 */
/* Applying a draft to the project (koda_draft_apply). */
#ifndef KODA_HOST_REVIEW_APPLY_H
#define KODA_HOST_REVIEW_APPLY_H

#include "host/review/state.h"

/* Finish what a killed host began to apply from that draft. Returns 0, or -1 with *err set. */
int apply_finish_begun(struct koda_draft *d, struct koda_error *err);
/* Remove the draft if no change is left in it. Returns 0, or -1 with *err set. */
int draft_remove_empty(struct koda_draft *d, struct koda_error *err);

#endif
