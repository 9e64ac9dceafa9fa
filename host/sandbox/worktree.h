/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the git directory of a project that is a linked worktree or a submodule: its `.git` is a
 * file, and git writes commits elsewhere. Commands may write there, with its configuration and
 * hooks protected like those of the project itself.
 *
 * A project's own files grant nothing: the other place has to point back to exactly this project,
 * and a process could write that only if it could already write there.
 */
#ifndef KODA_HOST_SANDBOX_WORKTREE_H
#define KODA_HOST_SANDBOX_WORKTREE_H

#include <stdbool.h>

#include "shared/base/err.h"

/* Returns the canonical git directory that the worktree at root (canonical) belongs to, for the
 * caller to free. NULL if root is not a worktree, if the git directory does not confirm it, or
 * without memory. */
char *worktree_git_dir(const char *root);
/* The same for the directory with the worktree's own HEAD: below the other one, or that one. */
char *worktree_own_dir(const char *root);
/* Returns true if the directory (canonical) has the shape of a git directory, like a bare
 * repository. */
bool worktree_is_git_dir(const char *dir);
/* Returns true if root (canonical) has no repository of its own, and git finds one in a directory
 * above it. git does not look on another file system. */
bool worktree_is_below(const char *root);

#endif
