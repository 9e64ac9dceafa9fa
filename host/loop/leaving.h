/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killed processes that are not reaped yet. The function that kills a process does not wait for its
 * end; the session's loop reaps the process when it runs.
 */
#ifndef KODA_HOST_LOOP_LEAVING_H
#define KODA_HOST_LOOP_LEAVING_H

#include "shared/wire/spawn.h"

#define LEAVING_MS 2000 /* how long to wait for killed processes where that cannot be avoided */

struct leaving {
	struct child *v;
	size_t n;
};

/* Takes over a killed process that has to be reaped. Does not wait, unless memory is short. */
void leaving_adopt(struct leaving *leaving, struct child *child);
/* Reap the processes that are gone; wait at most timeout_ms for all of them together. */
void leaving_reap(struct leaving *leaving, int timeout_ms);
/* In a forked child: forget the processes, which the parent has to reap. */
void leaving_abandon(struct leaving *leaving);
void leaving_done(struct leaving *leaving);

#endif
