/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_differ.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/attributes.h"
#include "worker/draft/draft_hides.h"
#include "worker/draft/draft_judge.h"
#include "worker/files/change.h"
#include "worker/files/tree.h"
#include "worker/say.h"

/* Two files of one size are only compared up to this, which bounds the time of a page by the files
 * that are there. Larger ones count as changed. */
#define COMPARE_MAX ((off_t)1 << 30)

enum difference { SAME, OTHER_CONTENT, OTHER_MODE, OTHER_TIME };

/* ---- comparing ---- */

/* Opens a regular file that was looked at, and nothing else: returns -1 if it is not that any
 * more, or cannot be read. Never waits for a FIFO. */
static int
open_file(int dir, const char *name, const struct stat *was)
{
	cleanup_close int fd =
	    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_dev != was->st_dev ||
	    st.st_ino != was->st_ino)
		return -1;
	return take_fd(&fd);
}

static ssize_t
read_full(int fd, uint8_t *buf, off_t at)
{
	size_t got = 0;

	while (got < DRAFT_BUFFER) {
		ssize_t n = pread(fd, buf + got, DRAFT_BUFFER - got, at + (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

/* Have both files, which had this size, the same content? What cannot be read counts as other
 * content: it is then shown and decided on. */
static bool
same_content(struct draft_walk *w, const struct draft_level *l, const struct draft_name *n)
{
	cleanup_close int upper = -1, lower = -1;

	if (n->up.st.st_size > COMPARE_MAX ||
	    !access_judge(&w->ses->who, ACCESS_OP_READ, w->path, NULL).allowed)
		return false;
	upper = open_file(l->upper, n->name, &n->up.st);
	lower = open_file(l->lower, n->name, &n->low.st);
	if (upper < 0 || lower < 0)
		return false;
	for (off_t at = 0;;) {
		const ssize_t a = read_full(upper, w->buf[0], at);
		const ssize_t b = read_full(lower, w->buf[1], at);

		if (a < 0 || a != b || memcmp(w->buf[0], w->buf[1], (size_t)a) != 0)
			return false;
		if (a < (ssize_t)DRAFT_BUFFER)
			return true;
		at += a;
		if (at > COMPARE_MAX)
			return false;
	}
}

static void
read_target(int dir, const char *name, char ret[PATH_LEN_MAX + 1])
{
	const ssize_t n = readlinkat(dir, name, ret, PATH_LEN_MAX);

	ret[n < 0 ? 0 : n] = '\0';
}

/* How many names a file of the layer has by itself. A draft that was made of a copy, and has not been
 * mounted since, shares its files with that. */
static nlink_t
own_names(const struct draft_walk *w)
{
	return w->ses->draft_mounted_ns < w->ses->draft_made_ns ? 2 : 1;
}

/* make and others go by when a file was changed. A file that overlayfs copied has the project's time,
 * unless the draft's file system keeps whole seconds only. */
static bool
has_other_time(const struct draft_name *n)
{
	const struct timespec *a = &n->up.st.st_mtim, *b = &n->low.st.st_mtim;

	return a->tv_sec != b->tv_sec || (a->tv_nsec != b->tv_nsec && a->tv_nsec != 0);
}

/* Both are of one type. */
static enum difference
compare(struct draft_walk *w, const struct draft_level *l, const struct draft_name *n)
{
	const bool other_mode = ((n->up.st.st_mode ^ n->low.st.st_mode) & 07777) != 0;

	switch (n->up.kind) {
	case UPPER_NONE:
	case UPPER_DELETED:
	case UPPER_SPECIAL:
	case UPPER_UNKNOWN:
		return OTHER_CONTENT;
	case UPPER_LINK:
		return strcmp(w->target_before, w->target_after) == 0 ? SAME : OTHER_CONTENT;
	case UPPER_DIR:
	case UPPER_OPAQUE:
		if (n->fd < 0 || n->low.mounted)
			return OTHER_CONTENT;
		return other_mode ? OTHER_MODE : SAME;
	case UPPER_FILE:
		if (n->up.st.st_size != n->low.st.st_size || n->low.mounted)
			return OTHER_CONTENT;
		if (!attributes_are_same(l->upper, n->name, l->lower, n->name))
			return OTHER_CONTENT;
		/* It has become one file with other names of the draft. */
		if (n->up.st.st_nlink > own_names(w))
			return OTHER_CONTENT;
		if (n->up.st.st_size > 0 && !same_content(w, l, n))
			return OTHER_CONTENT;
		/* Permissions and times are those of all its names, wherever they are. The permissions
		 * alone are changed in place, and the time stays. */
		if (has_other_time(n))
			return other_mode ? OTHER_CONTENT : OTHER_TIME;
		return !other_mode ? SAME : n->low.st.st_nlink > 1 ? OTHER_CONTENT : OTHER_MODE;
	}
	return OTHER_CONTENT;
}

/* ---- changes ---- */

static struct draft_change *
add_change(struct draft_walk *w, Koda__DraftKind kind)
{
	struct draft_change *c = &w->change[w->n_changes++];

	c->kind = kind;
	c->has_before = c->has_after = c->conflict = c->is_refused = false;
	c->entries = 0;
	c->note[0] = '\0';
	return c;
}

/* Did the name in the project change after the draft got its own version? Where the file system did
 * not record when that was, or where both happened in one tick of its clock, it may have. */
static bool
is_conflict(const struct draft_walk *w, const struct draft_level *l, const struct draft_name *n)
{
	const bool upper_has = n->up.kind != UPPER_NONE;
	/* A file that is new may have replaced one that the draft had before: the draft had its own
	 * version at any time since it began. What changed in the tick in which it began was seen. */
	const int64_t since = !upper_has                   ? l->opaque_ns
	    : n->up.kind == UPPER_FILE && !n->up.copied_up ? w->begun_ns + 1
							   : n->up.birth_ns;

	return n->in_project &&
	    (l->renewed || since == 0 || (int64_t)change_ctime_ns(&n->low.st) >= since);
}

static int
add_deleted(struct draft_walk *w, const struct draft_level *l, const struct draft_name *n,
    struct koda_error *err)
{
	struct draft_change *c = add_change(w, KODA__DRAFT_KIND__DRAFT_DELETED);
	const int64_t since = n->up.kind != UPPER_NONE ? n->up.birth_ns : l->opaque_ns;
	int64_t newest = 0;

	c->has_before = true;
	c->conflict = is_conflict(w, l, n);
	if (draft_judge_removal(w, c, &newest, err) < 0)
		return -1;
	/* Something in the directory changed, which its own ctime does not say. */
	c->conflict |= newest >= since;
	return 0;
}

/*
 * Was the last change of the directory in the project one of the names in it? They are decided on by
 * themselves. Permissions that were changed before that are not seen, and are in the history.
 */
static bool
is_about_entries(const struct draft_level *l, const struct draft_name *n)
{
	const struct timespec *m = &n->low.st.st_mtim, *c = &n->low.st.st_ctim;

	/* It must be the directory that the draft has seen. */
	return !l->renewed && S_ISDIR(n->low.st.st_mode) && n->low.birth_ns != 0 &&
	    n->low.birth_ns < n->up.birth_ns && m->tv_sec == c->tv_sec && m->tv_nsec == c->tv_nsec;
}

static int
add_made(struct draft_walk *w, const struct draft_level *l, const struct draft_name *n,
    Koda__DraftKind kind, struct koda_error *err)
{
	struct draft_change *c = add_change(w, kind);

	/* After a deletion nothing is there. */
	c->has_before = kind != KODA__DRAFT_KIND__DRAFT_CREATED;
	c->has_after = true;
	c->conflict = is_conflict(w, l, n) &&
	    !(kind == KODA__DRAFT_KIND__DRAFT_MODE && is_about_entries(l, n));
	if (draft_judge(w, c, err) < 0)
		return -1;
	return c->is_refused || n->up.kind != UPPER_FILE || kind == KODA__DRAFT_KIND__DRAFT_MODE
	    ? 0
	    : draft_hides(w, c, err);
}

/* A name whose type changes is decided on as a whole. */
static void
join_changes(struct draft_walk *w)
{
	struct draft_change *gone = &w->change[0], *made = &w->change[1];

	gone->conflict = made->conflict = gone->conflict || made->conflict;
	if (gone->is_refused && !made->is_refused)
		made->refusal = gone->refusal;
	else if (made->is_refused && !gone->is_refused)
		gone->refusal = made->refusal;
	gone->is_refused = made->is_refused = gone->is_refused || made->is_refused;
}

int
draft_differ(struct draft_walk *w, struct koda_error *err)
{
	const struct draft_level *l = draft_walk_top(w);
	const struct draft_name *n = &w->name;
	const bool deleted = n->up.kind == UPPER_DELETED || (n->up.kind == UPPER_NONE && l->opaque);

	if (n->up.kind == UPPER_NONE && !deleted)
		return 0;
	if (n->in_project && S_ISLNK(n->low.st.st_mode))
		read_target(l->lower, n->name, w->target_before);
	if (n->up.kind == UPPER_LINK)
		read_target(l->upper, n->name, w->target_after);
	if (deleted)
		return n->in_project ? add_deleted(w, l, n, err) : 0;
	if (!n->in_project)
		return add_made(w, l, n, KODA__DRAFT_KIND__DRAFT_CREATED, err);
	if ((n->up.st.st_mode & S_IFMT) != (n->low.st.st_mode & S_IFMT)) {
		if (add_deleted(w, l, n, err) < 0 ||
		    add_made(w, l, n, KODA__DRAFT_KIND__DRAFT_CREATED, err) < 0)
			return -1;
		join_changes(w);
		return 0;
	}
	switch (compare(w, l, n)) {
	case SAME:
		break;
	case OTHER_CONTENT:
		return add_made(w, l, n, KODA__DRAFT_KIND__DRAFT_CHANGED, err);
	case OTHER_MODE:
		return add_made(w, l, n, KODA__DRAFT_KIND__DRAFT_MODE, err);
	case OTHER_TIME:
		/* If another process has made the same change, it has its own time. */
		return is_conflict(w, l, n)
		    ? 0
		    : add_made(w, l, n, KODA__DRAFT_KIND__DRAFT_CHANGED, err);
	}
	return 0;
}
