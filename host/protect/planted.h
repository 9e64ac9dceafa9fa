/*
 * How much one command has planted: what it lets be taken away a second time at the same path, or too much of it, ends
 * it. Pure: which commands that concerns, and how they are ended, is the caller's.
 */
#ifndef KODA_HOST_PROTECT_PLANTED_H
#define KODA_HOST_PROTECT_PLANTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one command: a clone of a large project with settings of editors in each directory stays below, a loop does not. */
#define PLANTED_MAX 1000u

struct planted {
	uint64_t *path; /* sums of the paths at which something was taken away */
	size_t n, size;
	unsigned taken;
	bool over;
};

void planted_done(struct planted *p);

/* Something was taken away at that path. True from the moment on when the command has to end. */
bool planted_add(struct planted *p, const char *path);

/* How many more may be kept in quarantine. */
unsigned planted_left(const struct planted *p);

#endif
