/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports to the host what a command was refused, up to a number of times per second: a command
 * that tries in a loop must not fill the host's socket. The others are counted, and that number is
 * reported before the end of a command is.
 */
#ifndef KODA_STAGE2_REFUSALS_H
#define KODA_STAGE2_REFUSALS_H

#include "stage2/stage2.h"

/* Of each kind. More would tell a reader nothing new. */
#define REFUSALS_PER_SECOND 16

struct refusals {
	Koda__EventKind kind;
	uint64_t second; /* the second that `told` counts */
	unsigned told;
	uint64_t untold;
};

void refusals_tell(struct stage2 *s, struct refusals *r, const char *target);
void refusals_tell_untold(struct stage2 *s, struct refusals *r);

#endif
