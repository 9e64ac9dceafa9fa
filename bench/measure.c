/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shared/base/cleanup.h"

#define SAMPLES_MAX 200000 /* per side; percentiles need no more */

double
now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

int
pin(bool one)
{
	static cpu_set_t all;
	static bool known;
	cpu_set_t last;
	int cpu = -1;

	if (!known && sched_getaffinity(0, sizeof(all), &all) < 0)
		return -1;
	known = true;
	if (!one)
		return sched_setaffinity(0, sizeof(all), &all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all))
			cpu = i;
	CPU_ZERO(&last);
	CPU_SET(cpu, &last);
	return sched_setaffinity(0, sizeof(last), &last);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct figure
figure_of(double *samples, size_t n, bool rate)
{
	if (n == 0)
		return (struct figure){ 0, 0 };
	qsort(samples, n, sizeof(*samples), compare);
	return (struct figure){ samples[n / 2], samples[rate ? n / 100 : n - 1 - n / 100] };
}

static int
run_batch(const struct race *race, step_fn *step, step_fn *after, double *samples, size_t *n)
{
	for (unsigned i = 0; i < race->batch; i++) {
		double start = now_ns(), took;

		for (unsigned k = 0; k < race->repeat; k++)
			if (step(race->data) < 0)
				return -1;
		took = (now_ns() - start) / race->repeat;
		if (race->measured != NULL)
			took = *race->measured;
		if (after != NULL && after(race->data) < 0)
			return -1;
		if (samples != NULL && *n < SAMPLES_MAX)
			samples[(*n)++] = race->amount > 0 ? race->amount * 1e9 / took : took;
	}
	return 0;
}

int
race_run(const struct race *race, double seconds, unsigned min, struct outcome *ret)
{
	cleanup_free double *ours = calloc(SAMPLES_MAX, sizeof(*ours));
	cleanup_free double *floor = calloc(SAMPLES_MAX, sizeof(*floor));
	size_t n_ours = 0, n_floor = 0;
	double until;

	if (ours == NULL || floor == NULL) {
		perror("samples");
		return -1;
	}
	/* Run one batch of each side untimed, because first use fills caches and buffers and starts
	 * processes. */
	if (run_batch(race, race->ours, race->after, NULL, NULL) < 0 ||
	    (race->floor != NULL && run_batch(race, race->floor, NULL, NULL, NULL) < 0))
		return -1;
	until = now_seconds() + seconds;
	for (unsigned i = 0; i < min || (now_seconds() < until && n_ours < SAMPLES_MAX); i++)
		if (run_batch(race, race->ours, race->after, ours, &n_ours) < 0 ||
		    (race->floor != NULL &&
			run_batch(race, race->floor, NULL, floor, &n_floor) < 0))
			return -1;
	*ret = (struct outcome){ figure_of(ours, n_ours, race->amount > 0),
		figure_of(floor, n_floor, race->amount > 0), n_ours };
	return 0;
}
