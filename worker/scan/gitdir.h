/* SPDX-License-Identifier: Apache-2.0 */
/* Small tests on the content of a git directory. */
#ifndef KODA_WORKER_SCAN_GITDIR_H
#define KODA_WORKER_SCAN_GITDIR_H

#include <stdbool.h>

#include "shared/base/bytes.h"

/* Returns true if `name` is a link to a ref of the same git directory, as git makes it with
 * core.preferSymlinkRefs: "refs/..." without a step up. The link's own directory decides where that
 * is read from, so call this only for HEAD and for names below refs. */
bool gitdir_is_ref_link(int dir_fd, const char *name);

/* Returns true if `name` is the link that `git init` makes and removes to find out whether it can
 * make links. git reads nothing by such a name. */
bool gitdir_is_trial_link(int dir_fd, const char *name);

/* Returns true if the canonical path is REPOSITORY/worktrees/NAME, where git keeps the data of a
 * linked worktree, and stores REPOSITORY. */
bool gitdir_of_worktree(const char *dir, char ret_repository[PATH_LEN_MAX + 1]);

/* Finds the path in the text of a gitfile ("gitdir: PATH"). Returns false if the text is not a
 * gitfile. */
bool gitdir_of_gitfile(const char *text, size_t len, size_t *ret_start, size_t *ret_len);

#endif
