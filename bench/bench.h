/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the parts of the benchmark share. A row times our code against its floor, which
 * is the same work done without our code. The rows of a group share their setup. report.c prints
 * all rows in the same way.
 */
#ifndef KODA_BENCH_BENCH_H
#define KODA_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include <koda/sandbox.h>

#include "bench/measure.h"

struct setting {
	const char *root; /* the group's working directory: canonical, empty before make() */
	const char *program, *helpers; /* koda-sandbox, and the directory of its helpers */
	const char *peers;             /* what tools/bench-peers installed; may be NULL */
	bool brief;
};

struct row {
	const char *name, *unit;
	double scale; /* factor from ns, or from amount per second, to `unit` */
	struct race race;
	/* Goal for the ratio of ours to the floor. 0: no goal. Negative: ours may exceed the floor
	 * by this much, in `unit`. */
	double reach;
	unsigned min;      /* run at least so many batches, however long they take */
	double reach_ours; /* goal for ours itself, used instead of `reach`; 0: none */
};

/* A figure that has no floor. */
struct value {
	const char *name, *unit;
	struct figure figure;
	bool has; /* false: it could not be measured, or this user may not read it */
	double reach;
};
#define VALUES_MAX 4

struct group {
	const char *name;
	const struct row *rows;
	size_t n_rows;
	/* Creates the group's files on disk. Called once, before start(). Ends the program on
	 * failure. */
	void (*make)(const struct setting *set);
	/* Starts the processes, which inherit the processor affinity of this one. Returns 0, or -1
	 * after printing why. */
	int (*start)(void);
	void (*stop)(void);
	/* Stores the group's values in ret, at most VALUES_MAX, and returns their number. Called
	 * after start(). May be NULL. */
	size_t (*measure)(struct value *ret);
	/* Returns why a row cannot run here, or NULL if it can. A group that has this function
	 * never makes the benchmark fail. May be NULL: every row must run. */
	const char *(*missing)(const struct row *row);
};

extern const struct group file_group, search_group, filter_group, command_group, draft_group,
    change_group, network_group, mcp_group, peer_group, change_peer_group, proxy_group,
    mcp_peer_group;

/* make() of command_group and the step of its row exec_cold, for groups that compare with them. */
void command_make(const struct setting *set);
int command_cold(void *data);

/* Prints the error. Returns -1. */
int complain_error(const char *what, const struct koda_error *e);

/* These end the program on failure. */
void put_file(const char *name, const void *data, size_t len);
void copy_program(const char *from, const char *to);

#endif
