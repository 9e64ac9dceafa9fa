/*
 * What a slot's policy or kernel sandbox refused: a ring of the last hundred, and their text. Who saw it says how
 * certain it is; host/command/stderr_parse guesses.
 */
#ifndef KODA_HOST_COMMAND_VIOLATIONS_H
#define KODA_HOST_COMMAND_VIOLATIONS_H

#include "shared/base/err.h"

#define VIOLATIONS_MAX 100

struct violations {
	struct koda_violation ring[VIOLATIONS_MAX]; /* strings are the ring's */
	size_t start, n, capacity;
	uint64_t recorded; /* ever: tells what is new since */
};

/* capacity 0 records nothing. */
void violations_init(struct violations *v, size_t capacity);
void violations_done(struct violations *v);
/* Copies what v points to. time 0: now. Losing one because memory is short is no error. */
void violations_record(struct violations *v, const struct koda_violation *one);
/* The i-th oldest, NULL beyond. */
const struct koda_violation *violations_at(const struct violations *v, size_t i);
size_t violations_count(const struct violations *v, enum koda_violation_kind kind);
/* A copy of those recorded after `since`, as one block to free(); *ret_n 0 and NULL if there is none. */
struct koda_violation *violations_since(const struct violations *v, uint64_t since, size_t *ret_n);

#endif
