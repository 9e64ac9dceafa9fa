/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doing what an entry of the history says, or taking it back: the host's half of Swap. Items are sent
 * in the order of `order`, results are written down after each batch.
 */
#ifndef KODA_HOST_REVIEW_TURN_H
#define KODA_HOST_REVIEW_TURN_H

#include "host/draft/history.h"
#include "host/review/held.h"

struct turn {
	struct history *history;
	struct holder *held;
	/* Items that get another state: done, or undone. */
	bool undo;
	/* A part of the history's items, by their numbers. */
	size_t *order;
	size_t n;
	/* May be NULL. Returns non-zero to stop; what was not done by then is not done. */
	koda_applied_fn *fn;
	void *data;
};

/* When it returns, what was done is on disk. Returns the value with which fn stopped, else 0; -1 with *err set if it could not go on: the entry
 * is then unfinished. */
int turn_run(struct turn *t, struct koda_error *err);

#endif
