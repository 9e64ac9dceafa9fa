/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of the places that a worker reported, by path. It keeps copies, and says of each place
 * whether it is sure: it existed before any command ran, or was mounted while no command was
 * running, so no command has changed it since it was reported.
 */
#ifndef KODA_HOST_PROTECT_PLACE_SET_H
#define KODA_HOST_PROTECT_PLACE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/worker.pb-c.h"
#include "shared/base/err.h"

struct place_set {
	Koda__Place **place; /* each its own copy (protobuf-c's allocator) */
	bool *sure;
	size_t n, size;
	/* Hash table of places by path: index plus one; 0 is free. n_buckets is a power of two, or
	 * 0. */
	uint32_t *bucket;
	size_t n_buckets;
};

void place_set_done(struct place_set *set);

/* Add a copy, which replaces an earlier place at the same path. The set has at most `most` places:
 * returns 1 if a new one does not fit any more. Returns -1 with *err set on failure. */
int place_set_add(struct place_set *set, const Koda__Place *place, bool sure, size_t most,
    struct koda_error *err);
/* Forget the places for which gone[] is true. */
void place_set_forget(struct place_set *set, const bool *gone);
void place_set_forget_unsure(struct place_set *set);

#endif
