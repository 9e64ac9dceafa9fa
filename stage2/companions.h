/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of ours that belong to no command and that stage2 waits for: the worker, the
 * searches, and the meter of stage2/quota.
 */
#ifndef KODA_STAGE2_COMPANIONS_H
#define KODA_STAGE2_COMPANIONS_H

#include <stdbool.h>
#include <sys/types.h>

/* The host has half as many; a killed one may not be reaped yet. */
#define STAGE2_SEARCHES_MAX 16

struct companions {
	pid_t worker;                      /* 0: none */
	pid_t meter;                       /* 0: none */
	pid_t search[STAGE2_SEARCHES_MAX]; /* 0: none */
};

/* Registers the worker. There is one at a time: a former one is killed. */
void companions_set_worker(struct companions *c, pid_t pid);
/* Registers a koda-fs-search. It is killed if there are too many. */
void companions_add_search(struct companions *c, pid_t pid);

/*
 * The process that measures for stage2/quota. There is one at a time. These functions register it,
 * kill it, and tell whether it still exists.
 */
void companions_set_meter(struct companions *c, pid_t pid);
void companions_end_meter(struct companions *c);
bool companions_is_metering(const struct companions *c);

/* Is this one of them? */
bool companions_has(const struct companions *c, pid_t pid);
/* It is gone. */
void companions_forget(struct companions *c, pid_t pid);

#endif
