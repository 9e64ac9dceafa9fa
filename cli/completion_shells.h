/* SPDX-License-Identifier: Apache-2.0 */
/* One shell each. Every word and value has a kind; completion_write() checks that. */
#ifndef KODA_CLI_COMPLETION_SHELLS_H
#define KODA_CLI_COMPLETION_SHELLS_H

#include <stdio.h>

void completion_bash(FILE *f);
void completion_zsh(FILE *f);
void completion_fish(FILE *f);

#endif
