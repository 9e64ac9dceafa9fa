/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a draft that have several names there. If one name stays in the draft, commands that go on
 * in it change the file, and with it what was applied of it: so the file is only moved if all its names
 * come with one request, and is copied otherwise.
 */
#ifndef KODA_WORKER_DRAFT_SEVERAL_H
#define KODA_WORKER_DRAFT_SEVERAL_H

#include "worker/draft/swap.h"

/* Zero it for each request. */
struct several {
	bool moved[SWAP_ITEMS_MAX]; /* the items whose file came as it is */
};

/* Has what is held of item `i` to be copied, as if its place were on another file system? Looks at the
 * source. */
bool several_has_copy(const struct several *s, const Koda__Swap *ask, size_t i, struct swap *w);

/* Call it after each item. Notes what was moved; what could not come, although other names of its file
 * were moved, leaves the draft for `old`. */
void several_note(struct several *s, const Koda__Swap *ask, size_t i, struct swap *w);

#endif
