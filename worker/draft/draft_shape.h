/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the names that make a git directory, and make git run something, are in a directory of the
 * project and in its changes.
 */
#ifndef KODA_WORKER_DRAFT_DRAFT_SHAPE_H
#define KODA_WORKER_DRAFT_DRAFT_SHAPE_H

#include "worker/draft/draft_state.h"

/* Finds out, once for each level, while its descriptors are open. */
void draft_shape_learn(struct draft_walk *w, struct draft_level *l);
/* Returns the bit of a name in struct draft_shape; 0: the name has no bit. */
uint32_t draft_shape_bit(const char *name);
bool draft_shape_is_git(uint32_t shape);
/* Is that level a git directory, with all that the draft makes in it? */
bool draft_shape_is_git_dir(struct draft_walk *w, struct draft_level *l);
/* Does a directory have that name? What cannot be examined may be there. */
bool draft_shape_has(int dir, const char *name);

#endif
