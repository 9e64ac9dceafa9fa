/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/fit.h"
#include "worker/draft/note.h"
#include "worker/files/change.h"
#include "worker/files/tree.h"
#include "worker/pause.h"
#include "worker/say.h"

/* ---- names ---- */

int
swap_stat(struct swap_name *n)
{
	n->there = false;
	if (n->dir < 0)
		return 0;
	if (fstatat(n->dir, n->name, &n->st, AT_SYMLINK_NOFOLLOW) == 0) {
		n->there = true;
		return 0;
	}
	return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}

bool
swap_is(const struct swap_name *n, const Koda__Identity *id)
{
	return id != NULL && n->there && n->st.st_dev == id->dev && n->st.st_ino == id->ino &&
	    file_type_of(n->st.st_mode) == id->type;
}

static int64_t
ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool
swap_has_changed(const struct stat *was, const struct stat *now)
{
	if (was->st_dev != now->st_dev || was->st_ino != now->st_ino ||
	    was->st_mode != now->st_mode)
		return true;
	/* What is in a directory may have been moved by items before this one. */
	return !S_ISDIR(was->st_mode) &&
	    (was->st_size != now->st_size || ns_of(was->st_mtim) != ns_of(now->st_mtim));
}

bool
swap_is_written_since(const struct stat *st, const Koda__Identity *id)
{
	struct timespec now;

	if (id == NULL || !id->has_ctime_ns || S_ISDIR(st->st_mode) ||
	    ns_of(st->st_mtim) <= id->ctime_ns)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	return ns_of(st->st_mtim) <= ns_of(now);
}

static bool
is_touched(const struct swap *w, const struct stat *st)
{
	const struct swap_touched *t = w->touched;

	for (unsigned i = 0; i < t->n && i < SWAP_TOUCHED_MAX; i++)
		if (t->file[i].ino == st->st_ino && t->file[i].dev == st->st_dev &&
		    t->file[i].ctime_ns == ns_of(st->st_ctim))
			return true;
	return false;
}

bool
swap_is_unchanged(const struct swap *w, const struct swap_name *n, const Koda__Identity *id)
{
	if (!swap_is(n, id))
		return false;
	if (id->has_mtime_ns && S_ISREG(n->st.st_mode))
		return ns_of(n->st.st_mtim) == id->mtime_ns &&
		    (!id->has_size || (uint64_t)n->st.st_size == id->size) &&
		    (!id->has_mode || (n->st.st_mode & 07777) == id->mode);
	if (!id->has_ctime_ns || ns_of(n->st.st_ctim) <= id->ctime_ns)
		return true;
	if (S_ISDIR(n->st.st_mode))
		return false;
	return (n->st.st_nlink > 1 && !swap_is_written_since(&n->st, id)) || is_touched(w, &n->st);
}

int
swap_unlink(struct swap *w, const struct swap_name *n)
{
	cleanup_close int fd = -1;
	struct swap_touched *t = w->touched;
	struct stat st;
	unsigned i = t->n % SWAP_TOUCHED_MAX;

	if (!S_ISDIR(n->st.st_mode) && n->st.st_nlink > 1)
		fd = openat(n->dir, n->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (tree_remove(n->dir, n->name) < 0)
		return -1;
	if (fd >= 0 && fstat(fd, &st) == 0) {
		t->file[i].dev = st.st_dev;
		t->file[i].ino = st.st_ino;
		t->file[i].ctime_ns = ns_of(st.st_ctim);
		t->n++;
	}
	return 0;
}

/* ---- results ---- */

enum swap_state
swap_conflict(struct swap *w, const char *what, struct koda_error *err)
{
	w->outcome = KODA__SWAP_OUTCOME__SWAP_CONFLICT;
	say_of(err, KODA_CONFLICT, 0, w->path, what);
	return SWAP_OVER;
}

enum swap_state
swap_no_directory(struct swap *w, struct koda_error *err)
{
	return swap_conflict(w,
	    "is in a directory that no longer exists, or is a link or a file now", err);
}

enum swap_state
swap_gone(struct swap *w, struct koda_error *err)
{
	w->outcome = KODA__SWAP_OUTCOME__SWAP_GONE;
	say(err, KODA_CONFLICT, ENOENT,
	    w->from_old ? "the history no longer has what was at" : "the draft no longer has",
	    w->path);
	return SWAP_OVER;
}

enum swap_state
swap_failed(struct swap *w, const char *what, int errnum, struct koda_error *err)
{
	w->outcome = KODA__SWAP_OUTCOME__SWAP_FAILED;
	say(err, KODA_IO, errnum, what, w->path);
	return SWAP_OVER;
}

enum swap_state
swap_refused(struct swap *w, const char *rule, const char *reason, struct koda_error *err)
{
	char shown[512];

	bytes_show(shown, sizeof(shown), w->path, strlen(w->path));
	w->outcome = KODA__SWAP_OUTCOME__SWAP_REFUSED;
	err_set(err, KODA_POLICY_DENIED, 0, "refused to write '%s': %s (rule %s)", shown, reason,
	    rule);
	err_about(err, w->path, rule);
	return SWAP_OVER;
}

enum swap_state
swap_over(struct swap *w, Koda__SwapOutcome outcome)
{
	w->outcome = outcome;
	w->has_here = w->place.there;
	w->here = w->place.st;
	w->has_held = w->old.there;
	w->held = w->old.st;
	return SWAP_OVER;
}

int
swap_verify(struct swap *w, struct koda_error *err)
{
	if (w->verify(w->data, err) == 0)
		return 0;
	w->outcome = err->code == KODA_CONFLICT ? KODA__SWAP_OUTCOME__SWAP_CONFLICT
						: KODA__SWAP_OUTCOME__SWAP_FAILED;
	return -1;
}

/* Another process that replaces the place as often as this is not at work, but at an attack. */
#define BACK_TRIES 16

int
swap_exchange_back(struct swap *w, struct swap_name *other, const struct stat *put,
    struct koda_error *err)
{
	dev_t dev = put->st_dev;
	ino_t ino = put->st_ino;
	int why = EBUSY;

	/* What comes out is what was put in before, or newer than that. */
	for (unsigned i = 0; i < BACK_TRIES; i++) {
		struct stat next;

		if (swap_verify(w, err) < 0)
			return -1;
		if (swap_stat(other) < 0 || !other->there) {
			why = ENOENT;
			break;
		}
		next = other->st;
		if (renameat2(other->dir, other->name, w->place.dir, w->place.name,
			RENAME_EXCHANGE) < 0 ||
		    swap_stat(other) < 0 || !other->there) {
			why = errno;
			break;
		}
		if (other->st.st_dev == dev && other->st.st_ino == ino)
			return 0;
		dev = next.st_dev;
		ino = next.st_ino;
	}
	swap_failed(w, "another process keeps changing", why, err);
	return -1;
}

/* ---- what the layer has ---- */

void
swap_unwhite(struct swap *w)
{
	/* An opaque directory deletes names without whiteouts. */
	if (w->from_old || swap_stat(&w->source) < 0 || !w->source.there ||
	    !S_ISCHR(w->source.st.st_mode) || w->source.st.st_rdev != makedev(0, 0))
		return;
	unlinkat(w->source.dir, w->source.name, 0);
	w->source.there = false;
}

/* Is the layer's file as its note says it was, apart from its mode and attributes? Then a worker that
 * died has changed it, and not a command. */
static bool
is_noted(struct swap *w, mode_t *ret_mode)
{
	uint64_t was[NOTE_NUMBERS];

	if (w->from_old || note_get(w->old.dir, w->old.name, NOTE_FIT, was) != 0 ||
	    was[1] != (uint64_t)ns_of(w->source.st.st_mtim) ||
	    was[2] != (uint64_t)w->source.st.st_size)
		return false;
	*ret_mode = (mode_t)was[0];
	return true;
}

bool
swap_source_is_unchanged(struct swap *w)
{
	mode_t mode;

	return swap_is_unchanged(w, &w->source, w->item->held) || is_noted(w, &mode);
}

/* Removing an attribute takes the owner's permission to write, which the file need not have. The note
 * keeps its mode, in case that this worker dies while it has another. */
static int
strip(struct swap *w, int fd, mode_t mode)
{
	const uint64_t note[NOTE_NUMBERS] = { mode & 07777, (uint64_t)ns_of(w->source.st.st_mtim),
		(uint64_t)w->source.st.st_size };
	char path[16];

	if (note_put(w->old.dir, w->old.name, NOTE_FIT, note) < 0)
		return -1;
	PAUSE_POINT(PAUSE_SWAP_NOTED);
	snprintf(path, sizeof(path), "%d", fd);
	/* A worker that died may have left it writable. */
	if (fit_strip(fd) == 0)
		return (w->source.st.st_mode & 07777) == (mode & 07777)
		    ? 0
		    : fchmodat(AT_FDCWD, path, mode & 07777, 0);
	if (errno != EACCES)
		return -1;
	if (fchmodat(AT_FDCWD, path, (mode & 07777) | S_IWUSR, 0) < 0)
		return -1;
	PAUSE_POINT(PAUSE_SWAP_OPENED);
	if (fit_strip(fd) < 0)
		return -1;
	PAUSE_POINT(PAUSE_SWAP_STRIPPED);
	return fchmodat(AT_FDCWD, path, mode & 07777, 0);
}

/* The slow part of swap_fit(): the file has marks of overlayfs, or a worker that died may have changed
 * its mode. */
static int
refit(struct swap *w, const struct fit *fit, struct koda_error *err)
{
	cleanup_close int fd =
	    openat(w->source.dir, w->source.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	mode_t mode;
	char path[16];

	if (fd < 0 || fstat(fd, &w->source.st) < 0) {
		swap_failed(w, "open the draft's version of", errno, err);
		return -1;
	}
	if (!swap_is(&w->source, w->item->held)) {
		swap_gone(w, err);
		return -1;
	}
	mode = w->source.st.st_mode;
	snprintf(path, sizeof(path), "%d", fd);
	if (is_noted(w, &mode) && !fit->marked && mode != (w->source.st.st_mode & 07777) &&
	    fchmodat(AT_FDCWD, path, mode, 0) < 0) {
		swap_failed(w, "restore the mode of the draft's version of", errno, err);
		return -1;
	}
	if (fit->marked && strip(w, fd, mode) < 0) {
		swap_failed(w, "remove the overlay's attributes from the draft's version of", errno,
		    err);
		return -1;
	}
	if (fstat(fd, &w->source.st) < 0) {
		swap_failed(w, "examine the draft's version of", errno, err);
		return -1;
	}
	return 0;
}

int
swap_fit(struct swap *w, struct koda_error *err)
{
	const bool doubtful =
	    !w->item->held->has_ctime_ns || ns_of(w->source.st.st_ctim) > w->item->held->ctime_ns;
	struct fit fit;

	if (w->from_old)
		return 0;
	if (fit_look(w->source.dir, w->source.name, &w->source.st, w->me, &fit) < 0) {
		if (errno == ENOENT)
			swap_gone(w, err);
		else
			swap_failed(w, "read the attributes of the draft's version of", errno, err);
		return -1;
	}
	if (fit.rule != NULL) {
		swap_refused(w, fit.rule, fit.reason, err);
		return -1;
	}
	return fit.marked || doubtful ? refit(w, &fit, err) : 0;
}

/* ---- the place ---- */

bool
swap_may_hold(struct swap *w, struct koda_error *err)
{
	if (w->item->has_take && w->item->take)
		return true;
	if (!w->place.there && w->item->here != NULL)
		swap_conflict(w, "no longer exists", err);
	else if (w->place.there && w->item->here == NULL)
		swap_conflict(w, "exists already", err);
	else if (w->place.there && !swap_is(&w->place, w->item->here))
		swap_conflict(w, "was replaced meanwhile", err);
	else if (w->place.there && !swap_is_unchanged(w, &w->place, w->item->here))
		swap_conflict(w, "was changed meanwhile", err);
	else
		return true;
	return false;
}
