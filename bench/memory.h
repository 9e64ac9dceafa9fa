/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of processes, as /proc reports it. None of our processes is dumpable, so root owns
 * their smaps, and an ordinary user can read only the size of their anonymous memory.
 */
#ifndef KODA_BENCH_MEMORY_H
#define KODA_BENCH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct memory {
	double private, pss; /* KiB */
	bool has_private, has_pss;
};
#define MEMORY_EMPTY                                                                               \
	{                                                                                          \
		0, 0, true, true                                                                   \
	}

/* Add the memory of a process to *m. If a figure of the process cannot be read, m no longer has
 * that figure. */
void memory_add(struct memory *m, int pid);

/* Return the pid of a child of this process, other than `other`, whose name begins with `name`, or
 * 0 if there is none. */
int memory_child(const char *name, int other);

/* Measure each child of this process that is called `name`, with all its descendants. Stores the
 * first max results in ret. Returns the number of such children. */
size_t memory_of_families(const char *name, struct memory *ret, size_t max);

#endif
