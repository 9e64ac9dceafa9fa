/*
 * Tells the host what a command was refused, so many times a second: a command that tries in a loop must not fill the
 * host's socket. The rest is counted, and the number told before the end of a command is.
 */
#ifndef KODA_STAGE2_REFUSALS_H
#define KODA_STAGE2_REFUSALS_H

#include "stage2/stage2.h"

#define REFUSALS_PER_SECOND 16 /* of each kind; more tell a reader nothing new */

struct refusals {
	Koda__EventKind kind;
	uint64_t second; /* in which `told` were told */
	unsigned told;
	uint64_t untold;
};

void refusals_tell(struct stage2 *s, struct refusals *r, const char *target);
void refusals_tell_untold(struct stage2 *s, struct refusals *r);

#endif
