/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/place_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/notice.h"

/* A directory that contains names of the plan, or is on the way to them. */
struct watched_dir {
	int fd; /* O_RDONLY, with notice; -1: free */
	char *path;
	dev_t dev;
	ino_t ino;
	/* The number of its parent + 1, which reports when this directory is removed or renamed;
	 * 0: none. */
	size_t up;
	size_t first; /* its first place's number + 1; 0: none */
	bool needed;
};

struct place_watch *
place_watch_new(struct koda_error *err)
{
	cleanup_close int mountinfo = -1;
	struct place_watch *w;

	mountinfo = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (mountinfo < 0) {
		err_set(err, KODA_IO, errno, "open the list of mounts");
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	if (w == NULL) {
		err_set(err, KODA_IO, ENOMEM, "watch directories");
		return NULL;
	}
	w->mountinfo = take_fd(&mountinfo);
	return w;
}

int
place_watch_mountinfo_fd(const struct place_watch *w)
{
	return w->mountinfo;
}

/* Open and watch the directory if it is not watched yet. Returns its number + 1, or 0 with
 * errno. */
static size_t
dir_of(struct place_watch *w, const char *path)
{
	cleanup_close int fd = -1;
	cleanup_free char *copy = NULL;
	size_t free_one = w->n_dirs;
	struct stat st;

	/* It was opened a moment ago. If the path leads to another directory now, its parent
	 * reports that. */
	for (size_t i = 0; i < w->n_dirs && w->planning; i++)
		if (w->dir[i].fd >= 0 && strcmp(w->dir[i].path, path) == 0)
			return i + 1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	copy = strdup(path);
	if (fd < 0 || copy == NULL || fstat(fd, &st) < 0)
		return 0;
	for (size_t i = 0; i < w->n_dirs; i++) {
		const struct watched_dir *d = &w->dir[i];

		if (d->fd >= 0 && d->dev == st.st_dev && d->ino == st.st_ino &&
		    strcmp(d->path, path) == 0)
			return i + 1;
		if (d->fd < 0)
			free_one = i;
	}
	if (free_one == w->dirs_size) {
		size_t bigger = w->dirs_size != 0 ? w->dirs_size * 2 : 16;
		struct watched_dir *more = reallocarray(w->dir, bigger, sizeof(*more));

		if (more == NULL)
			return 0;
		w->dir = more;
		w->dirs_size = bigger;
	}
	if (notice_directory(fd) < 0)
		return 0;
	w->dir[free_one] = (struct watched_dir){ take_fd(&fd), take_ptr(&copy), st.st_dev,
		st.st_ino, 0, 0, false };
	if (free_one == w->n_dirs)
		w->n_dirs++;
	return free_one + 1;
}

static void
unhook_place(struct place_watch *w, size_t i)
{
	struct watched_place *p = &w->place[i];
	size_t *at;

	if (p->dir == 0)
		return;
	for (at = &w->dir[p->dir - 1].first; *at != i + 1; at = &w->place[*at - 1].next)
		;
	*at = p->next;
	p->dir = p->next = 0;
}

static void
dir_done(struct watched_dir *d)
{
	close_at(&d->fd);
	free(d->path);
	*d = (struct watched_dir){ .fd = -1 };
}

void
place_watch_prune(struct place_watch *w)
{
	for (size_t i = 0; i < w->n_dirs; i++) {
		w->dir[i].needed = w->dir[i].first != 0;
		if (!w->dir[i].needed)
			w->dir[i].up = 0;
	}
	for (size_t i = 0; i < w->n_dirs; i++)
		if (w->dir[i].up != 0)
			w->dir[w->dir[i].up - 1].needed = true;
	for (size_t i = 0; i < w->n_dirs; i++)
		if (w->dir[i].fd >= 0 && !w->dir[i].needed)
			dir_done(&w->dir[i]);
}

/* Read what the place's name in its watched directory refers to. */
static void
see_place(const struct slot_view *v, const struct watched_place *p, size_t i,
    struct place_sight *ret)
{
	char path[PATH_LEN_MAX + 1];
	size_t len = (size_t)(p->name - v->entry[i].path) + p->name_len;
	struct statx st;

	memcpy(path, v->entry[i].path, len);
	path[len] = '\0';
	*ret = (struct place_sight){ 0 };
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		STATX_INO | STATX_MNT_ID | STATX_BTIME, &st) < 0) {
		ret->errnum = errno;
		return;
	}
	*ret = (struct place_sight){ 0, st.stx_mnt_id, st.stx_ino,
		makedev(st.stx_dev_major, st.stx_dev_minor),
		st.stx_btime.tv_sec * 1000000000 + st.stx_btime.tv_nsec };
}

static bool
is_as_seen(const struct place_sight *a, const struct place_sight *b)
{
	return a->errnum == b->errnum && a->mount == b->mount && a->ino == b->ino &&
	    a->dev == b->dev && a->born == b->born;
}

/* Watch the parent as well: a directory does not report that it was moved or removed itself. */
static void
watch_parent(struct place_watch *w, size_t dir)
{
	char path[PATH_LEN_MAX + 1];
	size_t len = strlen(w->dir[dir - 1].path), up;

	if (w->dir[dir - 1].up != 0 || len <= 1 || len >= sizeof(path))
		return;
	memcpy(path, w->dir[dir - 1].path, len + 1);
	while (path[--len] != '/')
		;
	path[len > 0 ? len : 1] = '\0';
	up = dir_of(w, path);
	w->dir[dir - 1].up = up;
}

void
place_watch_hook(struct place_watch *w, const struct slot_view *v, size_t i)
{
	const char *path = v->entry[i].path;
	char dir[PATH_LEN_MAX + 1];
	struct watched_place *p = &w->place[i];
	size_t len = strlen(path), end;
	size_t tries = 0;

	unhook_place(w, i);
	if (len == 0 || len >= sizeof(dir) || path[0] != '/')
		return;
	/* From the parent upwards, and down again if something missing has appeared meanwhile. */
	for (end = len; end > 0 && tries <= PATH_LEN_MAX; tries++) {
		size_t slash = end, at;
		struct stat st;

		while (path[slash - 1] != '/')
			slash--;
		memcpy(dir, path, slash);
		dir[slash > 1 ? slash - 1 : 1] = '\0';
		at = dir_of(w, dir);
		if (at == 0) {
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
				w->blind = true;
				return;
			}
			end = slash - 1;
			continue;
		}
		p->name = path + slash;
		p->name_len = end - slash;
		/* Before the check below: what comes after it then differs from this. */
		see_place(v, p, i, &p->sight);
		memcpy(dir, path, end);
		dir[end] = '\0';
		if (end < len && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
		    faccessat(AT_FDCWD, dir, R_OK, 0) == 0) {
			end = end + 1 + strcspn(path + end + 1, "/");
			continue;
		}
		watch_parent(w, at);
		p->dir = at;
		p->next = w->dir[at - 1].first;
		w->dir[at - 1].first = i + 1;
		return;
	}
}

enum at_place
place_watch_look(const struct slot_view *v, const struct view_entry *e)
{
	struct statx st;

	if (statx(AT_FDCWD, e->path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_MNT_ID, &st) < 0)
		/* Where stage2's user may not look, no command may either. */
		return errno == ENOENT || errno == ENOTDIR || !e->there ? AT_NOTHING : AT_OURS;
	if (e->there && st.stx_mnt_id == (uint64_t)e->mount_id)
		return AT_OURS;
	/* The plan may mount something on the same place after it. */
	for (const struct view_entry *o = v->entry; e->there && o < v->entry + v->n; o++)
		if (o->there && st.stx_mnt_id == (uint64_t)o->mount_id &&
		    strcmp(o->path, e->path) == 0)
			return AT_OURS;
	return S_ISLNK(st.stx_mode) ? AT_LINK : AT_OTHER;
}

void
place_watch_plan(struct place_watch *w, const struct slot_view *v)
{
	struct watched_place *place = calloc(v->n != 0 ? v->n : 1, sizeof(*place));

	for (size_t i = 0; i < w->n_dirs; i++)
		dir_done(&w->dir[i]);
	w->n_dirs = 0;
	w->blind = place == NULL;
	free(w->place);
	w->place = place;
	w->n_places = place != NULL ? v->n : 0;
	w->planning = true;
	for (size_t i = 0; i < w->n_places; i++) {
		place_watch_hook(w, v, i);
		/* The path has another object than the plan means. The report of missing places
		 * contains it already. */
		place[i].told =
		    !v->entry[i].there && place_watch_look(v, &v->entry[i]) != AT_NOTHING;
		/* A place to be hidden is hidden when it appears, no matter which process makes
		 * it: comparing later is too late. */
		place[i].lost = v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE &&
		    !v->entry[i].there && (!place[i].told || v->entry[i].uncovered);
	}
	w->planning = false;
	place_watch_prune(w);
}

bool
place_watch_is_damaged(const struct place_watch *w, const struct slot_view *v, size_t i)
{
	const struct view_entry *e = &v->entry[i];
	enum at_place at;

	if (!e->there && !(i < w->n_places && w->place[i].lost))
		return false;
	/* A place to be hidden that has appeared is hidden while commands run: see
	 * view_uncover(). */
	if (!e->there && !w->busy && !e->outside && e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE)
		return false;
	at = place_watch_look(v, e);
	/* The target of a link is an entry of its own: linked_places_follow(). */
	if (!e->there && at == AT_LINK && e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE)
		return false;
	return e->there ? at != AT_OURS : at != AT_NOTHING;
}

bool
place_watch_any_damaged(const struct place_watch *w, const struct slot_view *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (place_watch_is_damaged(w, v, i))
			return true;
	return false;
}

bool
place_watch_touch(struct place_watch *w, const struct slot_view *v, int fd)
{
	bool any = false;

	for (size_t d = 0; d < w->n_dirs; d++) {
		struct stat st;
		bool here = w->dir[d].fd >= 0 && (fd < 0 || w->dir[d].fd == fd), self = false;

		/* Its parent has changed: is it still the directory at its path? */
		if (w->dir[d].fd >= 0 && w->dir[d].up != 0 &&
		    (fd < 0 || w->dir[w->dir[d].up - 1].fd == fd))
			self = stat(w->dir[d].path, &st) < 0 || st.st_dev != w->dir[d].dev ||
			    st.st_ino != w->dir[d].ino;
		for (size_t i = here || self ? w->dir[d].first : 0; i != 0;
		     i = w->place[i - 1].next) {
			struct watched_place *p = &w->place[i - 1];
			struct place_sight now;

			see_place(v, p, i - 1, &now);
			/* The place may have changed again between a repair and the check that
			 * follows it. */
			if (!self && is_as_seen(&now, &p->sight) &&
			    !place_watch_is_damaged(w, v, i - 1))
				continue;
			/* Between two checks the object may have gone and another one may have
			 * come. The new one has not been reported. */
			if (!is_as_seen(&now, &p->sight))
				p->told = false;
			p->sight = now;
			p->touched = any = true;
		}
	}
	return any;
}

int
place_watch_add(struct place_watch *w, const struct slot_view *v, size_t i)
{
	struct watched_place *more;

	if (i < w->n_places) {
		unhook_place(w, i);
	} else {
		more = reallocarray(w->place, i + 1, sizeof(*more));
		if (more == NULL)
			return -1;
		w->place = more;
		w->n_places = i + 1;
	}
	w->place[i] = (struct watched_place){ .lost = true };
	place_watch_hook(w, v, i);
	return 0;
}

bool
place_watch_is_blind(const struct place_watch *w)
{
	return w->blind;
}
