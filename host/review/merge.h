/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging a draft's changes that are in conflict: finds, in the history, the versions that draft and
 * project both began with, and has a worker merge (worker/ops/op_merge.c).
 */
#ifndef KODA_HOST_REVIEW_MERGE_H
#define KODA_HOST_REVIEW_MERGE_H

#include "host/review/state.h"

/* A change in conflict, and what becomes of it. */
struct draft_merge {
	const struct reviewed *change; /* the caller's */
	enum koda_merge_outcome outcome;
	uint64_t overlaps, line;
	const char *reason;      /* KODA_MERGE_NONE: why, in static text, or in `text` */
	char *text;              /* the reason, or the merged text, or NULL */
	size_t len;              /* of the merged text */
	struct draft_side after; /* what the draft has now, if it was written */
};

enum merge_what {
	MERGE_LOOK,  /* only the outcome */
	MERGE_READ,  /* the merged text, too */
	MERGE_WRITE, /* the merged text replaces the draft's version */
};

/* Merges these changes of the draft. Returns 0, or -1 with *err set; the caller calls draft_merges_done() in
 * either case. The draft's worker may be another one after this. */
int draft_merges_run(struct koda_draft *d, struct draft_merge *v, size_t n, enum merge_what what,
    struct koda_error *err);
void draft_merges_done(struct draft_merge *v, size_t n);
/* Writes why there is no merged text, as a sentence's part. */
void draft_merge_explain(const struct draft_merge *one, char *ret, size_t size);

#endif
