/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/several.h"

#include "worker/draft/across.h"
#include "worker/files/tree.h"

static bool
is_same(const Koda__SwapItem *a, const Koda__SwapItem *b)
{
	return a->has_layer && b->has_layer && a->held != NULL && b->held != NULL &&
	    a->held->dev == b->held->dev && a->held->ino == b->held->ino;
}

static bool
has_several(struct swap *w)
{
	if (w->kind != SWAP_BRING || w->from_old || w->source.name == NULL)
		return false;
	w->looked = swap_stat(&w->source) == 0;
	return w->looked && swap_is(&w->source, w->item->held) && S_ISREG(w->source.st.st_mode) &&
	    w->source.st.st_nlink > 1;
}

bool
several_has_copy(const struct several *s, const Koda__Swap *ask, size_t i, struct swap *w)
{
	nlink_t known = 0;

	if (w->kind != SWAP_BRING || w->from_old)
		return false;
	if (!has_several(w))
		/* A worker that died may have copied it, and removed this name. */
		return !w->source.there && across_is_begun(w);
	for (size_t k = 0; k < ask->n_item; k++)
		known += is_same(ask->item[k], w->item) && (k >= i || s->moved[k]);
	return known < w->source.st.st_nlink || across_is_begun(w);
}

void
several_note(struct several *s, const Koda__Swap *ask, size_t i, struct swap *w)
{
	s->moved[i] = !w->across &&
	    (w->outcome == KODA__SWAP_OUTCOME__SWAP_DONE ||
		w->outcome == KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	if (s->moved[i] || !has_several(w))
		return;
	for (size_t k = 0; k < i; k++)
		if (s->moved[k] && is_same(ask->item[k], w->item)) {
			tree_rename_new(w->source.dir, w->source.name, w->old.dir, w->old.name);
			return;
		}
}
