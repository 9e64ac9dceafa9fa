#include "stage2/watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "stage2/caches.h"
#include "stage2/follow.h"
#include "stage2/holders.h"
#include "stage2/links.h"
#include "stage2/notice.h"
#include "stage2/procs.h"
#include "stage2/strangers.h"
#include "stage2/view.h"

/* The event arrives when a rename on the host begins, and the name does not exist until the
 * rename is complete. Waiting costs this time if a file was removed for good. */
#define REPAIR_WAIT_US 10000
#define REPAIR_STEP_US 100

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

/* What a name referred to when it was checked. These differ for another object. */
struct place_sight {
	int errnum;
	uint64_t mount, ino;
	dev_t dev;
	int64_t born;
};

/* What is known about the entry of the plan with the same number. */
struct watched_place {
	size_t dir;  /* number + 1; 0: not watched */
	size_t next; /* of the next place in the directory, + 1 */
	/* The name to look for in the directory. Points into the entry's path. */
	const char *name;
	size_t name_len;
	struct place_sight sight;
	/* To be mounted when it appears: what was mounted there has gone, or it is to be hidden. */
	bool lost;
	bool told; /* its appearance was reported */
	bool touched;
};

struct place_watch {
	int mountinfo;
	struct watched_place *place;
	size_t n_places;
	struct watched_dir *dir;
	size_t n_dirs, dirs_size;
	/* A directory is not watched: the kernel does not signal, or there are no descriptors
	 * left. */
	bool blind;
	bool planning; /* everything watched was opened for this plan */
	bool busy;     /* a command runs or is about to: hide late places */
};

struct place_watch *
watch_new(struct koda_error *err)
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
watch_mountinfo_fd(const struct place_watch *w)
{
	return w->mountinfo;
}

/* Directories. */

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
unhook(struct place_watch *w, size_t i)
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

/* Stop watching directories that no place needs any more. */
static void
prune(struct place_watch *w)
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
see(const struct slot_view *v, const struct watched_place *p, size_t i, struct place_sight *ret)
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

/*
 * Watch the nearest existing directory on the way to the entry. If this fails for an entry, it is
 * checked from time to time (watch_look()).
 */
static void
hook(struct place_watch *w, const struct slot_view *v, size_t i)
{
	const char *path = v->entry[i].path;
	char dir[PATH_LEN_MAX + 1];
	struct watched_place *p = &w->place[i];
	size_t len = strlen(path), end;
	size_t tries = 0;

	unhook(w, i);
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
		memcpy(dir, path, end);
		dir[end] = '\0';
		if (end < len && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
		    faccessat(AT_FDCWD, dir, R_OK, 0) == 0) {
			end = end + 1 + strcspn(path + end + 1, "/");
			continue;
		}
		watch_parent(w, at);
		p->dir = at;
		p->name = path + slash;
		p->name_len = end - slash;
		see(v, p, i, &p->sight);
		p->next = w->dir[at - 1].first;
		w->dir[at - 1].first = i + 1;
		return;
	}
}

/* What is at the entry's path now. */
enum at { AT_NOTHING, AT_OURS, AT_OTHER, AT_LINK };

static enum at
look(const struct slot_view *v, const struct view_entry *e)
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
watch_plan(struct place_watch *w, const struct slot_view *v)
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
		hook(w, v, i);
		/* Something is there that the plan does not mean: it has been reported among the
		 * missing places. */
		place[i].told = !v->entry[i].there && look(v, &v->entry[i]) != AT_NOTHING;
		/* A place to be hidden is hidden when it appears, no matter which process makes
		 * it: comparing later is too late. */
		place[i].lost = v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE &&
		    !v->entry[i].there && (!place[i].told || v->entry[i].uncovered);
	}
	w->planning = false;
	prune(w);
}

/*
 * Mending.
 */

static void
replacements_done(struct replacements *r)
{
	free(r->v);
}

static bool
is_damaged(const struct place_watch *w, const struct slot_view *v, size_t i)
{
	const struct view_entry *e = &v->entry[i];
	enum at at;

	if (!e->there && !(i < w->n_places && w->place[i].lost))
		return false;
	/* A place to be hidden that has appeared is hidden while commands run: see
	 * view_uncover(). */
	if (!e->there && !w->busy && !e->outside && e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE)
		return false;
	at = look(v, e);
	/* The target of a link is an entry of its own: follow_links(). */
	if (!e->there && at == AT_LINK && e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE)
		return false;
	return e->there ? at != AT_OURS : at != AT_NOTHING;
}

static bool
any_damaged(const struct place_watch *w, const struct slot_view *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (is_damaged(w, v, i))
			return true;
	return false;
}

static bool
collect(const struct place_watch *w, const struct slot_view *v, struct replacements *ret)
{
	ret->v = calloc(v->n, sizeof(*ret->v));
	if (ret->v == NULL)
		return false;
	for (size_t i = 0; i < v->n; i++) {
		const struct view_entry *e = &v->entry[i];
		struct replaced *r = &ret->v[ret->n];
		struct stat st;

		if (!is_damaged(w, v, i))
			continue;
		*r = (struct replaced){ .entry = i,
			.dev = { e->mounted_dev },
			.ino = { e->mounted_ino },
			.content = e->kind != KODA__MOUNT_KIND__MOUNT_KIND_PIN &&
			    e->kind != KODA__MOUNT_KIND__MOUNT_KIND_WRITABLE_HOLE,
			.hidden = e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE,
			.again = e->uncovered,
			.came = !e->there && e->mounted_ino == 0 };
		/* It has just appeared: until it is hidden, what is there now could be opened. */
		if (!e->there && lstat(e->path, &st) == 0) {
			r->dev[0] = st.st_dev;
			r->ino[0] = st.st_ino;
			r->directory = S_ISDIR(st.st_mode);
		}
		ret->n++;
	}
	return true;
}

static void
repair(struct stage2 *s, const struct replacements *gone)
{
	uint64_t until = monotonic_us() + REPAIR_WAIT_US;
	const struct timespec step = { 0, REPAIR_STEP_US * 1000 };
	struct koda_error err = { 0 };
	size_t lost;

	for (;;) {
		/* For the view, what came back after it was lost is a mount that has
		 * disappeared. */
		for (size_t i = 0; i < gone->n; i++) {
			struct view_entry *e = &s->view->entry[gone->v[i].entry];

			if (e->there)
				continue;
			e->there = true;
			e->mount_id = -1;
		}
		lost = 0;
		if (view_repair(s->view, &lost, &err) < 0)
			_exit(1); /* what is writable is unknown now: end everything */
		links_plan(s->links, s->view);
		if (lost == 0 || monotonic_us() >= until)
			return;
		nanosleep(&step, NULL);
	}
}

static Koda__EventKind
kind_of(const struct view_entry *e, const struct replaced *r)
{
	if (!e->there)
		return KODA__EVENT_KIND__EVENT_KIND_LOST;
	return r->came && r->hidden ? KODA__EVENT_KIND__EVENT_KIND_HIDDEN
				    : KODA__EVENT_KIND__EVENT_KIND_REMOUNTED;
}

/* Repair everything: stop the processes, mount again, end holders, continue the others, report. */
static void
mend(struct stage2 *s)
{
	cleanup(procs_done) struct procs all = PROCS_EMPTY;
	cleanup(replacements_done) struct replacements gone = { 0 };
	struct place_watch *w = s->watch;
	struct slot_view *v = s->view;
	uint64_t begun = monotonic_us(), took, ended;

	/* The mounts do not wait until all have stopped: processes that wake each other up with
	 * SIGCONT, or are so many that checking them takes long, must not delay the mounts. */
	if (procs_stop_begin() < 0 || !collect(w, v, &gone))
		_exit(1); /* what is writable is unknown now: end everything */
	repair(s, &gone);
	/* A process that still runs could pass what it holds to a child that is not checked. */
	if (procs_stop_wait_for_all(s->proc_fd, &all, strangers_is_ours, s) < 0)
		_exit(1);
	for (size_t i = 0; i < gone.n; i++) {
		const struct view_entry *e = &v->entry[gone.v[i].entry];
		struct stat st;

		if (!e->there)
			continue;
		gone.v[i].dev[1] = e->mounted_dev;
		gone.v[i].ino[1] = e->mounted_ino;
		gone.v[i].directory = lstat(e->path, &st) == 0 && S_ISDIR(st.st_mode);
	}
	ended = holders_end(s, &gone, &all);
	procs_go_on(&all);
	took = monotonic_us() - begun;
	for (size_t i = 0; i < gone.n; i++) {
		size_t n = gone.v[i].entry;
		const struct view_entry *e = &v->entry[n];

		if (!gone.v[i].again || !e->there)
			stage2_event(s, kind_of(e, &gone.v[i]), e->path, took, i == 0 ? ended : 0);
		v->entry[n].uncovered = false;
		if (n < w->n_places) {
			w->place[n].lost = !e->there;
			w->place[n].told = false;
			hook(w, v, n);
		}
	}
}

void
watch_mounts_changed(struct stage2 *s)
{
	const char *lost = caches_lost(s->view);

	/* The mount cannot be made again while commands run: the host makes another slot. */
	if (lost != NULL) {
		fprintf(stderr,
		    "koda-sandbox-stage2: somebody has removed '%.200s', on which a cache was mounted\n",
		    lost);
		_exit(1);
	}
	/* Our own mounts cause this event as well. */
	if (any_damaged(s->watch, s->view))
		mend(s);
}

/* Names in that directory have changed, or in any (-1). Mark the places that may have changed
 * with them. Returns true if there are any. */
static bool
touch(struct place_watch *w, const struct slot_view *v, int fd)
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

			see(v, p, i - 1, &now);
			/* It may have changed again after a repair and before the check that
			 * follows it. */
			if (!self && is_as_seen(&now, &p->sight) && !is_damaged(w, v, i - 1))
				continue;
			/* It may have gone and come back between two checks. Then it is not the
			 * one that was reported. */
			if (!is_as_seen(&now, &p->sight))
				p->told = false;
			p->sight = now;
			p->touched = any = true;
		}
	}
	return any;
}

/* Returns true if commands can write the nearest existing directory above path. Only a link that
 * leads there is treated as a way around the rule. */
static bool
is_writable(const char *path)
{
	char dir[PATH_LEN_MAX + 1];
	size_t len = strlen(path);
	struct statvfs fs;

	if (len >= sizeof(dir))
		return false;
	memcpy(dir, path, len + 1);
	for (;;) {
		while (len > 1 && dir[--len] != '/')
			;
		dir[len] = '\0';
		if (len <= 1)
			return false;
		if (statvfs(dir, &fs) == 0)
			return (fs.f_flag & ST_RDONLY) == 0;
	}
}

static int
watch_one_more(struct place_watch *w, const struct slot_view *v, size_t i)
{
	struct watched_place *more;

	if (i < w->n_places) {
		unhook(w, i);
	} else {
		more = reallocarray(w->place, i + 1, sizeof(*more));
		if (more == NULL)
			return -1;
		w->place = more;
		w->n_places = i + 1;
	}
	w->place[i] = (struct watched_place){ .lost = true };
	hook(w, v, i);
	return 0;
}

/* Look for links on the way to places that are to be hidden and do not exist. Returns true if
 * there is a new target. */
static bool
follow_links_once(struct stage2 *s)
{
	struct slot_view *v = s->view;
	char path[PATH_MAX];
	bool found = false;
	size_t at;

	for (size_t i = 0, n = v->n; i < n; i++) {
		const struct view_entry *e = &v->entry[i];
		int r;

		if (e->kind != KODA__MOUNT_KIND__MOUNT_KIND_HIDE || e->outside || e->there ||
		    e->linked || !follow_path(e->path, path) || !is_writable(path))
			continue;
		r = view_add_linked(v, path, &at);
		if (r < 0 || (r > 0 && watch_one_more(s->watch, v, at) < 0))
			_exit(1); /* a place to be hidden would stay visible */
		found = found || r > 0;
	}
	return found;
}

/* Repeat this, because a link may have changed before its target was watched. */
static void
follow_links(struct stage2 *s)
{
	for (int i = 0; i < VIEW_LINKED_MAX && follow_links_once(s); i++)
		;
}

static void
look_at_touched(struct stage2 *s)
{
	struct place_watch *w = s->watch;
	bool damaged = false;

	for (size_t i = 0; i < w->n_places; i++) {
		const struct view_entry *e = &s->view->entry[i];
		struct watched_place *p = &w->place[i];

		if (!p->touched)
			continue;
		p->touched = false;
		hook(w, s->view, i);
		if (e->there || p->lost) {
			damaged = damaged || is_damaged(w, s->view, i);
			continue;
		}
		if (look(s->view, e) == AT_NOTHING) {
			p->told = false;
		} else if (!p->told) {
			p->told = true;
			stage2_event(s, KODA__EVENT_KIND__EVENT_KIND_APPEARED, e->path, 0, 0);
		}
	}
	follow_links(s);
	prune(w);
	if (damaged || any_damaged(w, s->view))
		mend(s);
}

void
watch_names_changed(struct stage2 *s, int fd)
{
	view_changed(s->view, fd);
	if (touch(s->watch, s->view, fd))
		look_at_touched(s);
}

bool
watch_is_blind(const struct place_watch *w)
{
	return w->blind;
}

void
watch_look(struct stage2 *s)
{
	view_catch_up(s->view);
	if (!s->watch->blind)
		return;
	for (size_t i = 0; i < s->watch->n_places; i++)
		s->watch->place[i].touched = true;
	look_at_touched(s);
	watch_mounts_changed(s);
}

void
watch_busy(struct stage2 *s)
{
	bool waiting = false;

	s->watch->busy = true;
	watch_look(s);
	follow_links(s);
	for (size_t i = 0; i < s->view->n && !waiting; i++) {
		const struct view_entry *e = &s->view->entry[i];

		waiting = e->uncovered || e->linked ||
		    (!e->masked && i < s->watch->n_places && s->watch->place[i].lost);
	}
	if (waiting)
		watch_mounts_changed(s);
}

void
watch_idle(struct stage2 *s)
{
	struct place_watch *w = s->watch;

	w->busy = false;
	if (view_uncover(s->view) == 0)
		return;
	for (size_t i = 0; i < w->n_places; i++)
		w->place[i].lost =
		    w->place[i].lost || (s->view->entry[i].late && !s->view->entry[i].there);
}
