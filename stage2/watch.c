#include "stage2/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "shared/bytes.h"
#include "shared/cleanup.h"
#include "stage2/procs.h"
#include "stage2/reap.h"
#include "stage2/view.h"

/* The event comes when a rename on the host begins; until it is through the name is not there. A file that was
 * removed for good costs this time. */
#define REPAIR_WAIT_US 10000
#define REPAIR_STEP_US 100

#define EVENTS_BUFFER (16u << 10) /* in one turn of the loop */
#define FDINFO_SIZE   1024        /* of a socket: five short lines */

#define DIR_MASK                                                                                   \
	(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF |     \
	    IN_ONLYDIR)

/* A directory in which names of the plan are, or the way to them begins. */
struct dir {
	int wd;
	size_t first; /* place + 1, 0: none */
};

/* Of the entry of the plan with the same number. */
struct place {
	size_t dir;       /* + 1, 0: not watched */
	size_t next;      /* of the same directory, + 1 */
	const char *name; /* what to look for there: points into the entry's path */
	size_t name_len;
	bool lost; /* it was mounted, and what was there has gone away */
	bool told; /* that it has appeared */
	bool touched;
};

struct watch {
	int mountinfo, inotify;
	struct place *place;
	size_t n_places;
	struct dir *dir;
	size_t n_dirs, dirs_size;
};

struct watch *
watch_new(struct koda_error *err)
{
	cleanup_close int mountinfo = -1, inotify = -1;
	struct watch *w;

	mountinfo = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (mountinfo < 0) {
		err_set(err, KODA_IO, errno, "open the list of mounts");
		return NULL;
	}
	inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (inotify < 0) {
		err_set(err, KODA_IO, errno, "watch directories");
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	if (w == NULL) {
		err_set(err, KODA_IO, ENOMEM, "watch directories");
		return NULL;
	}
	w->mountinfo = take_fd(&mountinfo);
	w->inotify = take_fd(&inotify);
	return w;
}

int
watch_mountinfo_fd(const struct watch *w)
{
	return w->mountinfo;
}

int
watch_inotify_fd(const struct watch *w)
{
	return w->inotify;
}

static uint64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/*
 * The directories.
 */

/* The directory with that watch, made if need be. Its number + 1, or 0. */
static size_t
dir_of(struct watch *w, int wd)
{
	for (size_t i = 0; i < w->n_dirs; i++)
		if (w->dir[i].wd == wd)
			return i + 1;
	for (size_t i = 0; i < w->n_dirs; i++)
		if (w->dir[i].wd < 0 && w->dir[i].first == 0) {
			w->dir[i].wd = wd;
			return i + 1;
		}
	if (w->n_dirs == w->dirs_size) {
		size_t bigger = w->dirs_size != 0 ? w->dirs_size * 2 : 16;
		struct dir *more = reallocarray(w->dir, bigger, sizeof(*more));

		if (more == NULL)
			return 0;
		w->dir = more;
		w->dirs_size = bigger;
	}
	w->dir[w->n_dirs] = (struct dir){ .wd = wd };
	return ++w->n_dirs;
}

static void
unhook(struct watch *w, size_t i)
{
	struct place *p = &w->place[i];
	size_t *at;

	if (p->dir == 0)
		return;
	for (at = &w->dir[p->dir - 1].first; *at != i + 1; at = &w->place[*at - 1].next)
		;
	*at = p->next;
	p->dir = p->next = 0;
}

/* Give up the watches that nobody needs any more. */
static void
prune(struct watch *w)
{
	for (size_t i = 0; i < w->n_dirs; i++)
		if (w->dir[i].wd >= 0 && w->dir[i].first == 0) {
			inotify_rm_watch(w->inotify, w->dir[i].wd);
			w->dir[i].wd = -1;
		}
}

/*
 * Watch the nearest directory that is there on the way to the entry. A limit of the kernel's on watches leaves an
 * entry without: then the comparison after the command is what notices.
 */
static void
hook(struct watch *w, const struct view *v, size_t i)
{
	const char *path = v->entry[i].path;
	char dir[PATH_LEN_MAX + 1];
	struct place *p = &w->place[i];
	size_t len = strlen(path), end;
	size_t tries = 0;

	unhook(w, i);
	if (len == 0 || len >= sizeof(dir) || path[0] != '/')
		return;
	/* From the parent upwards; and down again when what was missing has come meanwhile. */
	for (end = len; end > 0 && tries <= PATH_LEN_MAX; tries++) {
		size_t slash = end;
		struct stat st;
		int wd;

		while (path[slash - 1] != '/')
			slash--;
		memcpy(dir, path, slash);
		dir[slash > 1 ? slash - 1 : 1] = '\0';
		wd = inotify_add_watch(w->inotify, dir, DIR_MASK);
		if (wd < 0) {
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
				return;
			end = slash - 1;
			continue;
		}
		memcpy(dir, path, end);
		dir[end] = '\0';
		if (end < len && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
		    access(dir, R_OK) == 0) {
			end = end + 1 + strcspn(path + end + 1, "/");
			(void)dir_of(w, wd); /* for prune() */
			continue;
		}
		p->dir = dir_of(w, wd);
		if (p->dir == 0)
			return;
		p->name = path + slash;
		p->name_len = end - slash;
		p->next = w->dir[p->dir - 1].first;
		w->dir[p->dir - 1].first = i + 1;
		return;
	}
}

/* What is at the entry's path now. */
enum at { AT_NOTHING, AT_OURS, AT_OTHER };

static enum at
look(const struct view *v, const struct view_entry *e)
{
	struct statx st;

	if (statx(AT_FDCWD, e->path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_MNT_ID, &st) < 0)
		/* Where we may not look, as the user that we are, no command may either. */
		return errno == ENOENT || errno == ENOTDIR || !e->there ? AT_NOTHING : AT_OURS;
	if (e->there && st.stx_mnt_id == (uint64_t)e->mount_id)
		return AT_OURS;
	/* The plan may cover what it covers once more. */
	for (const struct view_entry *o = v->entry; e->there && o < v->entry + v->n; o++)
		if (o->there && st.stx_mnt_id == (uint64_t)o->mount_id &&
		    strcmp(o->path, e->path) == 0)
			return AT_OURS;
	return AT_OTHER;
}

void
watch_plan(struct watch *w, const struct view *v)
{
	struct place *place = calloc(v->n != 0 ? v->n : 1, sizeof(*place));

	for (size_t i = 0; i < w->n_dirs; i++)
		if (w->dir[i].wd >= 0)
			inotify_rm_watch(w->inotify, w->dir[i].wd);
	w->n_dirs = 0;
	free(w->place);
	w->place = place;
	w->n_places = place != NULL ? v->n : 0;
	for (size_t i = 0; i < w->n_places; i++) {
		hook(w, v, i);
		/* There, and not what the plan means: it is among those that are said to be missing. */
		place[i].told = !v->entry[i].there && look(v, &v->entry[i]) != AT_NOTHING;
		/* What is to be hidden is hidden when it comes, whoever makes it: a comparison later is too late. */
		place[i].lost = v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE &&
		    !v->entry[i].there && !place[i].told;
	}
}

static DIR *
open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (dir == NULL)
		close_at(&fd);
	return dir;
}

static void
close_dir(DIR **dir)
{
	if (*dir != NULL)
		closedir(*dir);
}

/*
 * What was replaced, and who holds it.
 */

struct replaced {
	size_t entry;
	uint64_t dev[2], ino[2]; /* before, and now */
	bool directory;          /* now */
	bool content;            /* its content is protected, not only its name */
	bool hidden;             /* against reading as well */
};

struct replacements {
	struct replaced *v;
	size_t n;
};

static void
replacements_done(struct replacements *r)
{
	free(r->v);
}

static bool
is_replaced(const struct replacements *all, uint64_t dev, uint64_t ino, bool writes)
{
	for (size_t i = 0; i < all->n; i++)
		for (int k = 0; k < 2; k++)
			if (all->v[i].content && (writes || all->v[i].hidden) && ino != 0 &&
			    all->v[i].ino[k] == ino && all->v[i].dev[k] == dev)
				return true;
	return false;
}

/* Does that path lie in a directory that was replaced, on a mount that is not what we put there or into it? */
static bool
is_around(const struct view *v, const struct replacements *all, const char *path, uint64_t mount,
    bool writes)
{
	for (size_t i = 0; i < all->n; i++) {
		const char *dir = v->entry[all->v[i].entry].path;
		bool ours = false;

		if (!all->v[i].content || !(writes || all->v[i].hidden) || !all->v[i].directory ||
		    !path_is_inside(path, dir))
			continue;
		for (size_t k = 0; k < v->n && !ours; k++)
			ours = v->entry[k].there && (uint64_t)v->entry[k].mount_id == mount &&
			    path_is_inside(v->entry[k].path, dir);
		if (!ours)
			return true;
	}
	return false;
}

/* The file system that a link of proc leads to, and how it is mounted there. */
static int
mount_of(int dir, const char *name, struct statvfs *ret)
{
	cleanup_close int fd = openat(dir, name, O_PATH | O_CLOEXEC);

	return fd < 0 ? -1 : fstatvfs(fd, ret);
}

/*
 * A socket in which descriptors wait to be received: nobody can say which, and who holds it can have them. (Linux 5.6;
 * before that it does not show.)
 */
static bool
carries(int dir, const char *name)
{
	static const char field[] = "scm_fds:";
	char path[64], *line = NULL;
	bool some = false;
	size_t size = 0;
	FILE *info;
	int fd;

	snprintf(path, sizeof(path), "../fdinfo/%.16s", name);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	info = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (info == NULL) {
		close_at(&fd);
		return false;
	}
	/* To its end: before that come locks, of which there may be as many as somebody wants. */
	while (!some && getline(&line, &size, info) > 0)
		some = strncmp(line, field, sizeof(field) - 1) == 0 &&
		    strtoul(line + sizeof(field) - 1, NULL, 10) > 0;
	free(line);
	fclose(info);
	return some;
}

/*
 * Is this descriptor (or working directory) a way to change what is protected now, around our mount? link is its name
 * in proc; where it says how it was opened, `says`.
 */
static bool
is_way_around(const struct view *v, const struct replacements *all, int dir, const char *name,
    bool says)
{
	char path[PATH_LEN_MAX + 1];
	bool writes = true; /* through a directory */
	struct statvfs fs;
	struct statx st;
	struct stat link;
	ssize_t n;

	if (statx(dir, name, AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0)
		return false;
	/* However it was opened: what lies on no read-only mount can be opened again, by its number, to be written. */
	if (S_ISREG(st.stx_mode) && says && fstatat(dir, name, &link, AT_SYMLINK_NOFOLLOW) == 0)
		writes = (link.st_mode & S_IWUSR) != 0 || mount_of(dir, name, &fs) < 0 ||
		    (fs.f_flag & ST_RDONLY) == 0;
	else if (!S_ISDIR(st.stx_mode))
		return S_ISSOCK(st.stx_mode) && says && carries(dir, name);
	if (S_ISREG(st.stx_mode) &&
	    is_replaced(all, makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino, writes))
		return true;
	n = readlinkat(dir, name, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	return is_around(v, all, path, st.stx_mnt_id, writes);
}

static bool
holds_descriptor(const struct view *v, const struct replacements *all, int proc, const char *fds)
{
	cleanup(close_dir) DIR *dir = open_dir(proc, fds);
	const struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (d->d_name[0] != '.' && is_way_around(v, all, dirfd(dir), d->d_name, true))
			return true;
	return false;
}

/* A mapping of it, shared or of what is hidden. Whether the file was open for writing does not show: it is taken for
 * that. */
static bool
holds_mapping(const struct replacements *all, int proc, const char *name)
{
	char *line = NULL;
	size_t size = 0;
	bool holds = false;
	FILE *maps;
	int fd;

	fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
	maps = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (maps == NULL) {
		close_at(&fd);
		return false;
	}
	while (!holds && getline(&line, &size, maps) > 0) {
		unsigned long maj, min;
		uint64_t ino;
		char *at = strchr(line, ' ');

		/* from-to perms offset maj:min ino path */
		bool shared;

		if (at == NULL || strlen(at) < sizeof(" rwxs "))
			continue;
		shared = at[4] == 's';
		strtoull(at + 5, &at, 16);
		maj = strtoul(at, &at, 16);
		min = *at == ':' ? strtoul(at + 1, &at, 16) : 0;
		ino = strtoull(at, NULL, 10);
		for (size_t i = 0; i < all->n && !holds; i++)
			for (int k = 0; k < 2; k++)
				/* Of an unnamed device (btrfs, overlayfs) the numbers here are others. */
				if (all->v[i].content && (shared || all->v[i].hidden) && ino != 0 &&
				    all->v[i].ino[k] == ino &&
				    (all->v[i].dev[k] == makedev((unsigned)maj, (unsigned)min) ||
					maj == 0))
					holds = true;
	}
	free(line);
	fclose(maps);
	return holds;
}

static bool
is_dead(char state)
{
	return strchr("ZXx", state) != NULL;
}

static bool
holds(const struct view *v, const struct replacements *all, int proc, const struct proc *p)
{
	cleanup(close_dir) DIR *tasks = NULL;
	const struct dirent *d;
	char name[64], pid[16];

	snprintf(pid, sizeof(pid), "%d", p->pid);
	snprintf(name, sizeof(name), "%d/fd", p->pid);
	if (holds_descriptor(v, all, proc, name))
		return true;
	snprintf(name, sizeof(name), "%d/maps", p->pid);
	if (holds_mapping(all, proc, name))
		return true;
	snprintf(name, sizeof(name), "%d/cwd", p->pid);
	if (is_way_around(v, all, proc, name, false))
		return true;
	/* Threads may have descriptors and working directories of their own. */
	snprintf(name, sizeof(name), "%d/task", p->pid);
	tasks = open_dir(proc, name);
	while (tasks != NULL && (d = readdir(tasks)) != NULL) {
		long tid = strtol(d->d_name, NULL, 10);

		if (tid <= 0 || tid == p->pid)
			continue;
		/* Of a first thread that has ended there are no mappings. */
		snprintf(name, sizeof(name), "%s/task/%ld/maps", pid, tid);
		if (is_dead(p->state) && holds_mapping(all, proc, name))
			return true;
		if (syscall(SYS_kcmp, p->pid, tid, KCMP_FILES, 0, 0) != 0) {
			snprintf(name, sizeof(name), "%s/task/%ld/fd", pid, tid);
			if (holds_descriptor(v, all, proc, name))
				return true;
		}
		if (syscall(SYS_kcmp, p->pid, tid, KCMP_FS, 0, 0) != 0) {
			snprintf(name, sizeof(name), "%s/task/%ld/cwd", pid, tid);
			if (is_way_around(v, all, proc, name, false))
				return true;
		}
	}
	return false;
}

/* SIGKILL for who holds it. */
static uint64_t
end_holders(const struct stage2 *s, const struct replacements *all, const struct procs *who)
{
	uint64_t ended = 0;

	for (size_t i = 0; i < who->n; i++) {
		const struct proc *p = &who->v[i];

		/* What its first thread says is not true of the others. */
		if (p->pid == 1 || (p->parent == 1 && commands_is_ours(s, p->pid)) ||
		    (is_dead(p->state) && p->threads <= 1) || !holds(s->view, all, s->proc_fd, p))
			continue;
		if (kill(p->pid, SIGKILL) == 0)
			ended++;
	}
	return ended;
}

/*
 * Mending.
 */

static bool
is_damaged(const struct watch *w, const struct view *v, size_t i)
{
	const struct view_entry *e = &v->entry[i];
	enum at at;

	if (!e->there && !(i < w->n_places && w->place[i].lost))
		return false;
	at = look(v, e);
	return e->there ? at != AT_OURS : at != AT_NOTHING;
}

static bool
any_damaged(const struct watch *w, const struct view *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (is_damaged(w, v, i))
			return true;
	return false;
}

static bool
collect(const struct watch *w, const struct view *v, struct replacements *ret)
{
	ret->v = calloc(v->n, sizeof(*ret->v));
	if (ret->v == NULL)
		return false;
	for (size_t i = 0; i < v->n; i++)
		if (is_damaged(w, v, i))
			ret->v[ret->n++] = (struct replaced){ .entry = i,
				.dev = { v->entry[i].mounted_dev },
				.ino = { v->entry[i].mounted_ino },
				.content = v->entry[i].kind != KODA__MOUNT_KIND__MOUNT_KIND_PIN &&
				    v->entry[i].kind != KODA__MOUNT_KIND__MOUNT_KIND_WRITABLE_HOLE,
				.hidden = v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE };
	return true;
}

static void
repair(struct stage2 *s, const struct replacements *gone)
{
	uint64_t until = now_us() + REPAIR_WAIT_US;
	const struct timespec step = { 0, REPAIR_STEP_US * 1000 };
	struct koda_error err = { 0 };
	size_t lost;

	for (;;) {
		/* What came back after it was lost is for the view what was mounted and is not any more. */
		for (size_t i = 0; i < gone->n; i++) {
			struct view_entry *e = &s->view->entry[gone->v[i].entry];

			if (e->there)
				continue;
			e->there = true;
			e->mount_id = -1;
		}
		lost = 0;
		if (view_repair(s->view, &lost, &err) < 0)
			_exit(1); /* nobody knows any more what is writable: everything ends */
		if (lost == 0 || now_us() >= until)
			return;
		nanosleep(&step, NULL);
	}
}

/* The whole of it: stop, mount, end, go on, report. */
static void
mend(struct stage2 *s)
{
	cleanup(procs_done) struct procs all = PROCS_EMPTY;
	cleanup(replacements_done) struct replacements gone = { 0 };
	struct watch *w = s->watch;
	struct view *v = s->view;
	uint64_t begun = now_us(), took, ended;

	/* Those who wake each other up with SIGCONT, or are so many that it takes long to look at them, do not keep us from
	 * the mounts. */
	if (procs_stop_begin() < 0 || !collect(w, v, &gone))
		_exit(1); /* nobody knows any more what is writable: everything ends */
	repair(s, &gone);
	/* Who is awake could hand on what he holds, to a child that is not looked at. */
	if (procs_stop_wait_for_all(s->proc_fd, &all, commands_is_ours, s) < 0)
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
	ended = end_holders(s, &gone, &all);
	procs_go_on(&all);
	took = now_us() - begun;
	for (size_t i = 0; i < gone.n; i++) {
		size_t n = gone.v[i].entry;
		const struct view_entry *e = &v->entry[n];

		stage2_event(s,
		    e->there ? KODA__EVENT_KIND__EVENT_KIND_REMOUNTED
			     : KODA__EVENT_KIND__EVENT_KIND_LOST,
		    e->path, took, i == 0 ? ended : 0);
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
	/* Our own mounting says so too. */
	if (any_damaged(s->watch, s->view))
		mend(s);
}

static void
touch(struct watch *w, const struct inotify_event *event)
{
	bool all = (event->mask & IN_Q_OVERFLOW) != 0;
	bool self = (event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) != 0;
	size_t len = event->len > 0 ? strlen(event->name) : 0;

	for (size_t d = 0; d < w->n_dirs; d++) {
		if (!all && w->dir[d].wd != event->wd)
			continue;
		for (size_t i = w->dir[d].first; i != 0; i = w->place[i - 1].next) {
			struct place *p = &w->place[i - 1];

			if (!all && !self &&
			    (p->name_len != len || memcmp(p->name, event->name, len) != 0))
				continue;
			p->touched = true;
			/* Gone and here again is one look: it is another one than what was told of. */
			if (!all && !self)
				p->told = false;
		}
		if (!self)
			continue;
		/* It is another directory's business from now on, or nobody's. Who was here hooks anew. */
		if ((event->mask & IN_IGNORED) == 0)
			inotify_rm_watch(w->inotify, w->dir[d].wd);
		w->dir[d].wd = -1;
	}
}

void
watch_appeared(struct stage2 *s)
{
	_Alignas(struct inotify_event) uint8_t buf[EVENTS_BUFFER];
	struct watch *w = s->watch;
	ssize_t n = read(w->inotify, buf, sizeof(buf));
	bool damaged = false;

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const struct inotify_event *)(buf + at);

		touch(w, event);
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	for (size_t i = 0; i < w->n_places; i++) {
		const struct view_entry *e = &s->view->entry[i];
		struct place *p = &w->place[i];

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
	prune(w);
	if (damaged)
		mend(s);
}
