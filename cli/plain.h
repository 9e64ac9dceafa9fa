/* --no-sandbox: a command as any program would run it, with the environment that it would have in the
 * sandbox. For debugging what the sandbox does to it. */
#ifndef KODA_CLI_PLAIN_H
#define KODA_CLI_PLAIN_H

#include "cli/command.h"
#include "cli/plain_limits.h"

/* argv ends with NULL; tool chooses the environment. Returns the exit status, an error told. */
int plain_run(const struct cli *cli, const char *const *argv, const char *tool, const char *cwd,
    const struct plain_limits *limits);

#endif
