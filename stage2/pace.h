/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the memory and the processes of a slot are measured again. Pure: takes times and
 * numbers, returns a decision.
 *
 * A measurement takes time that the commands could use, so there are few while the slot is far from
 * its limit. Between two measurements a cheap look at the whole machine (how much memory processes
 * have taken, how many process numbers were assigned) shows whether the slot could have come near
 * its limit.
 */
#ifndef KODA_STAGE2_PACE_H
#define KODA_STAGE2_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that processes can fill per nanosecond: several cores clearing huge pages. */
#define PACE_BYTES_PER_NS 8
/* Time between two looks. The slot can exceed its limit by what processes fill in the shortest
 * interval and during one measurement. */
#define PACE_LOOK_MIN_NS UINT64_C(5000000)
#define PACE_LOOK_MAX_NS UINT64_C(1000000000)
/* A fork takes some 50 microseconds, so two cores make a thousand processes in this time. */
#define PACE_LOOK_TASKS_NS UINT64_C(25000000)
/* Measurements take at most one part in SHARE of a processor: CALM normally, NEAR when half of
 * the limit is used, ALARM when half of the rest may be gone. Near the limit the look at the
 * machine is not enough: memory that other programs free meanwhile hides as much that the slot
 * takes. */
#define PACE_CALM_SHARE  100
#define PACE_NEAR_SHARE  20
#define PACE_ALARM_SHARE 4
/* Measure at least this often even without a reason: memory that other programs freed may hide
 * what the slot took. */
#define PACE_CALM_MAX_NS UINT64_C(30000000000)

/* What is cheap to read from the machine. */
struct pace_look {
	uint64_t taken; /* bytes, by all processes */
	/* The last process number assigned in the slot. It wraps around. */
	uint64_t forks;
};

/* In ns of processor time. Commands can make a whole measurement slow. That must not delay its
 * cheap first part, which is enough to find a slot far above its limit. */
struct pace_cost {
	uint64_t first, whole;
};

struct pace {
	uint64_t bytes_max, tasks_max; /* 0: no limit */
	bool measured;
	uint64_t bytes, tasks; /* at the last measurement */
	struct pace_look then;
	uint64_t at; /* ns: when that measurement ended */
	struct pace_cost cost;
};

/* Record a measurement that ended at `ended`. `look` was taken before it. */
void pace_measured(struct pace *p, uint64_t bytes, uint64_t tasks, const struct pace_look *look,
    uint64_t ended, const struct pace_cost *cost);
/* No command runs any more. Only the bytes that stay are kept for the next measurement. */
void pace_rest(struct pace *p, uint64_t kept);
/* Returns true if it is time for a measurement, or for its first part. */
bool pace_is_due(const struct pace *p, const struct pace_look *look, uint64_t now);
/* Returns the time until the next look, in ns. */
uint64_t pace_next(const struct pace *p);

#endif
