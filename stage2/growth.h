/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory each process has taken itself. A process that was forked shares pages with its
 * parent, and no cheap number says how many. But all pages that it has gained since stage2 first
 * saw it are its own: it took them itself. A process that it forks later starts with them.
 */
#ifndef KODA_STAGE2_GROWTH_H
#define KODA_STAGE2_GROWTH_H

#include <stddef.h>
#include <stdint.h>

#include "stage2/procs.h"

/* The first size of the process is unknown. All memory that it has may belong to others. */
#define GROWTH_UNKNOWN UINT64_MAX

/* A process, and the bytes that it had when it was first seen. */
struct growth_first {
	pid_t pid;
	uint64_t start, bytes;
};

struct growth {
	struct growth_first *v;
	size_t n;
};

/* Set the `first` of each process in *p, and forget processes that are gone. `swapped`: the bytes
 * that the machine has swapped out, which may return to any process without being its own. */
void growth_note(struct growth *g, struct procs *p, uint64_t swapped);
void growth_done(struct growth *g);

#endif
