/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a slot's policy or kernel sandbox refused: a ring of the last hundred violations, and their
 * text. Whether one is certain depends on what reported it; host/command/stderr_parse guesses.
 */
#ifndef KODA_HOST_CONTEXT_VIOLATIONS_H
#define KODA_HOST_CONTEXT_VIOLATIONS_H

#include "shared/base/err.h"

#define VIOLATIONS_MAX 100

struct violations {
	struct koda_violation ring[VIOLATIONS_MAX]; /* the ring owns the strings */
	size_t start, n, capacity;
	uint64_t recorded; /* in total, ever: the position for violations_since() */
};

/* capacity 0 records nothing. */
void violations_init(struct violations *v, size_t capacity);
void violations_done(struct violations *v);
/* Records a copy of *one, strings included. time 0: now. If memory is short the violation is lost;
 * that is not an error. */
void violations_record(struct violations *v, const struct koda_violation *one);
/* The i-th oldest; NULL beyond the last. */
const struct koda_violation *violations_at(const struct violations *v, size_t i);
size_t violations_count(const struct violations *v, enum koda_violation_kind kind);
/* A copy of those recorded after `since`, as one block that the caller frees; NULL and *ret_n 0 if
 * there are none. */
struct koda_violation *violations_since(const struct violations *v, uint64_t since, size_t *ret_n);

#endif
