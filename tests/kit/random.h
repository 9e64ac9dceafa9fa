/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that a seed reproduces. */
#ifndef KODA_TESTS_KIT_RANDOM_H
#define KODA_TESTS_KIT_RANDOM_H

#include <stdint.h>

struct rng {
	uint64_t s;
};

static inline uint64_t
rng_next(struct rng *r)
{
	uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline unsigned
rng_below(struct rng *r, unsigned n)
{
	return (unsigned)(rng_next(r) % n);
}

/* The one generator of a test program that needs no more. */
static struct rng draw_rng __attribute__((unused)) = { 0x6b6f6461 };

/* 0 .. below - 1 */
static inline unsigned
draw(unsigned below)
{
	return rng_below(&draw_rng, below);
}

#endif
