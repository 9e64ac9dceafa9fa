/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A git repository that a command made in a draft. It is applied if it makes git on the host do nothing
 * but what a new repository does: its configuration has only variables that worker/scan/gitvar.h knows
 * as inert, in a form with only one reading, and its hooks are git's samples.
 */
#ifndef KODA_WORKER_DRAFT_REPO_H
#define KODA_WORKER_DRAFT_REPO_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * May the file or directory `name` of dir_fd be part of such a repository, although the policy protects
 * names like that? below: its path in the git directory. For what the policy does not protect the
 * answer is false.
 */
bool repo_may_have(const char *below, int dir_fd, const char *name, mode_t type);

/* Does all that is protected in the open git directory (O_PATH) pass repo_may_have(), or is missing? */
bool repo_is_harmless(int git_dir);

#endif
