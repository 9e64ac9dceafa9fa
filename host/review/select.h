/* SPDX-License-Identifier: Apache-2.0 */
/* Which changes a person selected: paths with everything below them, and globs. Pure. */
#ifndef KODA_HOST_REVIEW_SELECT_H
#define KODA_HOST_REVIEW_SELECT_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct selection {
	struct selected {
		char *text; /* absolute; of a glob: as it was given */
		bool glob;
		bool used; /* something matched it */
	} * v;
	size_t n;
	const char *root;
};

/* Take what was given: absolute, or relative to the root, which has to live as long. None: everything.
 * Returns 0, or -1 with *err set. */
int selection_take(struct selection *s, const char *root, const char *const *paths, size_t n,
    struct koda_error *err);
void selection_done(struct selection *s);
/* Is that canonical path selected? */
bool selection_has(struct selection *s, const char *path);
/* Returns what matched nothing so far, or NULL. */
const char *selection_unused(const struct selection *s);

#endif
