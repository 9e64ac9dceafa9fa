/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what one command has planted. A command is ended when something of it is taken away a
 * second time at the same path, or when it plants too much. What a neighbour planted there looks
 * the same, so with neighbours it is ended later, also if they are gone by then. Pure: the caller
 * decides which commands that concerns, and ends them.
 */
#ifndef KODA_HOST_PROTECT_PLANTED_H
#define KODA_HOST_PROTECT_PLANTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit for one command. A clone of a large project with editor settings in each directory stays
 * below it; a loop does not. */
#define PLANTED_MAX 1000u
/* How many more times something may be taken away at one path for each neighbour. */
#define PLANTED_BY_NEIGHBOUR 4u

struct planted {
	struct planted_at {
		uint64_t path; /* its checksum */
		unsigned times;
		size_t neighbours; /* the most there were when something was taken away */
	} * at;
	size_t n, size;
	unsigned taken;
	bool over;
};

void planted_done(struct planted *p);

/* Record that something was taken away at that path, where commands of so many neighbours may plant
 * as well. Returns true once the command has to end. */
bool planted_add(struct planted *p, const char *path, size_t neighbours);

/* Returns how many more things may be kept in quarantine. */
unsigned planted_left(const struct planted *p);

#endif
