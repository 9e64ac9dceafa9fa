/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/across.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "worker/draft/copy.h"
#include "worker/draft/note.h"
#include "worker/files/tree.h"
#include "worker/pause.h"
#include "worker/say.h"

/* What is being copied to `old`; the item's name has no dot. */
#define PART_SIZE (SWAP_NAME_MAX + 6)

void
across_name(struct swap *w, ino_t old_ino)
{
	snprintf(w->temp_name, sizeof(w->temp_name), TEMP_PREFIX "swap-%llx-%.*s",
	    (unsigned long long)old_ino, SWAP_NAME_MAX, w->old.name);
	w->temp = (struct swap_name){ .dir = w->place.dir, .name = w->temp_name };
}

static void
part_name(const struct swap *w, char ret[PART_SIZE])
{
	snprintf(ret, PART_SIZE, "%.*s.part", SWAP_NAME_MAX, w->old.name);
}

static bool
takes(const struct swap *w)
{
	return w->item->has_take && w->item->take;
}

/* ---- the note ---- */

/* The note is of this item, and not of the one before, which was done and is now taken back: what that
 * one had made is `here` now. */
static bool
has_note(const struct swap *w, uint64_t ret[NOTE_NUMBERS])
{
	const Koda__SwapItem *item = w->item;

	return note_get(w->old.dir, w->old.name, NOTE_COPY, ret) == 0 &&
	    ret[0] == (item->held != NULL ? item->held->ino : 0) &&
	    (item->here == NULL || item->here->dev != ret[1] || item->here->ino != ret[2]);
}

bool
across_is_made(const struct swap *w, const struct swap_name *n)
{
	uint64_t note[NOTE_NUMBERS];

	return n->there && has_note(w, note) && n->st.st_dev == note[1] && n->st.st_ino == note[2];
}

bool
across_is_begun(const struct swap *w)
{
	uint64_t note[NOTE_NUMBERS];

	return has_note(w, note);
}

void
across_drop(struct swap *w)
{
	if (w->temp.dir >= 0)
		tree_remove(w->temp.dir, w->temp.name);
	w->temp.there = false;
}

/* ---- looking ---- */

static int
look_at_all(struct swap *w)
{
	if (swap_stat(&w->place) < 0 || swap_stat(&w->temp) < 0 || swap_stat(&w->old) < 0)
		return -1;
	if (!w->from_old)
		return swap_stat(&w->source);
	w->source = w->old;
	return 0;
}

/* Nothing was brought yet: a temporary name has an unfinished copy, or one that is not used. */
static enum swap_state
look_fresh(struct swap *w, struct koda_error *err)
{
	if (!swap_is(&w->source, w->item->held))
		swap_gone(w, err);
	else if (!swap_source_is_unchanged(w))
		swap_conflict(w, "was changed in the draft or the history meanwhile", err);
	else if (swap_may_hold(w, err))
		return SWAP_FRESH;
	if (w->temp.there)
		across_drop(w);
	return SWAP_OVER;
}

enum swap_state
across_look_bring(struct swap *w, struct koda_error *err)
{
	uint64_t note[NOTE_NUMBERS];
	bool noted, held;

	if (look_at_all(w) < 0)
		return swap_failed(w, "examine", errno, err);
	noted = has_note(w, note);
	held = swap_is(&w->source, w->item->held);
	if (!noted)
		return look_fresh(w, err);
	if (across_is_made(w, &w->place)) {
		if (w->temp.there || held)
			return SWAP_BEGUN;
		return swap_over(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	}
	/* It was brought, and another process has replaced it since. */
	w->place.there = false;
	if (w->temp.there && !across_is_made(w, &w->temp))
		return SWAP_BEGUN;
	if (!w->temp.there && !held)
		return swap_over(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	return swap_stat(&w->place) < 0 ? swap_failed(w, "examine", errno, err)
					: look_fresh(w, err);
}

enum swap_state
across_look_take(struct swap *w, struct koda_error *err)
{
	if (look_at_all(w) < 0)
		return swap_failed(w, "examine", errno, err);
	if (w->place.dir < 0 && !w->old.there)
		return swap_no_directory(w, err);
	if (w->old.there || !w->place.there ||
	    (w->temp.there && !swap_is(&w->place, w->item->here)))
		return SWAP_BEGUN;
	return swap_may_hold(w, err) ? SWAP_FRESH : SWAP_OVER;
}

/* ---- copying ---- */

static const char *
too_much(int errnum, const char *otherwise)
{
	return errnum == EFBIG ? "too much to copy to another file system:" : otherwise;
}

/* Copies the source to the temporary name and notes it. Returns 0, or -1 with outcome and *err set. */
static int
make_copy(struct swap *w, struct koda_error *err)
{
	struct copy c = { .res = w->res };
	uint64_t note[NOTE_NUMBERS];

	if (note_drop(w->old.dir, w->old.name, NOTE_COPY) < 0) {
		swap_failed(w, "write in the history about", errno, err);
		return -1;
	}
	across_drop(w);
	if (copy_name(&c, w->source.dir, w->source.name, w->temp.dir, w->temp.name) < 0) {
		int why = errno;

		across_drop(w);
		if (c.changed)
			swap_conflict(w, "was changed in the draft or the history meanwhile", err);
		else
			swap_failed(w, too_much(why, "write"), why, err);
		return -1;
	}
	if (swap_stat(&w->source) < 0 || c.changed || !swap_is(&w->source, w->item->held)) {
		across_drop(w);
		swap_conflict(w, "was changed in the draft or the history meanwhile", err);
		return -1;
	}
	if (swap_stat(&w->temp) < 0 || !w->temp.there) {
		swap_conflict(w, "another process keeps changing what is beside it", err);
		return -1;
	}
	note[0] = w->item->held->ino;
	note[1] = w->temp.st.st_dev;
	note[2] = w->temp.st.st_ino;
	if (note_put(w->old.dir, w->old.name, NOTE_COPY, note) < 0) {
		int why = errno;

		across_drop(w);
		swap_failed(w, "write in the history about", why, err);
		return -1;
	}
	PAUSE_POINT(PAUSE_SWAP_COPIED);
	return 0;
}

/* Copies what has the temporary name to `old`, where what is held may still be. Returns 0; 1 if it was
 * changed meanwhile; -1 with errno. */
static int
hold_copy(struct swap *w)
{
	struct copy c = { .res = w->res };
	const struct stat was = w->temp.st;
	char part[PART_SIZE];
	int r;

	part_name(w, part);
	if (tree_remove(w->old.dir, part) < 0)
		return -1;
	r = copy_name(&c, w->temp.dir, w->temp.name, w->old.dir, part);
	if (r == 0 && swap_stat(&w->temp) == 0 &&
	    (c.changed || !w->temp.there || swap_has_changed(&was, &w->temp.st)))
		r = 1;
	if (r < 0 && c.changed)
		r = 1;
	PAUSE_POINT(PAUSE_SWAP_PART);
	if (r == 0)
		r = renameat2(w->old.dir, part, w->old.dir, w->old.name,
		    w->old.there ? RENAME_EXCHANGE : RENAME_NOREPLACE);
	if (r != 0 || w->old.there) {
		int saved = errno;

		tree_remove(w->old.dir, part);
		errno = saved;
	}
	return r;
}

/* Is what came out of the place in `old` already? */
static bool
is_held(const struct swap *w)
{
	return w->old.there && !(w->from_old && swap_is(&w->old, w->item->held));
}

static void
remove_part(const struct swap *w)
{
	char part[PART_SIZE];

	part_name(w, part);
	tree_remove(w->old.dir, part);
}

/* ---- bringing ---- */

/* Exchanges place and temporary name again, and removes what is under that name then: the copy, or what
 * another process has replaced itself. */
static void
exchange_back(struct swap *w, const char *what, int errnum, struct koda_error *err)
{
	const struct stat put = w->place.st;

	if (swap_exchange_back(w, &w->temp, &put, err) < 0)
		return;
	across_drop(w);
	if (errnum != 0)
		swap_failed(w, too_much(errnum, what), errnum, err);
	else
		swap_conflict(w, what, err);
}

/* What was at the place has the temporary name: to `old` with it. Returns 0, or -1 with outcome and
 * *err set. */
static int
hold_temp(struct swap *w, const struct stat *was, struct koda_error *err)
{
	/* If another process has replaced the copy, its file stays, and this one is held. */
	const bool ours = across_is_made(w, &w->place);
	int r;

	if (ours && !takes(w) &&
	    (!swap_is(&w->temp, w->item->here) ||
		(was == NULL ? swap_is_written_since(&w->temp.st, w->item->here)
			     : swap_has_changed(was, &w->temp.st)))) {
		exchange_back(w, "was replaced or changed meanwhile", 0, err);
		return -1;
	}
	r = is_held(w) ? 0 : hold_copy(w);
	if (r != 0 && !ours) {
		swap_failed(w, "keep in the history what was at", r > 0 ? EBUSY : errno, err);
		return -1;
	}
	if (r != 0) {
		exchange_back(w,
		    r > 0 ? "was replaced or changed meanwhile" : "keep in the history what was at",
		    r > 0 ? 0 : errno, err);
		return -1;
	}
	PAUSE_POINT(PAUSE_SWAP_HELD);
	if (swap_unlink(w, &w->temp) < 0) {
		swap_failed(w, "remove the earlier version of", errno, err);
		return -1;
	}
	PAUSE_POINT(PAUSE_SWAP_CLEANED);
	return 0;
}

static void
finish_bring(struct swap *w, const struct stat *was, struct koda_error *err)
{
	if (look_at_all(w) < 0) {
		swap_failed(w, "examine", errno, err);
		return;
	}
	if (w->temp.there && hold_temp(w, was, err) < 0)
		return;
	remove_part(w);
	/* The copy is in the project; in `old` the held version may have been replaced already. */
	if (swap_stat(&w->source) == 0 && swap_is(&w->source, w->item->held))
		swap_unlink(w, &w->source);
	swap_stat(&w->old);
	if (!across_is_made(w, &w->place))
		w->place.there = false;
	swap_over(w, KODA__SWAP_OUTCOME__SWAP_DONE);
}

void
across_bring(struct swap *w, enum swap_state state, struct koda_error *err)
{
	struct copy c = { .res = w->res };
	const bool there = w->place.there;
	struct stat was = w->place.st;
	int r;

	if (state == SWAP_BEGUN) {
		finish_bring(w, NULL, err);
		return;
	}
	if (there && copy_measure(&c, w->place.dir, w->place.name) < 0) {
		swap_failed(w, too_much(errno, "keep in the history what is at"), errno, err);
		return;
	}
	if (swap_fit(w, err) < 0 || make_copy(w, err) < 0)
		return;
	if (swap_verify(w, err) < 0) {
		across_drop(w);
		return;
	}
	r = there
	    ? renameat2(w->temp.dir, w->temp.name, w->place.dir, w->place.name, RENAME_EXCHANGE)
	    : tree_rename_new(w->temp.dir, w->temp.name, w->place.dir, w->place.name);
	if (r < 0) {
		int why = errno;

		across_drop(w);
		if (why == EEXIST)
			swap_conflict(w, "exists already", err);
		else if (why == ENOENT)
			swap_conflict(w, "was removed meanwhile", err);
		else
			swap_failed(w, "write", why, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	finish_bring(w, there ? &was : NULL, err);
}

/* ---- taking away ---- */

static void
take_back(struct swap *w, const char *what, int errnum, struct koda_error *err)
{
	if (swap_verify(w, err) < 0)
		return;
	if (tree_rename_new(w->temp.dir, w->temp.name, w->place.dir, w->place.name) < 0)
		swap_failed(w, "another process keeps changing", errno, err);
	else if (errnum != 0)
		swap_failed(w, too_much(errnum, what), errnum, err);
	else
		swap_conflict(w, what, err);
}

static void
finish_take(struct swap *w, const struct stat *was, Koda__SwapOutcome outcome,
    struct koda_error *err)
{
	if (w->temp.there) {
		int r;

		if (!takes(w) &&
		    (!swap_is(&w->temp, w->item->here) ||
			(was == NULL ? swap_is_written_since(&w->temp.st, w->item->here)
				     : swap_has_changed(was, &w->temp.st)))) {
			take_back(w, "was replaced or changed meanwhile", 0, err);
			return;
		}
		r = w->old.there ? 0 : hold_copy(w);
		if (r != 0) {
			take_back(w,
			    r > 0 ? "was replaced or changed meanwhile"
				  : "keep in the history what was at",
			    r > 0 ? 0 : errno, err);
			return;
		}
		PAUSE_POINT(PAUSE_SWAP_HELD);
		if (swap_unlink(w, &w->temp) < 0) {
			swap_failed(w, "remove", errno, err);
			return;
		}
		PAUSE_POINT(PAUSE_SWAP_CLEANED);
	}
	remove_part(w);
	swap_unwhite(w);
	swap_stat(&w->old);
	w->place.there = false;
	swap_over(w, outcome);
}

void
across_take(struct swap *w, enum swap_state state, struct koda_error *err)
{
	struct copy c = { .res = w->res };
	const struct stat was = w->place.st;

	if (state == SWAP_BEGUN) {
		finish_take(w, NULL,
		    w->temp.there ? KODA__SWAP_OUTCOME__SWAP_DONE
				  : KODA__SWAP_OUTCOME__SWAP_WAS_DONE,
		    err);
		return;
	}
	if (copy_measure(&c, w->place.dir, w->place.name) < 0) {
		swap_failed(w, too_much(errno, "keep in the history what is at"), errno, err);
		return;
	}
	if (swap_verify(w, err) < 0)
		return;
	if (tree_rename_new(w->place.dir, w->place.name, w->temp.dir, w->temp.name) < 0) {
		if (errno == ENOENT)
			swap_conflict(w, "was removed meanwhile", err);
		else
			swap_failed(w, "remove", errno, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	if (swap_stat(&w->temp) < 0)
		swap_failed(w, "examine", errno, err);
	else
		finish_take(w, &was, KODA__SWAP_OUTCOME__SWAP_DONE, err);
}
