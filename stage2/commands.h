/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins, signals and ends commands: by order, or because the slot is over a limit. stage2/reap
 * notices how a command ends.
 */
#ifndef KODA_STAGE2_COMMANDS_H
#define KODA_STAGE2_COMMANDS_H

#include "stage2/command_table.h"

/* Carry out an order and queue its report. fds stay the caller's. */
void commands_exec(struct stage2 *s, uint64_t id, const Koda__Exec *order, const int fds[3]);
void commands_signal(struct stage2 *s, uint64_t id, const Koda__Signal *order);
void commands_end(struct stage2 *s, uint64_t id, const Koda__End *order);

/*
 * Signals the foreground processes of a command that has begun, or all of them. Returns true if any
 * process got the signal.
 */
bool commands_send_signal(struct stage2 *s, const struct exec_slot *slot, int signo, bool all);

/* End the command that uses most, by the `resident` or the threads of its processes. Returns
 * false if there is none to end. */
bool commands_end_largest(struct stage2 *s, struct procs *p, const struct commands_limit *limit);

#endif
