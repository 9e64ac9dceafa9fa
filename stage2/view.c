#include "stage2/view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "shared/bytes.h"
#include "shared/cleanup.h"

/* Of the C library's or the kernel's header, whichever is older. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/* Unmounting what was mounted, again as long as there is some; a mount that was moved away meanwhile is found by then. */
#define UNMOUNT_TRIES 4

/* Mounts that are not where they were: so many are remembered before it is looked which of them there are. */
#define FORMER_MAX 256

static int
sys_open_tree(int fd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, fd, path, flags);
}

/* Put the detached mount where fd is. */
static int
attach(int mount_fd, int fd)
{
	return (int)syscall(SYS_move_mount, mount_fd, "", fd, "",
	    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int
make_read_only(int mount_fd, unsigned recursive)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	return (int)syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | recursive, &attr,
	    sizeof(attr));
}

/* A copy of what is mounted there, with all below it. */
static int
clone_mount(int fd)
{
	return sys_open_tree(fd, "",
	    AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static int
new_tmpfs(void)
{
	cleanup_close int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

/* No link on the way is followed: the host has resolved it, so one that is there now was put there since. */
static int
resolve(int dir, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static int64_t
mount_id(int fd)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0 ||
	    (st.stx_mask & STATX_MNT_ID) == 0)
		return -1;
	return (int64_t)st.stx_mnt_id;
}

/* ---- once ---- */

static int
make_hidden(struct koda_error *err)
{
	cleanup_close int run = -1, koda = -1, at = -1, fs = -1, dir = -1, file = -1;

	run = resolve(AT_FDCWD, "/run");
	if (run >= 0 && mkdirat(run, "koda", 0755) < 0 && errno != EEXIST)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '/run/koda'");
	koda = run < 0 ? -1 : resolve(run, "koda");
	if (koda < 0 || (mkdirat(koda, "hidden", 0755) < 0 && errno != EEXIST) ||
	    (at = resolve(koda, "hidden")) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '%s'", VIEW_HIDDEN);
	fs = new_tmpfs();
	if (fs < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make a file system in memory");
	if (mkdirat(fs, "directory", 0555) < 0 ||
	    (file = openat(fs, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0)) < 0 ||
	    (dir = openat(fs, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    fchmod(dir, 0555) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "what hides in '%s'", VIEW_HIDDEN);
	close(take_fd(&file)); /* nothing is made read-only that somebody writes */
	if (attach(fs, at) < 0 || make_read_only(fs, 0) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "mount '%s'", VIEW_HIDDEN);
	return take_fd(&fs);
}

struct view *
view_new(struct koda_error *err)
{
	cleanup_free struct view *v = calloc(1, sizeof(*v));

	if (v == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "view");
		return NULL;
	}
	/* bwrap's mount namespace belongs to the user namespace outside ours: in a copy of it we may mount. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		err_set(err, KODA_UNSUPPORTED, errno, "mount namespace");
		return NULL;
	}
	v->hidden_fd = make_hidden(err);
	return v->hidden_fd < 0 ? NULL : take_ptr(&v);
}

/* ---- undo ---- */

static bool
is_ours(const struct view *v, int id)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->entry[i].there && v->entry[i].mount_id == id)
			return true;
	for (size_t i = 0; i < v->n_former; i++)
		if (v->former[i] == id)
			return true;
	return false;
}

/* mountinfo writes blanks, and what would break a line, as \ooo. */
static void
unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

struct place {
	int id;
	char *path;
};

/* Ours, as they are mounted now, wherever somebody outside has moved them: *ret is the caller's. */
static int
find_ours(const struct view *v, struct place **ret, size_t *ret_n)
{
	cleanup_free char *line = NULL;
	size_t line_size = 0, size = 0, n = 0;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct place *places = NULL;
	bool bad = f == NULL;

	while (!bad && getline(&line, &line_size, f) > 0) {
		char *path = NULL;
		int id;

		/* id parent major:minor root path ... NOLINTNEXTLINE(cert-err34-c): the kernel's own number */
		if (sscanf(line, "%d %*d %*s %*s %ms", &id, &path) != 2) {
			bad = true;
		} else if (!is_ours(v, id)) {
			free(path);
		} else {
			if (n == size) {
				struct place *more = realloc(places, (size += 64) * sizeof(*more));

				bad = more == NULL;
				places = bad ? places : more;
			}
			unescape(path);
			if (bad)
				free(path);
			else
				places[n++] = (struct place){ id, path };
		}
	}
	if (f != NULL) {
		bad = bad || ferror(f);
		fclose(f);
	}
	*ret = places;
	*ret_n = n;
	return bad ? -1 : 0;
}

static void
unmount_one(const struct place *p)
{
	cleanup_close int fd = resolve(AT_FDCWD, p->path);
	char link[32];

	/* By descriptor, or what has come there meanwhile would be what is unmounted. */
	if (fd < 0 || mount_id(fd) != p->id)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	umount2(link, MNT_DETACH);
}

static int
unmount_all(struct view *v, struct koda_error *err)
{
	for (int tries = 0; tries < UNMOUNT_TRIES; tries++) {
		struct place *places;
		size_t n;
		int r = find_ours(v, &places, &n);

		/* The list has them in the order in which they were made. */
		for (size_t i = n; i > 0; i--) {
			if (r == 0)
				unmount_one(&places[i - 1]);
			free(places[i - 1].path);
		}
		free(places);
		if (r < 0)
			return err_set(err, KODA_INTERNAL, errno, "read mountinfo");
		if (n == 0)
			return 0;
	}
	return err_set(err, KODA_INTERNAL, EBUSY, "the former plan is still mounted");
}

static void
forget(struct view *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->entry[i].path);
	free(v->entry);
	free(v->former);
	v->entry = NULL;
	v->former = NULL;
	v->n = v->n_former = 0;
}

/* Those of them that are mounted at all. */
static void
prune_former(struct view *v)
{
	struct place *places;
	size_t n, kept = 0;
	int r = find_ours(v, &places, &n);

	for (size_t i = 0; r == 0 && i < v->n_former; i++) {
		bool mounted = false;

		for (size_t k = 0; k < n && !mounted; k++)
			mounted = places[k].id == v->former[i];
		if (mounted)
			v->former[kept++] = v->former[i];
	}
	if (r == 0)
		v->n_former = kept;
	for (size_t i = 0; i < n; i++)
		free(places[i].path);
	free(places);
}

/* It is not where the plan wants it, but it may be mounted all the same: a new plan has to know of it. */
static int
keep_former(struct view *v, int64_t id)
{
	int *more;

	if (id < 0)
		return 0;
	if (v->n_former >= FORMER_MAX)
		prune_former(v);
	more = realloc(v->former, (v->n_former + 1) * sizeof(*more));
	if (more == NULL)
		return -1;
	v->former = more;
	v->former[v->n_former++] = (int)id;
	return 0;
}

/* ---- mount ---- */

/* What a pass over some of the entries holds. */
struct pass {
	bool again;     /* repairing: not the inode of the plan any more */
	bool *todo;     /* of each entry */
	bool *holed;    /* it hides, and there are holes in it */
	ssize_t *cover; /* what hides, or shows again, what it is in */
	int *hole_fd;   /* the content of a hole, from before it was hidden */
	int *hide_fd;   /* the file system that hides, as long as holes are made in it */
};

static void
pass_done(struct pass *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p->hole_fd != NULL && p->hole_fd[i] >= 0)
			close(p->hole_fd[i]);
		if (p->hide_fd != NULL && p->hide_fd[i] >= 0)
			close(p->hide_fd[i]);
	}
	free(p->todo);
	free(p->holed);
	free(p->cover);
	free(p->hole_fd);
	free(p->hide_fd);
}

/* Where the entry says, if that is what it means; -1 if not. */
static int
open_place(const struct view_entry *e, bool again, struct stat *ret)
{
	cleanup_close int fd = resolve(AT_FDCWD, e->path);

	if (fd < 0 || fstat(fd, ret) < 0 || S_ISLNK(ret->st_mode))
		return -1;
	if (again && S_ISDIR(ret->st_mode) != e->directory)
		return -1;
	if (!again && e->dev != 0 &&
	    ((uint64_t)ret->st_dev != e->dev || (uint64_t)ret->st_ino != e->ino))
		return -1;
	return take_fd(&fd);
}

static bool
is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (len == 1)
		return path[1] != '\0';
	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static bool
is_hole(const struct view_entry *e)
{
	return e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HOLE ||
	    e->kind == KODA__MOUNT_KIND__MOUNT_KIND_WRITABLE_HOLE;
}

/* The entry that hides, or shows again, what this one is in: nearest first. -1: none. */
static ssize_t
cover_of(const struct view *v, size_t i)
{
	ssize_t best = -1;

	for (size_t k = 0; k < i; k++) {
		const struct view_entry *e = &v->entry[k];

		if ((e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE || is_hole(e)) &&
		    is_below(v->entry[i].path, e->path) &&
		    (best < 0 || strlen(e->path) >= strlen(v->entry[best].path)))
			best = (ssize_t)k;
	}
	return best;
}

static int
pass_init(struct pass *p, const struct view *v, struct koda_error *err)
{
	size_t n = v->n + 1;

	*p = (struct pass){ false, calloc(n, sizeof(*p->todo)), calloc(n, sizeof(*p->holed)),
		calloc(n, sizeof(*p->cover)), calloc(n, sizeof(*p->hole_fd)),
		calloc(n, sizeof(*p->hide_fd)) };
	if (p->todo == NULL || p->holed == NULL || p->cover == NULL || p->hole_fd == NULL ||
	    p->hide_fd == NULL) {
		pass_done(p, 0);
		return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
	}
	for (size_t i = 0; i < v->n; i++) {
		p->hole_fd[i] = p->hide_fd[i] = -1;
		p->cover[i] = cover_of(v, i);
		if (is_hole(&v->entry[i]) && p->cover[i] >= 0)
			p->holed[p->cover[i]] = true;
	}
	return 0;
}

static void
note(struct view_entry *e, const struct stat *st)
{
	e->mounted_dev = (uint64_t)st->st_dev;
	e->mounted_ino = (uint64_t)st->st_ino;
	e->directory = S_ISDIR(st->st_mode);
}

/* Is what is seen at the path the mount that was made? Somebody outside may have been faster. */
static bool
is_seen(struct view_entry *e, int mount_fd)
{
	cleanup_close int fd = resolve(AT_FDCWD, e->path);
	int64_t id = mount_id(mount_fd);

	if (fd < 0 || id < 0 || mount_id(fd) != id)
		return false;
	e->mount_id = (int)id;
	return true;
}

/* A place for a hole, in the file system that hides what is around it. An O_PATH descriptor, or -1. */
static int
make_place(int root, const char *rel, bool directory)
{
	cleanup_close int at = fcntl(root, F_DUPFD_CLOEXEC, 3), next = -1;
	char name[NAME_MAX + 1];

	while (at >= 0) {
		const char *slash = strchrnul(rel, '/');
		size_t len = (size_t)(slash - rel);
		bool last = *slash == '\0';

		if (len == 0 || len > NAME_MAX)
			return -1;
		memcpy(name, rel, len);
		name[len] = '\0';
		if (!last || directory) {
			if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
				return -1;
		} else {
			next = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
			if (next < 0)
				return -1;
			close(take_fd(&next));
		}
		next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		close(take_fd(&at));
		at = take_fd(&next);
		if (last)
			break;
		rel = slash + 1;
	}
	return take_fd(&at);
}

/*
 * One entry. 1: mounted, 0: there is nothing to mount it on (any more), -1 with errno: it is there and cannot be
 * protected.
 */
static int
mount_entry(struct view *v, struct pass *p, size_t i)
{
	struct view_entry *e = &v->entry[i];
	cleanup_close int at = -1, mnt = -1;
	ssize_t cover = p->cover[i];
	struct stat st;

	if (is_hole(e)) {
		if (p->hole_fd[i] < 0)
			return 0;
		mnt = take_fd(&p->hole_fd[i]);
		if (fstat(mnt, &st) < 0)
			return -1;
		if (cover >= 0 && p->hide_fd[cover] >= 0) {
			const char *dir = v->entry[cover].path;

			at = make_place(p->hide_fd[cover], e->path + strlen(dir) + (dir[1] != '\0'),
			    S_ISDIR(st.st_mode));
			if (at < 0)
				return -1;
		} else {
			at = resolve(AT_FDCWD, e->path);
			if (at < 0)
				return 0;
		}
	} else {
		at = open_place(e, p->again, &st);
		if (at < 0)
			return 0;
		if (e->kind != KODA__MOUNT_KIND__MOUNT_KIND_HIDE)
			mnt = clone_mount(at);
		else if (!S_ISDIR(st.st_mode))
			mnt = sys_open_tree(v->hidden_fd, "file",
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		else if (p->holed[i])
			mnt = new_tmpfs();
		else
			mnt = sys_open_tree(v->hidden_fd, "directory",
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (mnt < 0)
			return -1;
		if (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_READ_ONLY &&
		    make_read_only(mnt, AT_RECURSIVE) < 0)
			return -1;
	}
	if (attach(mnt, at) < 0)
		return errno == ENOENT ? 0 : -1; /* removed meanwhile */
	if (!is_seen(e, mnt))
		return keep_former(v, mount_id(mnt));
	note(e, &st);
	if (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE && S_ISDIR(st.st_mode) && p->holed[i])
		p->hide_fd[i] = take_fd(&mnt);
	return 1;
}

static int
seal(int fs)
{
	cleanup_close int dir = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 || fchmod(dir, 0555) < 0 || make_read_only(fs, 0) < 0 ? -1 : 0;
}

static int
mount_todo(struct view *v, struct pass *p, struct koda_error *err)
{
	for (size_t i = 0; i < v->n; i++) {
		cleanup_close int at = -1;
		struct stat st;

		if (!p->todo[i] || !is_hole(&v->entry[i]))
			continue;
		at = open_place(&v->entry[i], p->again, &st);
		if (at < 0)
			continue;
		p->hole_fd[i] = clone_mount(at);
		if (p->hole_fd[i] < 0 ||
		    (v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HOLE &&
			make_read_only(p->hole_fd[i], AT_RECURSIVE) < 0))
			return err_set(err, KODA_INTERNAL, errno, "clone '%s'", v->entry[i].path);
	}
	for (size_t i = 0; i < v->n; i++) {
		int r = 0;

		if (!p->todo[i])
			continue;
		r = mount_entry(v, p, i);
		if (r < 0)
			return err_set(err, KODA_INTERNAL, errno, "mount '%s'", v->entry[i].path);
		v->entry[i].there = r == 1;
	}
	for (size_t i = 0; i < v->n; i++)
		if (p->hide_fd[i] >= 0 && seal(p->hide_fd[i]) < 0)
			return err_set(err, KODA_INTERNAL, errno, "hide '%s'", v->entry[i].path);
	return 0;
}

static int
copy_plan(struct view *v, Koda__Mount *const *mounts, size_t n, struct koda_error *err)
{
	v->entry = calloc(n + 1, sizeof(*v->entry));
	if (v->entry == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
	for (size_t i = 0; i < n; i++) {
		struct view_entry *e = &v->entry[i];

		e->kind = mounts[i]->kind;
		e->path = strndup((const char *)mounts[i]->path.data, mounts[i]->path.len);
		if (e->path == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		e->dev = mounts[i]->has_dev && mounts[i]->has_ino ? mounts[i]->dev : 0;
		e->ino = mounts[i]->has_dev && mounts[i]->has_ino ? mounts[i]->ino : 0;
		v->n++;
	}
	return 0;
}

int
view_mount(struct view *v, Koda__Mount *const *mounts, size_t n, struct koda_error *err)
{
	struct pass p;
	int r;

	if (unmount_all(v, err) < 0)
		return -1;
	forget(v);
	if (copy_plan(v, mounts, n, err) < 0)
		return -1;
	if (pass_init(&p, v, err) < 0)
		return -1;
	for (size_t i = 0; i < v->n; i++)
		p.todo[i] = true;
	r = mount_todo(v, &p, err);
	pass_done(&p, v->n);
	return r;
}

/* ---- repair ---- */

/* Is it, or what the plan puts on the same place after it, what is seen there? */
static bool
is_mounted(const struct view *v, const struct view_entry *e)
{
	cleanup_close int fd = resolve(AT_FDCWD, e->path);
	int64_t id = fd < 0 ? -1 : mount_id(fd);

	/* Where we may not look, as the user that we are, nobody here can change anything either. */
	if (fd < 0 && errno == EACCES && e->mount_id >= 0)
		return true;
	if (id < 0 || e->mount_id < 0)
		return false;
	for (const struct view_entry *o = e; o < v->entry + v->n; o++)
		if (o->there && o->mount_id == id && strcmp(o->path, e->path) == 0)
			return true;
	return false;
}

int
view_repair(struct view *v, size_t *ret_lost, struct koda_error *err)
{
	size_t repaired = 0, lost = 0;
	struct pass p;
	int r;

	if (pass_init(&p, v, err) < 0)
		return -1;
	p.again = true;
	for (size_t i = 0; i < v->n; i++)
		p.todo[i] = v->entry[i].there && !is_mounted(v, &v->entry[i]);
	for (size_t i = 0; i < v->n; i++)
		if (p.todo[i] && keep_former(v, v->entry[i].mount_id) < 0) {
			pass_done(&p, v->n);
			return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		}
	r = mount_todo(v, &p, err);
	for (size_t i = 0; i < v->n; i++) {
		repaired += p.todo[i] && v->entry[i].there;
		lost += p.todo[i] && !v->entry[i].there;
	}
	pass_done(&p, v->n);
	if (r < 0)
		return -1;
	*ret_lost = lost;
	return (int)repaired;
}
