/*
 * Counts what one command has planted. A command is ended when something of it is taken away a
 * second time at the same path, or when it plants too much. Pure: the caller decides which commands
 * that concerns, and ends them.
 */
#ifndef KODA_HOST_PROTECT_PLANTED_H
#define KODA_HOST_PROTECT_PLANTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit for one command. A clone of a large project with editor settings in each directory stays
 * below it; a loop does not. */
#define PLANTED_MAX 1000u

struct planted {
	uint64_t *path; /* checksums of the paths at which something was taken away */
	size_t n, size;
	unsigned taken;
	bool over;
};

void planted_done(struct planted *p);

/* Record that something was taken away at that path. Returns true once the command has to end. */
bool planted_add(struct planted *p, const char *path);

/* Returns how many more things may be kept in quarantine. */
unsigned planted_left(const struct planted *p);

#endif
