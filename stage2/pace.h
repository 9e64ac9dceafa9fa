/*
 * When the memory and the processes of a slot are measured again. Pure: times and numbers in, an answer out.
 *
 * A measurement costs time that the commands could use, so far from the limit there are few. Between two of them a
 * cheap look at the whole machine (how much memory processes have taken, how many process numbers were given out) says
 * whether the slot could have come near its limit meanwhile.
 */
#ifndef KODA_STAGE2_PACE_H
#define KODA_STAGE2_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that processes can fill in a nanosecond: several cores that clear huge pages. */
#define PACE_BYTES_PER_NS 8
/* Between two looks. A limit is passed by no more than is filled in the shortest time, and a measurement. */
#define PACE_LOOK_MIN_NS UINT64_C(5000000)
#define PACE_LOOK_MAX_NS UINT64_C(1000000000)
/* A fork takes some 50 microseconds; twice as long as that makes a thousand of them on two cores. */
#define PACE_LOOK_TASKS_NS UINT64_C(25000000)
/* Measurements take at most one part in so many of a processor: while nothing happens, while half of the limit is used,
 * and when half of the rest may be gone. Near the limit the look at the machine is not enough: memory that other programs
 * free meanwhile hides as much that the slot takes. */
#define PACE_CALM_SHARE  100
#define PACE_NEAR_SHARE  20
#define PACE_ALARM_SHARE 4
/* Without a reason there is still one so often: others may have freed what the slot took. */
#define PACE_CALM_MAX_NS UINT64_C(30000000000)

/* What the machine says at little cost. */
struct pace_look {
	uint64_t taken; /* bytes, by all processes */
	uint64_t
	    forks; /* the last process number of the slot that was given out; it wraps around */
};

/* ns of a processor. Commands can make the whole of a measurement slow; that must not put off the cheap first part, which
 * is enough to find what is far above the limit. */
struct pace_cost {
	uint64_t first, whole;
};

struct pace {
	uint64_t bytes_max, tasks_max; /* 0: no limit */
	bool measured;
	uint64_t bytes, tasks; /* at the last measurement */
	struct pace_look then;
	uint64_t at; /* ns: when it ended */
	struct pace_cost cost;
};

/* After a measurement that ended then; `look` is from before it. */
void pace_measured(struct pace *p, uint64_t bytes, uint64_t tasks, const struct pace_look *look,
    uint64_t ended, const struct pace_cost *cost);
/* No command runs any more: of what was measured only the bytes that stay say something about the next one. */
void pace_rest(struct pace *p, uint64_t kept);
/* Is it time for a measurement, or its first part? */
bool pace_is_due(const struct pace *p, const struct pace_look *look, uint64_t now);
/* How long until the next look, in ns. */
uint64_t pace_next(const struct pace *p);

#endif
