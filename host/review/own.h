/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a draft has put into the project itself. The draft's next version of such a file is made of that
 * one, so as long as no other process has changed it, there is no conflict, however new it is.
 */
#ifndef KODA_HOST_REVIEW_OWN_H
#define KODA_HOST_REVIEW_OWN_H

#include <stdbool.h>
#include <stddef.h>

#include "host/draft/history_entry.h"

struct own_file;

/* Zero-initialise. */
struct own {
	struct own_file *v;
	size_t n, size;
	size_t text; /* bytes: see HISTORY_TEXT_MAX */
	bool loaded;
};

/* Forgets what was read, so that it is read again. */
void own_done(struct own *o);

/* Is what the project has at that path still the file or link that this draft put there? Reads the
 * history when it is asked first. What is not known is not. */
bool own_has(struct own *o, const char *state, const char *root, const char *draft,
    const char *path, const struct draft_side *now);

#endif
