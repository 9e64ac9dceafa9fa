/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --no-sandbox: runs a command like any other program would, with the environment that it would
 * have in the sandbox. For debugging problems with the sandbox.
 */
#ifndef KODA_CLI_PLAIN_H
#define KODA_CLI_PLAIN_H

#include "cli/command.h"
#include "cli/plain_limits.h"

/*
 * Runs it. argv ends with NULL; tool selects the environment. Returns the exit status, after
 * reporting an error.
 */
int plain_run(const struct cli *cli, const char *const *argv, const char *tool, const char *cwd,
    const struct plain_limits *limits);

#endif
