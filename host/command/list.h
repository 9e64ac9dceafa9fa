/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a slot's commands that are not over yet. */
#ifndef KODA_HOST_COMMAND_LIST_H
#define KODA_HOST_COMMAND_LIST_H

#include "host/command/state.h"

void list_link(struct koda_command *c);
void list_unlink(struct koda_command *c);

/* The command to blame for an event of the sandbox: the only one, or "" if there are or were
 * several. */
const char *list_blame(const struct commands *cs);
/* Does any command run, also one whose handle was freed? */
bool list_any_runs(const struct commands *cs);

#endif
