/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/swap_run.h"

#include <errno.h>

#include "worker/draft/across.h"
#include "worker/draft/directory.h"
#include "worker/draft/shift.h"
#include "worker/draft/within.h"

enum swap_state
swap_run_look(struct swap *w, struct koda_error *err)
{
	w->outcome = KODA__SWAP_OUTCOME__SWAP_DONE;
	switch (w->kind) {
	case SWAP_BRING:
		return w->across ? across_look_bring(w, err) : within_look_bring(w, err);
	case SWAP_TAKE:
		return w->across ? across_look_take(w, err) : within_look_take(w, err);
	case SWAP_MKDIR:
		return directory_look_made(w, err);
	case SWAP_RMDIR:
		return directory_look_removed(w, err);
	case SWAP_MODE:
		return directory_look_mode(w, err);
	case SWAP_SHIFT:
		return shift_look(w, err);
	}
	return SWAP_OVER;
}

static void
act(struct swap *w, enum swap_state state, struct koda_error *err)
{
	if (w->place.dir < 0 && state == SWAP_FRESH) {
		swap_no_directory(w, err);
		return;
	}
	switch (w->kind) {
	case SWAP_BRING:
		w->across ? across_bring(w, state, err) : within_bring(w, state, err);
		break;
	case SWAP_TAKE:
		w->across ? across_take(w, state, err) : within_take(w, state, err);
		break;
	case SWAP_MKDIR:
		directory_make(w, err);
		break;
	case SWAP_RMDIR:
		directory_remove(w, err);
		break;
	case SWAP_MODE:
		directory_mode(w, err);
		break;
	case SWAP_SHIFT:
		shift(w, err);
		break;
	}
}

void
swap_run_act(struct swap *w, enum swap_state state, struct koda_error *err)
{
	act(w, state, err);
	/* Two directories of one file system between which it allows no renames (of two projects that
	 * have a quota). */
	if (w->outcome != KODA__SWAP_OUTCOME__SWAP_FAILED || err->errnum != EXDEV || w->across ||
	    w->kind == SWAP_SHIFT)
		return;
	w->across = true;
	state = swap_run_look(w, err);
	if (state != SWAP_OVER)
		act(w, state, err);
}

void
swap_run_drop(struct swap *w)
{
	if (w->across || w->kind == SWAP_MKDIR)
		across_drop(w);
}
