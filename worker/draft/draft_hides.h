/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change has git hide from a user who reviews the project afterwards: marks in the index,
 * patterns of files to ignore, replaced objects. It does no harm by itself, so it may be applied, and
 * is said. In a slot that works in the project, worker/scan/hides.h reports the same.
 */
#ifndef KODA_WORKER_DRAFT_DRAFT_HIDES_H
#define KODA_WORKER_DRAFT_DRAFT_HIDES_H

#include "worker/draft/draft_state.h"

/* Sets c->note for the regular file that was looked at. Returns 0, or -1 with *err set. */
int draft_hides(struct draft_walk *w, struct draft_change *c, struct koda_error *err);

#endif
