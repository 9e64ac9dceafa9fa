/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory that a draft made in the stead of the project's hides everything that the project has
 * there ("opaque"). What is applied of it, while the rest stays in the draft, would be hidden as well,
 * and look deleted. So it is first made a directory that hides the same names one by one.
 */
#ifndef KODA_HOST_DRAFT_REVEAL_H
#define KODA_HOST_DRAFT_REVEAL_H

#include "host/draft/store.h"

/* What the draft deletes: a canonical path in the project. */
struct reveal_name {
	size_t layer;
	char *path;
};

struct reveal {
	const struct draft *draft;
	/* Sorted as a list of changes is: by layer, then a directory before what is in it. */
	const struct reveal_name *gone;
	size_t n_gone;
	/* The directory that was looked at last, with those above it; set both to 0 first. */
	size_t layer;
	char *seen;
};

/*
 * Do so for each directory above that path, and for itself. Nothing may use the draft. Returns 0, or
 * -1 with *err set. A directory in which that is not permitted stays as it is.
 */
int reveal_above(struct reveal *r, size_t layer, const char *path, struct koda_error *err);
void reveal_done(struct reveal *r);

#endif
