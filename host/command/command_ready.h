/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a slot ready to run a command. */
#ifndef KODA_HOST_COMMAND_COMMAND_READY_H
#define KODA_HOST_COMMAND_COMMAND_READY_H

#include "host/slot/state.h"

/* Starts the sandbox and the worker again and mounts the view again, if they have died since the
 * last command. Does nothing if the slot has no sandbox. Returns 0, or -1 with *err set. */
int command_make_ready(struct koda_slot *slot, struct koda_error *err);

#endif
