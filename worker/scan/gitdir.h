/* Small questions about what lies in a git directory. */
#ifndef KODA_WORKER_SCAN_GITDIR_H
#define KODA_WORKER_SCAN_GITDIR_H

#include <stdbool.h>

#include "shared/base/bytes.h"

/* Is that a link to a ref of the same git directory, as git makes it with core.preferSymlinkRefs: "refs/..." without a
 * step up? Where that is read from depends on the link's own directory, so ask only for HEAD and for what is in refs. */
bool gitdir_is_ref_link(int dir_fd, const char *name);

/* Is that what `git init` makes and removes to find out whether it can make links? git reads nothing by such a name. */
bool gitdir_is_trial_link(int dir_fd, const char *name);

/* Is that canonical path REPOSITORY/worktrees/NAME? There git keeps what is a linked worktree's own. */
bool gitdir_of_worktree(const char *dir, char ret_repository[PATH_LEN_MAX + 1]);

#endif
