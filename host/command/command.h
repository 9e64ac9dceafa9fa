/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command's life: requested, approved, executed by stage2, output captured, deadline kept,
 * ended, the project compared, over. Every command ends exactly once, with a result or with the
 * reason why its result is not known.
 *
 *	ASKING -> RUNNING -> COMPARING -> OVER
 */
#ifndef KODA_HOST_COMMAND_COMMAND_H
#define KODA_HOST_COMMAND_COMMAND_H

#include "host/command/state.h"

/* In this order: stage2 sent a report about the command; the sandbox died, and is built again to
 * compare what the command left; the slot is freed. */
void command_report(struct koda_command *c, const Koda__Report *report);
void command_lost(struct koda_command *c, const struct koda_error *why);
void command_closed(struct koda_command *c, const struct koda_error *why);
/* The host took away something at that path, which this command, or a command of one of so many
 * neighbours, may have planted. If that happens too often, the command is ended. */
void command_planted(struct koda_command *c, const char *path, size_t neighbours);
/* The slot ends. command_cut_short() kills the command (its Exited is still to come);
 * command_compared() reports that the last comparison is done. */
void command_cut_short(struct koda_command *c, const struct koda_error *why);
void command_compared(struct koda_command *c);
/* Handle deadlines that have passed. Returns false if the sandbox had to be killed for that: no
 * command runs any more, and others may have been freed. */
bool command_tick(struct koda_command *c, uint64_t now);
uint64_t command_next_time(const struct koda_command *c);

/* Ask for approval of it. */
void command_ask(struct koda_command *c);
/* The answer. */
void command_answer(struct koda_command *c, bool yes);

/* For the public calls: end it with that error; free it. */
void command_fail(struct koda_command *c, const struct koda_error *why);
void command_destroy(struct koda_command *c);

#endif
