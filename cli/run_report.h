/* What is told about a command that is over: violations behind its standard error, one object with
 * --json, more with --verbose. */
#ifndef KODA_CLI_RUN_REPORT_H
#define KODA_CLI_RUN_REPORT_H

#include "cli/command.h"

struct run_subject {
	const struct cli *cli;
	const char *root;
	const char *const *argv; /* as it was run */
	const char *shell;       /* instead of argv */
	const char *cwd;
};

/* The block for a model, on standard error, of all that the slot's sandbox refused; nothing when there
 * is none. */
void run_report_violations(const struct koda_slot *slot);
/* Connections that were allowed and did not come about, in words: clients tell a number. */
void run_report_failures(struct koda_slot *slot);
/* The object. Returns the exit status of having printed it. */
int run_report_json(const struct run_subject *subject, struct koda_slot *slot,
    const struct koda_command_result *result);
/* --verbose: before it starts, and after it. */
void run_report_environment(const struct run_subject *subject);
void run_report_times(const struct koda_command_result *result);
/* What ended it, when it did not just exit: a line on standard error. */
void run_report_limit(const struct koda_command_result *result);

#endif
