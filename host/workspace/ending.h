/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a slot that has run commands: all of its commands are ended, then what they left is
 * compared a last time, before anything of the slot is removed. A command could plant something in
 * its last moment, and what runs on the host afterwards must not find that.
 */
#ifndef KODA_HOST_WORKSPACE_ENDING_H
#define KODA_HOST_WORKSPACE_ENDING_H

#include "host/slot/slot.h"

/*
 * Time limit for everything: ending the commands and the last comparison, for all slots of a
 * session that closes. A service manager gives a service about ten seconds before it uses force,
 * and SIGKILL would leave no comparison at all. A comparison with watches takes milliseconds;
 * walking a million names, without watches from the kernel, takes two seconds.
 */
#define ENDING_MS 9000

/*
 * Ends the slot's commands and compares a last time. Waits. Only the first call for a slot does
 * anything. What the comparison finds is recorded as violations of the slot; unless `quietly`, it
 * is also reported by events, because the violations can no longer be queried. Returns 0, or -1 if
 * the comparison did not finish in time or failed: an event reports that, and the next session has
 * to do it.
 */
int ending_run(struct koda_slot *slot, bool quietly, struct koda_error *err);

#endif
