/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All commands of a slot: what the sandbox and the protection ask of them, their deadlines, and the
 * comparisons that they need while they run.
 */
#ifndef KODA_HOST_COMMAND_COMMANDS_H
#define KODA_HOST_COMMAND_COMMANDS_H

#include "host/command/state.h"
#include "host/protect/protect_state.h"

/* Both get a struct commands. */
extern const struct sandbox_client commands_of_sandbox;
extern const struct protect_client commands_of_protect;

/* The slot is freed: end every command that is not over. */
void commands_close(struct commands *cs);
/* In a forked child: release them without touching the parent's processes. */
void commands_abandon(struct commands *cs);

/* Handle deadlines that have passed. */
void commands_tick(struct commands *cs);
uint64_t commands_next_time(const struct commands *cs);

#endif
