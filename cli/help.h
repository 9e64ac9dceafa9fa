/* SPDX-License-Identifier: Apache-2.0 */
/* What --help prints, from the rows of the commands and of their options. Pure. */
#ifndef KODA_CLI_HELP_H
#define KODA_CLI_HELP_H

#include <stdio.h>

#include "cli/command.h"

void help_command(FILE *f, const struct subcommand *command);
/* group NULL: all commands. */
void help_overview(FILE *f, const char *group);

#endif
