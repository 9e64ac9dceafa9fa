/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/latency.h"

/* Each doubling begins at 4 << k. */
static unsigned
step_of(uint64_t us)
{
	unsigned log, step;

	if (us < 4)
		return (unsigned)us;
	log = 63 - (unsigned)__builtin_clzll(us);
	step = 4 * (log - 1) + (unsigned)(us >> (log - 2) & 3);
	return step < LATENCY_STEPS ? step : LATENCY_STEPS - 1;
}

/* Returns the last microsecond that belongs to the step. */
static uint64_t
end_of(unsigned step)
{
	unsigned log = step / 4 + 1;

	if (step < 4)
		return step;
	return ((UINT64_C(4) + step % 4 + 1) << (log - 2)) - 1;
}

void
latency_add(struct latency *latency, uint64_t us)
{
	latency->calls++;
	latency->step[step_of(us)]++;
}

uint64_t
latency_quantile(const struct latency *latency, unsigned per_mille)
{
	uint64_t seen = 0;
	/* Rounded up, without overflow: for a single call it is that call. */
	uint64_t wanted =
	    latency->calls / 1000 * per_mille + (latency->calls % 1000 * per_mille + 999) / 1000;

	if (latency->calls == 0)
		return 0;
	if (wanted == 0)
		wanted = 1;
	for (unsigned i = 0; i < LATENCY_STEPS; i++) {
		seen += latency->step[i];
		if (seen >= wanted)
			return end_of(i);
	}
	return end_of(LATENCY_STEPS - 1);
}
