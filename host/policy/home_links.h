/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the user's start-up files that are links into the project.
 *
 * Users who keep such files in a repository link each file, or a directory of files, from the home
 * directory. Directories in between, such as ~/.config/fish, may be real. A link may also name a
 * file that the project does not have on this branch.
 */
#ifndef KODA_HOST_POLICY_HOME_LINKS_H
#define KODA_HOST_POLICY_HOME_LINKS_H

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/rules/policy.h"

/* Limits for one place: entries, and levels of directories. */
#define HOME_LINKS_MAX   512
#define HOME_LINKS_DEPTH 3

/* If `place` is a link that leads into root, add its target to the list; with `below`, do the same
 * for each link in the directory `place`. Unreadable directories are skipped. -1: no memory, or the
 * list is full. */
int home_links_add(struct policy_list *list, const char *place, bool below, const char *root,
    struct koda_error *err);

#endif
