/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the git repository that a root is in, without git: whose command would follow the project's
 * configuration. It is found upwards from the root as git does, but only this user's directories
 * count, and a `.git` that is a file only if the other place confirms it (host/sandbox/worktree).
 */
#ifndef KODA_HOST_COPY_REPOSITORY_H
#define KODA_HOST_COPY_REPOSITORY_H

#include "shared/base/err.h"

struct repository {
	char *top;    /* the directory with `.git`; the root or a directory above it */
	char *prefix; /* the root below it: "", or "dir/dir" */
	char *git;    /* the git directory with the HEAD of the top */
	char *common; /* the git directory that all worktrees share */
};

void repository_done(struct repository *r);
/* root: canonical. Returns 0 with *ret, or -1 with *err set: KODA_INVALID if it is not in a
 * repository that can have worktrees. */
int repository_find(const char *root, struct repository *ret, struct koda_error *err);

#endif
