/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a swap that hold nothing: directories that are made or removed, and permissions. */
#ifndef KODA_WORKER_DRAFT_DIRECTORY_H
#define KODA_WORKER_DRAFT_DIRECTORY_H

#include "worker/draft/swap.h"

/*
 * A directory is made under the temporary name (worker/draft/across.h), with its permissions and
 * attributes, and noted in `old`: so a worker knows whether the directory at the place was made for
 * this item.
 */
enum swap_state directory_look_made(struct swap *w, struct koda_error *err);
void directory_make(struct swap *w, struct koda_error *err);

/* Only an empty directory is removed, so it matters only which one it is. */
enum swap_state directory_look_removed(struct swap *w, struct koda_error *err);
void directory_remove(struct swap *w, struct koda_error *err);

/* Done: `here` has the new permissions, `held` the ones before. */
enum swap_state directory_look_mode(struct swap *w, struct koda_error *err);
void directory_mode(struct swap *w, struct koda_error *err);

#endif
