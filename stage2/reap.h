/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every process that dies in the slot is waited for here, and the start and the end of commands are
 * reported. A command whose reaper is gone is over: what it has left (stage2/strangers) is killed,
 * and this repeats until nothing is left. Only then is its end reported to the host.
 */
#ifndef KODA_STAGE2_REAP_H
#define KODA_STAGE2_REAP_H

#include "stage2/stage2.h"

/* Call this on SIGCHLD, and when the time returned by reap_timeout() has passed. */
void reap_look(struct stage2 *s);
/* The template reports that it could not begin a command. */
void reap_not_begun(struct stage2 *s);
/* Returns the time until reap_look() is due, in ms; -1 if only SIGCHLD makes it so. */
int reap_timeout(struct command_table *c);

#endif
