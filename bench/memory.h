/*
 * What processes hold, as /proc tells. The smaps of a process that is not dumpable, as all of ours are, are root's: an
 * ordinary user sees its anonymous pages only.
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

/* Adds the process to *m; what cannot be seen of it makes the sum unknown. */
void memory_add(struct memory *m, int pid);

/* A child of this process whose name begins so, and that is not `other`; 0: there is none. */
int memory_child(const char *name, int other);

/* Each child of this process that is called `name`, with all that descends from it. Returns how many there are, of
 * which at most max are in ret. */
size_t memory_of_families(const char *name, struct memory *ret, size_t max);

#endif
