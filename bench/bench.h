/*
 * Declarations that the parts of the benchmark share. A row races ours against its floor; the rows
 * of a group share their setup; report.c reports all of them in the same way.
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
	const char *peers;             /* where npm installed them */
	bool brief;
};

struct row {
	const char *name, *unit;
	double scale; /* from ns, or from units a second */
	struct race race;
	/* Goal for the ratio. 0: reported only. Negative: by how much ours may exceed the floor, in
	 * `unit`. */
	double reach;
	unsigned min;      /* batches, however long they take */
	double reach_ours; /* instead: goal for ours, in `unit`; 0: reported only */
};

/* A figure without a floor. */
struct value {
	const char *name, *unit;
	struct figure figure;
	bool has; /* false: this user cannot see it */
	double reach;
};
#define VALUES_MAX 4

struct group {
	const char *name;
	const struct row *rows;
	size_t n_rows;
	/* Called once, first: makes what is on disk. Ends the program on failure. */
	void (*make)(const struct setting *set);
	/* Starts the processes, which stay on the processor where they are started. Returns 0,
	 * or -1 after printing why. */
	int (*start)(void);
	void (*stop)(void);
	/* Called after start. Returns the number of values, at most VALUES_MAX. May be NULL. */
	size_t (*measure)(struct value *ret);
	/* Returns why a row cannot run here, which is then not a failure, or NULL if it can. May be
	 * NULL: every row must run. */
	const char *(*missing)(const struct row *row);
};

extern const struct group file_group, search_group, filter_group, command_group, network_group,
    mcp_group, peer_group, proxy_group, mcp_peer_group;

/* command_group's make and its exec_cold, for the groups that compare with other programs. */
void command_make(const struct setting *set);
int command_cold(void *data);

int complain_error(const char *what, const struct koda_error *e); /* -1 */

/* These end the program on failure. */
void put_file(const char *name, const void *data, size_t len);
void copy_program(const char *from, const char *to);

#endif
