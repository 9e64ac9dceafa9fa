/*
 * The end of a slot that has run commands: they are ended, all of them, and then what they left is compared a last time, before
 * anything of the slot goes away. A command could plant something in its last moment; what runs after it on the host
 * must not find that.
 */
#ifndef KODA_HOST_PROTECT_ENDING_H
#define KODA_HOST_PROTECT_ENDING_H

#include "host/slot/slot.h"

/*
 * All of it: ending the commands, the last comparison, all slots of a session that closes. Whoever stops a service gives it
 * about ten seconds before it uses force, and SIGKILL would leave no comparison at all. One that has watches takes
 * milliseconds; a walk of a million names, which the kernel has no watches for, takes two seconds.
 */
#define ENDING_MS 9000

/*
 * Once a slot; the second time does nothing. Waits. quietly: what the last comparison finds is among the slot's
 * violations; else it is told by an event too, because nobody can ask for them any more. -1: it was not finished in
 * time, or could not be done; the next session has to, and that was said.
 */
int ending_run(struct koda_slot *slot, bool quietly, struct koda_error *err);

#endif
