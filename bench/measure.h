/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time two ways of doing the same thing, in turns, so that other load on the machine affects both.
 * The caller decides what is measured and what it is compared with.
 */
#ifndef KODA_BENCH_MEASURE_H
#define KODA_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

struct figure {
	double p50, p99; /* for a rate, p99 is what 99 of 100 samples reach */
};

/* Does the measured work once. Returns 0, or -1 after printing why. */
typedef int step_fn(void *data);

struct race {
	step_fn *ours, *floor; /* floor may be NULL */
	step_fn *after;        /* runs untimed after each sample of ours; may be NULL */
	void *data;
	unsigned batch;  /* samples of one side before the other side's turn */
	unsigned repeat; /* steps per sample; many for steps as short as reading the clock */
	double amount;   /* work in one step: figures are rates per second; 0: figures are ns */
	/* Where a step stores its duration in ns, if it measures that itself; else NULL. */
	const double *measured;
};

struct outcome {
	struct figure ours, floor;
	size_t n; /* samples of ours */
};

/* Run both sides for about `seconds`, but at least `min` batches of each, and store the figures in
 * *ret. Returns 0, or -1 if a step failed. */
int race_run(const struct race *race, double seconds, unsigned min, struct outcome *ret);

double now_seconds(void);

/* Pin this process to the last processor that it may use, or with one == false let it use all of
 * its processors again. Processes that it starts later inherit this. Returns 0, or -1 with
 * errno. */
int pin(bool one);

/* Sort the samples and return their figure. rate: a greater sample is a better one. */
struct figure figure_of(double *samples, size_t n, bool rate);

#endif
