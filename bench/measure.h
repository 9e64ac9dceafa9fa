/*
 * Time two ways of doing the same thing, in turns, so that what the machine does meanwhile happens to
 * both. Knows numbers; what is measured, and what it is held against, is the caller's.
 */
#ifndef KODA_BENCH_MEASURE_H
#define KODA_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

struct figure {
	double p50, p99; /* of a rate p99 is what 99 of 100 samples reach */
};

/* Does it once. 0, or -1 after it has said why. */
typedef int step_fn(void *data);

struct race {
	step_fn *ours, *floor; /* floor may be NULL */
	step_fn *after;        /* follows each of ours, outside of the clock; may be NULL */
	void *data;
	unsigned batch; /* steps of one side before it is the other's turn */
	unsigned
	    repeat;    /* steps that are timed as one: for what is as short as reading the clock */
	double amount; /* what one step does, for a rate a second; 0: the figures are times in ns */
	/* Where a step leaves what it took, in ns, when that is not the time from its begin to its end. */
	const double *measured;
};

struct outcome {
	struct figure ours, floor;
	size_t n; /* samples of ours */
};

/* For about so long, but at least `min` batches of each. 0, or -1 when a step failed. */
int race_run(const struct race *race, double seconds, unsigned min, struct outcome *ret);

double now_seconds(void);

/* Pin this process, and all that it starts from now on, to one processor of those that it may use (the
 * last); or let it run on all of them again. */
int pin(bool one);

struct figure figure_of(double *samples, size_t n, bool rate);

#endif
