/*
 * The memory of processes, as /proc reports it. None of our processes is dumpable, so their smaps
 * belong to root: an ordinary user sees only their anonymous pages.
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

/* Add the process to *m. If a figure of it cannot be read, that sum becomes unknown. */
void memory_add(struct memory *m, int pid);

/* Return a child of this process, other than `other`, whose name begins with `name`; 0: none. */
int memory_child(const char *name, int other);

/* Measure each child of this process that is called `name`, with all its descendants. Returns the
 * number of such children; at most max of them are in ret. */
size_t memory_of_families(const char *name, struct memory *ret, size_t max);

#endif
