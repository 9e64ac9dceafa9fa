/*
 * What the parts of the benchmark agree on. A row races ours against its floor; the rows of a group share what is
 * set up for them; report.c tells all of them alike.
 */
#ifndef KODA_BENCH_BENCH_H
#define KODA_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include <koda/sandbox.h>

#include "bench/measure.h"

struct setting {
	const char
	    *root; /* of the group: canonical, the working directory, empty before its make */
	const char *program, *helpers; /* koda-sandbox, and the directory of its helpers */
	const char *peers;             /* where npm put them */
	bool brief;
};

struct row {
	const char *name, *unit;
	double scale; /* from ns, or from units a second */
	struct race race;
	/* Of the ratio; 0: reported only; below: how far above the floor ours may be, in `unit`. */
	double reach;
	unsigned min;      /* batches, however long they take */
	double reach_ours; /* of ours, in `unit`, instead; 0: reported only */
};

/* A figure without a floor, of many alike. */
struct value {
	const char *name, *unit;
	struct figure figure;
	bool has; /* false: not to be seen by this user */
	double reach;
};
#define VALUES_MAX 4

struct group {
	const char *name;
	const struct row *rows;
	size_t n_rows;
	/* Once, before all: what is on disk. Ends the program when it cannot. */
	void (*make)(const struct setting *set);
	/* What lives in processes, which stay on the processor where they are started. -1: said why. */
	int (*start)(void);
	void (*stop)(void);
	/* After start; at most VALUES_MAX, the number is returned. May be NULL. */
	size_t (*measure)(struct value *ret);
	/* Why a row cannot be run here, which is no failure then; NULL: it can. May be NULL: all have to. */
	const char *(*missing)(const struct row *row);
};

extern const struct group file_group, search_group, filter_group, command_group, network_group,
    mcp_group, peer_group, proxy_group, mcp_peer_group;

/* For the peers: command_group's make, and its exec_cold. */
void command_make(const struct setting *set);
int command_cold(void *data);

int complain_error(const char *what, const struct koda_error *e); /* -1 */

/* These end the program when they cannot. */
void put_file(const char *name, const void *data, size_t len);
void copy_program(const char *from, const char *to);

#endif
