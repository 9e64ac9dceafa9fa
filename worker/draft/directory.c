/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/across.h"
#include "worker/draft/fit.h"
#include "worker/draft/note.h"
#include "worker/files/replace.h"
#include "worker/files/tree.h"
#include "worker/pause.h"
#include "worker/say.h"

/* ---- making ---- */

enum swap_state
directory_look_made(struct swap *w, struct koda_error *err)
{
	const bool takes = w->item->has_take && w->item->take;

	if (swap_stat(&w->place) < 0 || swap_stat(&w->old) < 0)
		return swap_failed(w, "examine", errno, err);
	if (!w->place.there)
		return SWAP_FRESH;
	if (S_ISDIR(w->place.st.st_mode) && (takes || across_is_made(w, &w->place)))
		return swap_over(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	return takes ? SWAP_FRESH : swap_conflict(w, "exists already", err);
}

/* The attributes of the draft's directory, except those of overlayfs, and the permissions. */
static int
dress(struct swap *w, int fd)
{
	cleanup_close int like = -1;
	struct stat st;

	if (!w->from_old && w->source.dir >= 0) {
		like = openat(w->source.dir, w->source.name,
		    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (like < 0 && errno != ENOENT && errno != ENOTDIR)
			return -1;
	}
	if (like >= 0 &&
	    (fstat(like, &st) < 0 || file_copy_attributes(fd, like) < 0 || fit_strip(fd) < 0))
		return -1;
	return fchmod(fd, w->item->directory & 07777);
}

static int
make_temp(struct swap *w)
{
	cleanup_close int fd = -1;
	uint64_t note[NOTE_NUMBERS] = { 0 };

	if (note_drop(w->old.dir, w->old.name, NOTE_COPY) < 0)
		return -1;
	across_drop(w);
	if (mkdirat(w->temp.dir, w->temp.name, 0700) < 0)
		return -1;
	PAUSE_POINT(PAUSE_SWAP_COPYING);
	fd = openat(w->temp.dir, w->temp.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || dress(w, fd) < 0 || fstat(fd, &w->temp.st) < 0)
		return -1;
	note[1] = w->temp.st.st_dev;
	note[2] = w->temp.st.st_ino;
	if (note_put(w->old.dir, w->old.name, NOTE_COPY, note) < 0)
		return -1;
	PAUSE_POINT(PAUSE_SWAP_COPIED);
	return 0;
}

/* Something else is at the place, and may be taken away. */
static int
clear_place(struct swap *w, struct koda_error *err)
{
	if (!w->place.there)
		return 0;
	if (swap_verify(w, err) < 0)
		return -1;
	if (tree_rename_new(w->place.dir, w->place.name, w->old.dir, w->old.name) < 0 &&
	    errno != ENOENT) {
		swap_failed(w, "keep in the history what is at", errno, err);
		return -1;
	}
	PAUSE_POINT(PAUSE_SWAP_HELD);
	return 0;
}

void
directory_make(struct swap *w, struct koda_error *err)
{
	int r;

	if (clear_place(w, err) < 0)
		return;
	r = make_temp(w);
	if (r == 0 && swap_verify(w, err) < 0) {
		across_drop(w);
		return;
	}
	if (r == 0)
		r = tree_rename_new(w->temp.dir, w->temp.name, w->place.dir, w->place.name);
	if (r < 0) {
		int why = errno;

		across_drop(w);
		if (why == EEXIST || why == ENOTEMPTY)
			swap_conflict(w, "exists already", err);
		else
			swap_failed(w, "make the directory", why, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	if (swap_stat(&w->place) < 0 || swap_stat(&w->old) < 0)
		swap_failed(w, "examine", errno, err);
	else
		swap_over(w, KODA__SWAP_OUTCOME__SWAP_DONE);
}

/* ---- removing ---- */

/* Is the directory one that was made, and that no worker has removed since? */
static bool
is_still_noted(const struct swap *w)
{
	const Koda__Identity *here = w->item->here;
	uint64_t note[NOTE_NUMBERS];

	return note_get(w->old.dir, w->old.name, NOTE_COPY, note) == 0 && note[1] == here->dev &&
	    note[2] == here->ino;
}

static enum swap_state
removed(struct swap *w, Koda__SwapOutcome outcome)
{
	/* If it stays, a later removal may be taken for a conflict. */
	note_drop(w->old.dir, w->old.name, NOTE_COPY);
	w->place.there = false;
	return swap_over(w, outcome);
}

enum swap_state
directory_look_removed(struct swap *w, struct koda_error *err)
{
	if (swap_stat(&w->place) < 0)
		return swap_failed(w, "examine", errno, err);
	w->old.there = false;
	/* Its directory may have been removed after it, by a worker whose results were lost. */
	if (w->place.dir < 0 && is_still_noted(w))
		return swap_no_directory(w, err);
	if (!w->place.there)
		return removed(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	if (swap_is(&w->place, w->item->here) && S_ISDIR(w->place.st.st_mode))
		return SWAP_FRESH;
	/* It was removed, and what had been at the place before came back, by such a worker. */
	return is_still_noted(w) ? swap_conflict(w, "was replaced meanwhile", err)
				 : removed(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
}

void
directory_remove(struct swap *w, struct koda_error *err)
{
	if (swap_verify(w, err) < 0)
		return;
	if (unlinkat(w->place.dir, w->place.name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		if (errno == ENOTEMPTY || errno == EEXIST)
			swap_conflict(w, "is not empty", err);
		else
			swap_failed(w, "remove the directory", errno, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	removed(w, KODA__SWAP_OUTCOME__SWAP_DONE);
}

/* ---- permissions ---- */

static bool
is_as_it_was(const struct swap *w)
{
	if (!S_ISDIR(w->place.st.st_mode) || !w->item->has_mode_here)
		return swap_is_unchanged(w, &w->place, w->item->here);
	return (w->place.st.st_mode & 07777) == w->item->mode_here;
}

enum swap_state
directory_look_mode(struct swap *w, struct koda_error *err)
{
	if (swap_stat(&w->place) < 0)
		return swap_failed(w, "examine", errno, err);
	w->old.there = false;
	if (!w->place.there)
		return swap_conflict(w, "no longer exists", err);
	if (!swap_is(&w->place, w->item->here))
		return swap_conflict(w, "was replaced meanwhile", err);
	if (!S_ISREG(w->place.st.st_mode) && !S_ISDIR(w->place.st.st_mode))
		return swap_failed(w, "change the permissions of", EOPNOTSUPP, err);
	if ((w->place.st.st_mode & 07777) == w->item->mode)
		return swap_over(w, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	if (!is_as_it_was(w))
		return swap_conflict(w, "was changed meanwhile", err);
	return SWAP_FRESH;
}

void
directory_mode(struct swap *w, struct koda_error *err)
{
	cleanup_close int fd = -1;
	const mode_t mode = w->item->mode & 07777;
	char path[16];

	if (swap_verify(w, err) < 0)
		return;
	fd = openat(w->place.dir, w->place.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &w->place.st) < 0) {
		swap_failed(w, "change the permissions of", errno, err);
		return;
	}
	if (!swap_is(&w->place, w->item->here)) {
		swap_conflict(w, "was replaced meanwhile", err);
		return;
	}
	/* The listing takes a file with several names for one that is changed as a whole. */
	if (S_ISREG(w->place.st.st_mode) && w->place.st.st_nlink > 1) {
		swap_conflict(w, "has other names, whose permissions would change, too", err);
		return;
	}
	if (S_ISREG(w->place.st.st_mode) &&
	    (mode & ~w->place.st.st_mode & (S_ISUID | S_ISGID)) != 0) {
		swap_refused(w, "set_id",
		    "it would run as another user or group (set-user-ID, set-group-ID)", err);
		return;
	}
	/* The name of the descriptor below /proc/self/fd, the working directory. */
	snprintf(path, sizeof(path), "%d", fd);
	if (fchmodat(AT_FDCWD, path, mode, 0) < 0) {
		swap_failed(w, "change the permissions of", errno, err);
		return;
	}
	PAUSE_POINT(PAUSE_SWAP_BROUGHT);
	w->old.there = true;
	w->old.st = w->place.st;
	if (fstat(fd, &w->place.st) < 0)
		w->place.there = false;
	swap_over(w, KODA__SWAP_OUTCOME__SWAP_DONE);
}
