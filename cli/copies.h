/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a project (worktrees and clones) in the commands for drafts: their list, and what a user
 * decides on. A clone becomes a draft; on a worktree the user decides with git.
 */
#ifndef KODA_CLI_COPIES_H
#define KODA_CLI_COPIES_H

#include <jansson.h>

#include "cli/draft_find.h"
#include "cli/job.h"

/* Prints the copies of the root, or of all roots (NULL), or adds them to rows if it is not NULL.
 * Returns how many there are, or -1 with *err set. */
int copies_list(const char *root, json_t *rows, struct koda_error *err);

enum copies_do {
	COPIES_LOOK,
	COPIES_APPLY,
	COPIES_DISCARD,
};
/*
 * The user decides on a copy; the job has a session of its root, with commands. A clone is collected:
 * *found is the draft then, or its id is "" if there were no changes. With COPIES_DISCARD the copy is
 * removed, and its id is "". Returns EXIT_DONE, or the status after printing why; for a worktree that
 * tells the commands of git.
 */
int copies_decide(const struct job *job, enum copies_do what, struct draft_found *found);

#endif
