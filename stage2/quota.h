/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the slot as a whole: memory and tasks of all commands together, where no cgroup
 * enforces them. The command that uses most is ended. Nothing happens while no command runs.
 */
#ifndef KODA_STAGE2_QUOTA_H
#define KODA_STAGE2_QUOTA_H

#include "stage2/stage2.h"

struct quota;

/* Returns the limits that Boot names. NULL with err->code KODA_OK if it names none; NULL with
 * *err set on failure. */
struct quota *quota_new(const struct stage2 *s, const Koda__Boot *boot, struct koda_error *err);

/* Returns the time until quota_look() is due, in ms, or -1 if there is nothing to measure. q may
 * be NULL, here and below. */
int quota_timeout(struct quota *q, const struct command_table *c);
/* If it is time, measure, and end the largest command if the slot is over a limit. */
void quota_look(struct stage2 *s);

#endif
