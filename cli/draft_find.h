/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which draft, or which entry of the history, a user means: ids may be shortened as long as only one
 * has that beginning, and are found from any directory.
 */
#ifndef KODA_CLI_DRAFT_FIND_H
#define KODA_CLI_DRAFT_FIND_H

#include "cli/command.h"

#define FOUND_ID_MAX 64

struct draft_found {
	char id[FOUND_ID_MAX];
	/* KODA_WORKSPACE_WORKTREE or KODA_WORKSPACE_CLONE: it is a copy of the project, and no draft. */
	enum koda_workspace copy;
	char *root; /* to be freed */
};

/*
 * Finds the draft: of the root that --root names, or, without --root, of the current directory and
 * then of any root. Returns EXIT_DONE, or the status after printing why.
 */
int draft_find(const struct cli *cli, const char *given, struct draft_found *ret);
/* The same, also among copies. */
int draft_or_copy_find(const struct cli *cli, const char *given, struct draft_found *ret);
/* The same for an entry of the history. */
int history_find(const struct cli *cli, const char *given, struct draft_found *ret);

/* Returns "12 min ago" for a time in seconds since the epoch, and the time itself for a person. */
#define AGE_SIZE 32
const char *draft_age(double when, char buf[AGE_SIZE]);
const char *draft_time(double when, char buf[AGE_SIZE]);

#endif
