/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishes the comparison of a killed session: a worker compares the session's directories by the
 * rules in its journal, and takes away what its commands planted. This happens before a new slot
 * scans anything, whatever the new session's root, rules or mode are.
 */
#ifndef KODA_HOST_WORKSPACE_RECOVERY_H
#define KODA_HOST_WORKSPACE_RECOVERY_H

#include "host/slot/slot.h"

/* What the worker is sealed with in addition to the policy. */
struct recovery_seal {
	int quarantine_fd;
	char **cache;
	size_t n_caches;
};

/*
 * For a new slot: finishes the journals whose directories overlap with the slot's root or with what
 * it may write. What is found is recorded in the slot's violations or, for a slot without commands,
 * reported by an event. Returns 0, or -1 with *err set if a journal cannot be finished: no command
 * may run where planted files may be left.
 */
int recovery_run(struct koda_slot *slot, struct koda_error *err);

#endif
