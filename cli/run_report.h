/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports on a command that is over: violations after its standard error, one object with --json,
 * more with --verbose.
 */
#ifndef KODA_CLI_RUN_REPORT_H
#define KODA_CLI_RUN_REPORT_H

#include <jansson.h>

#include "cli/command.h"

struct run_subject {
	const struct cli *cli;
	const char *root;
	const char *const *argv; /* as it was run */
	const char *shell;       /* instead of argv */
	const char *cwd;
};

/*
 * Prints the block for a model, with everything that the slot's sandbox refused, on standard error;
 * nothing if nothing was refused.
 */
void run_report_violations(const struct koda_slot *slot);
/* Explains in words why connections that were allowed failed: clients print only a number. */
void run_report_failures(struct koda_slot *slot);
/* Returns the object for --json. */
json_t *run_report_json(const struct run_subject *subject, struct koda_slot *slot,
    const struct koda_command_result *result);
/* For --verbose: before the command starts, and after its end. */
void run_report_environment(const struct run_subject *subject);
void run_report_times(const struct koda_command_result *result);
/* Prints a line on standard error that says what ended it, unless it exited by itself. */
void run_report_limit(const struct koda_command_result *result);

#endif
