/* SPDX-License-Identifier: Apache-2.0 */
/* How a git directory and its worktree name each other. */
#ifndef KODA_WORKER_SCAN_WORKTREE_H
#define KODA_WORKER_SCAN_WORKTREE_H

struct scan;

/* Returns the canonical path of the directory whose files the index of a git directory lists, owned
 * by the caller, or NULL if there is none. */
char *worktree_of(struct scan *sc, int dir_fd, const char *git_dir);
/* Returns the canonical path of the git directory that a gitfile leads to, wherever it is, owned by
 * the caller. */
char *worktree_git_dir(struct scan *sc, int dir_fd, const char *dir);

#endif
