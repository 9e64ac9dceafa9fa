/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands for drafts and for the history share. */
#ifndef KODA_CLI_DRAFT_CMD_H
#define KODA_CLI_DRAFT_CMD_H

#include "cli/draft_open.h"
#include "cli/job.h"

/* Returns EXIT_DONE, or in plan mode the status after printing why. what: "apply a draft". */
int draft_refuse_plan(const struct cli *cli, const char *what);

/*
 * Converts the user's paths and globs to the library's. Returns EXIT_DONE, or the status after
 * printing why; call draft_paths_done() in either case.
 */
int draft_paths(struct job *job, char **words, char ***ret, size_t *ret_n);
void draft_paths_done(char **paths, size_t n);

/* Applies, and reports each change and the sum. Returns the exit status. */
int draft_apply(struct koda_draft *draft, const struct koda_apply_options *options,
    struct outcomes *o, const char *id);

#endif
