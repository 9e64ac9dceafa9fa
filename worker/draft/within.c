/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/within.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "worker/files/tree.h"
#include "worker/pause.h"

/* ---- bringing ---- */

/* What is held is still where it was held. */
static enum swap_state
look_source(struct swap *w, struct koda_error *err)
{
	const bool takes = w->item->has_take && w->item->take;

	if (!swap_source_is_unchanged(w))
		return swap_conflict(w, "was changed in the draft or the history meanwhile", err);
	w->place.there = false;
	/* The rename itself finds out whether the name is free. */
	if (!w->from_old && w->item->here == NULL && !takes)
		return SWAP_FRESH;
	if (swap_stat(&w->place) < 0)
		return swap_failed(w, "examine", errno, err);
	/* A worker died before it took away what it had given a second name (worker/files/keep). */
	if (w->from_old && !S_ISDIR(w->source.st.st_mode) && swap_is(&w->place, w->item->held)) {
		w->old.there = false;
		return swap_unlink(w, &w->source) < 0
		    ? swap_failed(w, "drop the second name of", errno, err)
		    : swap_over(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	}
	return swap_may_hold(w, err) ? SWAP_FRESH : SWAP_OVER;
}

/* The source is not what is held: either it was brought, or it is gone. */
static enum swap_state
look_brought(struct swap *w, struct koda_error *err)
{
	const bool takes = w->item->has_take && w->item->take;
	const bool alone = w->item->here == NULL && !takes;
	bool done;

	if (swap_stat(&w->place) < 0 || (!w->from_old && swap_stat(&w->old) < 0))
		return swap_failed(w, "examine", errno, err);
	if (w->from_old)
		w->old = w->source;
	w->place.there = swap_is(&w->place, w->item->held);
	if (w->from_old)
		done = w->source.there && (takes || swap_is(&w->source, w->item->here));
	else
		done = w->old.there;
	if (!done && !w->place.there)
		return swap_gone(w, err);
	if (done || !w->source.there || alone) {
		w->old.there = done;
		return swap_over(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	}
	return SWAP_BEGUN;
}

enum swap_state
within_look_bring(struct swap *w, struct koda_error *err)
{
	if (!w->looked && swap_stat(&w->source) < 0)
		return swap_failed(w, "examine the held version of", errno, err);
	w->looked = false;
	return swap_is(&w->source, w->item->held) ? look_source(w, err) : look_brought(w, err);
}

/* Exchanges source and place again, because what came out is not what was to come out. */
static void
exchange_back(struct swap *w, const char *what, int errnum, struct koda_error *err)
{
	const struct stat put = { .st_dev = w->item->held->dev, .st_ino = w->item->held->ino };

	if (swap_exchange_back(w, &w->source, &put, err) < 0)
		return;
	/* If the other process has replaced the draft's version, the file in its stead is the other
	 * process's, and nothing of the draft. */
	if (!w->from_old && !swap_is(&w->source, w->item->held))
		tree_rename_new(w->source.dir, w->source.name, w->old.dir, w->old.name);
	if (errnum != 0)
		swap_failed(w, what, errnum, err);
	else
		swap_conflict(w, what, err);
}

/* Source and place were exchanged. was: what was at the place right before; NULL: not known. */
static void
finish_exchange(struct swap *w, const struct stat *was, struct koda_error *err)
{
	const bool takes = w->item->has_take && w->item->take;

	if (swap_stat(&w->source) < 0 || swap_stat(&w->place) < 0) {
		swap_failed(w, "examine", errno, err);
		return;
	}
	if (!swap_is(&w->place, w->item->held) || !w->source.there ||
	    (!takes && !swap_is(&w->source, w->item->here)) ||
	    (was == NULL ? swap_is_written_since(&w->source.st, takes ? NULL : w->item->here)
			 : swap_has_changed(was, &w->source.st))) {
		exchange_back(w, "was replaced or changed meanwhile", 0, err);
		return;
	}
	if (!w->from_old &&
	    tree_rename_new(w->source.dir, w->source.name, w->old.dir, w->old.name) < 0) {
		exchange_back(w, "keep in the history what was at", errno, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_HELD);
	w->old.there = true;
	w->old.st = w->source.st;
	/* Moving it changed its ctime. */
	swap_stat(&w->old);
	swap_over(w, KODA__SWAP_OUTCOME__SWAP_DONE);
}

static void
exchange(struct swap *w, struct koda_error *err)
{
	const struct stat was = w->place.st;

	if (swap_verify(w, err) < 0)
		return;
	if (renameat2(w->source.dir, w->source.name, w->place.dir, w->place.name,
		RENAME_EXCHANGE) == 0) {
		PAUSE_POINT(PAUSE_SWAP_BROUGHT);
		finish_exchange(w, &was, err);
	} else if (errno == ENOENT) {
		swap_conflict(w, "was removed meanwhile, or what was to come there", err);
	} else {
		swap_failed(w,
		    errno == EINVAL ? "the file system cannot exchange two files at" : "replace",
		    errno, err);
	}
}

static void
bring(struct swap *w, struct koda_error *err)
{
	const struct stat was = w->source.st;

	if (swap_verify(w, err) < 0)
		return;
	if (tree_rename_new(w->source.dir, w->source.name, w->place.dir, w->place.name) < 0) {
		if (errno == EEXIST)
			swap_conflict(w, "exists already", err);
		else if (errno == ENOENT)
			swap_gone(w, err);
		else
			swap_failed(w, "write", errno, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	if (swap_stat(&w->place) == 0 && w->place.there && !swap_has_changed(&was, &w->place.st)) {
		swap_over(w, KODA__SWAP_OUTCOME__SWAP_DONE);
		return;
	}
	/* A command has replaced or changed the draft's file after it was looked at. */
	if (swap_verify(w, err) < 0)
		return;
	if (tree_rename_new(w->place.dir, w->place.name, w->source.dir, w->source.name) < 0)
		swap_failed(w, "another process keeps changing", errno, err);
	else
		swap_conflict(w, "was changed in the draft or the history meanwhile", err);
}

void
within_bring(struct swap *w, enum swap_state state, struct koda_error *err)
{
	if (state == SWAP_BEGUN)
		finish_exchange(w, NULL, err);
	else if (swap_fit(w, err) < 0)
		return;
	else if (w->place.there)
		exchange(w, err);
	else
		bring(w, err);
}

/* ---- taking away ---- */

enum swap_state
within_look_take(struct swap *w, struct koda_error *err)
{
	if (swap_stat(&w->old) < 0 || swap_stat(&w->place) < 0)
		return swap_failed(w, "examine", errno, err);
	/* What it was may be somewhere else now. */
	if (w->place.dir < 0 && !w->old.there)
		return swap_no_directory(w, err);
	/* If it is held already, or another process has removed it, only the whiteout is left. */
	if (w->old.there || !w->place.there)
		return SWAP_BEGUN;
	return swap_may_hold(w, err) ? SWAP_FRESH : SWAP_OVER;
}

/* What is held was at the place. was: what was there right before; NULL: not known. */
static void
finish_take(struct swap *w, const struct stat *was, Koda__SwapOutcome outcome,
    struct koda_error *err)
{
	const bool takes = w->item->has_take && w->item->take;

	if (w->old.there && !takes &&
	    (!swap_is(&w->old, w->item->here) ||
		(was == NULL ? swap_is_written_since(&w->old.st, w->item->here)
			     : swap_has_changed(was, &w->old.st)))) {
		if (swap_verify(w, err) < 0)
			return;
		if (tree_rename_new(w->old.dir, w->old.name, w->place.dir, w->place.name) < 0)
			swap_failed(w, "another process keeps changing", errno, err);
		else
			swap_conflict(w, "was replaced or changed meanwhile", err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_HELD);
	swap_unwhite(w);
	w->place.there = false;
	swap_over(w, outcome);
}

void
within_take(struct swap *w, enum swap_state state, struct koda_error *err)
{
	const struct stat was = w->place.st;

	if (state == SWAP_BEGUN) {
		finish_take(w, NULL, KODA__SWAP_OUTCOME__SWAP_WAS_DONE, err);
		return;
	}
	if (swap_verify(w, err) < 0)
		return;
	if (tree_rename_new(w->place.dir, w->place.name, w->old.dir, w->old.name) < 0) {
		if (errno == ENOENT)
			swap_conflict(w, "was removed meanwhile", err);
		else
			swap_failed(w, "remove", errno, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	if (swap_stat(&w->old) < 0)
		swap_failed(w, "examine what was at", errno, err);
	else
		finish_take(w, &was, KODA__SWAP_OUTCOME__SWAP_DONE, err);
}
