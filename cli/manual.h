/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual page of a command, in mdoc(7), from the rows that --help prints. koda-sandbox(1), which is
 * written by hand, explains what the commands have in common. Pure.
 */
#ifndef KODA_CLI_MANUAL_H
#define KODA_CLI_MANUAL_H

#include <stdio.h>

#include "cli/command.h"

#define MANUAL_NAME_MAX 64

/* Returns buf with the name of the page: "koda-sandbox-draft-apply.1". */
const char *manual_name(const struct subcommand *command, char buf[MANUAL_NAME_MAX]);

/* date: "November 20, 2026". */
void manual_page(FILE *f, const struct subcommand *command, const char *date);

#endif
