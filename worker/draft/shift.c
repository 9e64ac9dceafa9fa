/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/shift.h"

#include <errno.h>
#include <fcntl.h>

#include "worker/files/tree.h"
#include "worker/pause.h"

enum swap_state
shift_look(struct swap *w, struct koda_error *err)
{
	w->old.there = false;
	if (swap_stat(&w->source) < 0 || swap_stat(&w->place) < 0)
		return swap_failed(w, "examine", errno, err);
	if (swap_is(&w->place, w->item->held) && !swap_is(&w->source, w->item->held))
		return swap_over(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	if (!swap_is(&w->source, w->item->held))
		return swap_conflict(w, "cannot come back: another process moved or replaced it",
		    err);
	return w->place.there ? swap_conflict(w, "exists already", err) : SWAP_FRESH;
}

void
shift(struct swap *w, struct koda_error *err)
{
	if (swap_verify(w, err) < 0)
		return;
	if (tree_rename_new(w->source.dir, w->source.name, w->place.dir, w->place.name) < 0) {
		if (errno == EEXIST)
			swap_conflict(w, "exists already", err);
		else if (errno == ENOENT)
			swap_conflict(w, "cannot come back: another process moved it", err);
		else
			swap_failed(w, "move back", errno, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	if (swap_stat(&w->place) == 0 && swap_is(&w->place, w->item->held)) {
		swap_over(w, KODA__SWAP_OUTCOME__SWAP_DONE);
		return;
	}
	/* Another process put another file at the old name, which was not judged. */
	if (swap_verify(w, err) < 0)
		return;
	if (tree_rename_new(w->place.dir, w->place.name, w->source.dir, w->source.name) < 0)
		swap_failed(w, "another process keeps changing", errno, err);
	else
		swap_conflict(w, "was replaced meanwhile", err);
}
