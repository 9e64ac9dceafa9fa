/* SPDX-License-Identifier: Apache-2.0 */
/* What one name of a draft changes in the project. */
#ifndef KODA_WORKER_DRAFT_DRAFT_DIFFER_H
#define KODA_WORKER_DRAFT_DRAFT_DIFFER_H

#include "worker/draft/draft_state.h"

/* Sets w->change for w->name, each judged. Returns 0, or -1 with *err set. */
int draft_differ(struct draft_walk *w, struct koda_error *err);

#endif
