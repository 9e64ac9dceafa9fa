/*
 * Finishing what a killed session could not: a worker compares its directories by its rules, from its journal, and takes away what
 * its commands planted. Before a new slot looks at anything, and whatever the new session's root, rules or mode are.
 */
#ifndef KODA_HOST_PROTECT_RECOVERY_H
#define KODA_HOST_PROTECT_RECOVERY_H

#include "host/slot/slot.h"

/* What the worker is sealed with beside the policy. */
struct recovery_seal {
	int quarantine_fd;
	char **cache;
	size_t n_caches;
};

/*
 * For a new slot: those journals whose directories overlap with what it may read as its root, or write. What is found is among
 * the slot's violations, or without commands told by an event. -1 with *err set: there is one that cannot be finished, and no
 * command may run where nobody knows what is planted.
 */
int recovery_run(struct koda_slot *slot, struct koda_error *err);

#endif
