/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks as a single number. */
#ifndef KODA_SHARED_BASE_CLOCK_H
#define KODA_SHARED_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

static inline uint64_t
clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Time since an unspecified start; never goes back. */
static inline uint64_t
monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t
monotonic_us(void)
{
	return monotonic_ns() / NS_PER_US;
}

static inline uint64_t
monotonic_ms(void)
{
	return monotonic_ns() / NS_PER_MS;
}

/* Seconds since boot, including the time the machine was suspended. */
static inline int64_t
boottime_s(void)
{
	return (int64_t)(clock_ns(CLOCK_BOOTTIME) / NS_PER_S);
}

#endif
