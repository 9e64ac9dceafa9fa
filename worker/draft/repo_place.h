/* SPDX-License-Identifier: Apache-2.0 */
/* One place of a repository that a draft makes (repo.h), when it is applied, taken back, or done again:
 * may it be swapped although the policy protects names like it? */
#ifndef KODA_WORKER_DRAFT_REPO_PLACE_H
#define KODA_WORKER_DRAFT_REPO_PLACE_H

#include "worker/draft/shape.h"
#include "worker/draft/swap.h"

/* layer: of the draft that the item comes from; NULL: it comes from the history. The item has been
 * looked at. */
bool repo_place_allows(const struct swap *w, struct shape *layer);

#endif
