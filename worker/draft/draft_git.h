/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in a git directory that a draft may change, because git changes them all the time, and whose
 * text can still lead git out of the directory: the index, refs, lists of paths. In a slot that works
 * in the project, worker/scan/followed.h judges the same after each command.
 */
#ifndef KODA_WORKER_DRAFT_DRAFT_GIT_H
#define KODA_WORKER_DRAFT_DRAFT_GIT_H

#include "worker/draft/draft_state.h"

/*
 * Returns the path of w->name below the innermost git directory that it is in, which points into
 * w->path; NULL: it is in none. *ret becomes that level.
 */
const char *draft_git_below(struct draft_walk *w, const struct draft_level **ret);
/* Is the directory that is about to be entered below the refs of a git directory? */
bool draft_git_is_below_refs(struct draft_walk *w, const char *name);
/* Is the name that was looked at in a git directory, at any depth? */
bool draft_git_is_inside(struct draft_walk *w);
/* Returns why git on the host must not read the regular file that was looked at, or NULL. */
const char *draft_git_refuses(struct draft_walk *w);

#endif
