/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of a copy: made and removed by descriptor, without following a link. */
#ifndef KODA_HOST_COPY_TREE_H
#define KODA_HOST_COPY_TREE_H

#include "shared/base/err.h"

/* Make the directory and those on the way to it. Returns 0, or -1 with *err set. */
int tree_make(const char *path, struct koda_error *err);
/* Remove the directory and all that is in it: it is renamed first, so that it is either all there, or
 * gone to a name that only the next call with this id knows. Does nothing if neither exists. Returns
 * 0, or -1 with *err set. */
int tree_remove(const char *path, const char *id, struct koda_error *err);
/* Remove the git directory in common/worktrees that belongs to the worktree at `tree`. Otherwise like
 * tree_remove(). */
int tree_remove_private(const char *common, const char *tree, const char *id,
    struct koda_error *err);

#endif
