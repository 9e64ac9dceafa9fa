/*
 * Time two ways of doing the same thing, in turns, so that other load on the machine affects both.
 * The caller decides what is measured and what it is compared with.
 */
#ifndef KODA_BENCH_MEASURE_H
#define KODA_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

struct figure {
	double p50, p99; /* of a rate p99 is what 99 of 100 samples reach */
};

/* Does it once. Returns 0, or -1 after printing why. */
typedef int step_fn(void *data);

struct race {
	step_fn *ours, *floor; /* floor may be NULL */
	step_fn *after;        /* runs after each of ours, not timed; may be NULL */
	void *data;
	unsigned batch;  /* steps of one side before it is the other's turn */
	unsigned repeat; /* steps timed as one, for steps as short as reading the clock */
	double amount; /* what one step does, for a rate a second; 0: the figures are times in ns */
	/* Where a step stores its duration in ns, if that is not the time from its begin to its
	 * end. */
	const double *measured;
};

struct outcome {
	struct figure ours, floor;
	size_t n; /* samples of ours */
};

/* Run for about `seconds`, but at least `min` batches of each. Returns 0, or -1 if a step
 * failed. */
int race_run(const struct race *race, double seconds, unsigned min, struct outcome *ret);

double now_seconds(void);

/* Pin this process, and all processes that it starts from now on, to the last processor that it may
 * use; or let it run on all of them again. */
int pin(bool one);

struct figure figure_of(double *samples, size_t n, bool rate);

#endif
