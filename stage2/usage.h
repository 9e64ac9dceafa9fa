/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the slot uses: the memory of all its processes together (shared memory counted once), what
 * is in its private file systems, and the number of tasks (processes and threads). File pages that
 * the kernel can drop do not count.
 *
 * There are three measurements. usage_bound() is cheap, and never too low for what is in an address
 * space. usage_least() is nearly as cheap, and never too high. usage_exact() shares out what
 * several processes have in common. If the slot has shared memory or a socket, the growth of the
 * machine's shared memory counts too, except in usage_least(): an object may be partly unmapped, or
 * on its way through a socket. None of them sees the kernel's own memory: buffers of sockets, page
 * tables.
 */
#ifndef KODA_STAGE2_USAGE_H
#define KODA_STAGE2_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "stage2/meter.h"

/* A process is small if it has less than this part of the limit. usage_least() skips small
 * processes, so that hundreds of them do not delay measuring the large ones. */
#define USAGE_SMALL_SHARE 64

struct usage {
	uint64_t bytes, tasks;
	/* Of the bytes: in private file systems, where they stay when processes end. */
	uint64_t kept;
	/* Of the bytes: of processes that still existed at the end. Set by usage_exact(). */
	uint64_t sure;
};

/*
 * These measure the processes in *p for which counts() is true.
 *
 * usage_exact() begins with the largest process and stops when it is clear whether the slot is over
 * the limit. It sets the `resident` of each process that it measured to its share. A process that
 * ends during the measurement counts with all that it had, because it may have passed that on to a
 * process that is not in *p. So `bytes` can be too high; `sure` cannot.
 *
 * usage_least() sets the `least` of each process that is not small: its memory that is neither of
 * files nor shared memory. Two processes have such memory in common only if they were forked from
 * the same process and have not called execve since. Then their stacks begin at the same address,
 * which execve chooses at random. So of the processes with the same address only the largest
 * counts, or what each has taken since usage_bound() or usage_least() first saw it.
 */
typedef bool usage_counts_fn(void *data, const struct proc *p);
void usage_bound(struct meter *m, const struct meter_machine *machine, struct procs *p,
    usage_counts_fn *counts, void *data, struct usage *ret);
void usage_least(struct meter *m, const struct meter_machine *machine, struct procs *p,
    uint64_t limit, usage_counts_fn *counts, void *data, struct usage *ret);
void usage_exact(struct meter *m, const struct meter_machine *machine, struct procs *p,
    uint64_t limit, usage_counts_fn *counts, void *data, struct usage *ret);

#endif
