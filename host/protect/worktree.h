/*
 * A project that is a linked worktree or a submodule: its `.git` is a file, and what git writes on a commit is elsewhere. That
 * place may be written by commands, with its configuration and hooks protected like those of the project itself.
 *
 * What a project's files say grants nothing by itself: the place has to point back to exactly this project, which
 * nobody could write there who could not write there anyway.
 */
#ifndef KODA_HOST_PROTECT_WORKTREE_H
#define KODA_HOST_PROTECT_WORKTREE_H

#include <stdbool.h>

#include "shared/base/err.h"

/* The git directory that the worktree at root (canonical) belongs to, canonical, the caller's to free; NULL if root is
 * none, or says so without being it, or memory is short. */
char *worktree_git_dir(const char *root);
/* Has the directory (canonical) the shape of a git directory, as a bare repository has? */
bool worktree_is_git_dir(const char *dir);

#endif
