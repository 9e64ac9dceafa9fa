/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a command: reading it as it comes, and the denials found in it. */
#ifndef KODA_HOST_COMMAND_COMMAND_OUTPUT_H
#define KODA_HOST_COMMAND_COMMAND_OUTPUT_H

#include "host/command/state.h"

/* Read what has come, and watch for more. */
void command_read_output(struct command_output *out);
void command_on_output(struct source *source); /* for the loop */
/* All processes of the command are gone. What is left in the pipe is all there will be, even if
 * another process still holds the other end. */
void command_drain(struct koda_command *c, struct command_output *out);
/* Record the denials in its standard error as violations that are not certain. */
void command_find_denials(struct koda_command *c);

#endif
