/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long calls took, as a histogram of a fixed size: four steps per doubling, so a reported time
 * is at most a quarter above the real one. Pure.
 */
#ifndef KODA_MCP_LATENCY_H
#define KODA_MCP_LATENCY_H

#include <stdint.h>

/* 0 to 3 one by one, then four steps per doubling up to 2^32 us, which is more than an hour: no
 * call takes that long. */
#define LATENCY_STEPS 124

struct latency {
	uint64_t calls;
	uint64_t step[LATENCY_STEPS];
};

void latency_add(struct latency *latency, uint64_t us);

/* Returns the smallest number of microseconds that per_mille of the calls did not exceed,
 * rounded up to its step; 0 without a call. */
uint64_t latency_quantile(const struct latency *latency, unsigned per_mille);

#endif
