/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A swap whose place is on another file system than the draft and the history: rename(2) cannot go
 * there. What comes is copied to a temporary name beside the place, which then takes part in the
 * renames instead of the source; what comes out under that name is copied to `old`:
 *
 *	source ~> temp;  temp <-> place, or temp -> place;  temp ~> old;  temp and source are removed
 *	only here: place -> temp;  temp ~> old;  temp is removed
 *
 * The temporary name follows from the item, so that any worker finds it. A copy has an inode of its
 * own: once it is complete a note in `old` says which, and what is copied to `old` gets its name there
 * when it is complete.
 */
#ifndef KODA_WORKER_DRAFT_ACROSS_H
#define KODA_WORKER_DRAFT_ACROSS_H

#include "worker/draft/swap.h"

/* Sets the temporary name, from the item's name and the inode of `old`, which no other entry of the
 * history has. */
void across_name(struct swap *w, ino_t old_ino);

enum swap_state across_look_bring(struct swap *w, struct koda_error *err);
enum swap_state across_look_take(struct swap *w, struct koda_error *err);
void across_bring(struct swap *w, enum swap_state state, struct koda_error *err);
void across_take(struct swap *w, enum swap_state state, struct koda_error *err);

/* Removes the temporary name, which has a copy or an empty directory. */
void across_drop(struct swap *w);

/* Is the name what this item's note says that was copied or made for the place? */
bool across_is_made(const struct swap *w, const struct swap_name *n);
/* Is there a note that this item was copied? */
bool across_is_begun(const struct swap *w);

#endif
