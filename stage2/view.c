#include "stage2/view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/absent.h"
#include "stage2/mirror.h"
#include "stage2/mounts.h"

/* How often to unmount what is still mounted: a mount that was moved away meanwhile is found the
 * next time. */
#define UNMOUNT_TRIES 4

#define OWN_FILES 64 /* what hides places, and the private places themselves */

/* A file system that hides a place contains a few directories, in which holes are mounted. It
 * becomes read-only once they are made. */
#define HIDING_BYTES  (1u << 20)
#define HIDING_INODES 65536

/* After this many former mounts, those that are not mounted any more are dropped. */
#define FORMER_MAX 256

/* ---- once ---- */

static int
new_tmpfs(void)
{
	return mounts_tmpfs(HIDING_BYTES, HIDING_INODES,
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

/* Make the file system in memory, and the directory of it with which places are hidden. */
static int
make_hidden(struct slot_view *v, uint64_t bytes, struct koda_error *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC };
	cleanup_close int run = -1, koda = -1, at = -1, dir = -1, file = -1;
	int fs;

	run = resolve(AT_FDCWD, "/run");
	if (run >= 0 && mkdirat(run, "koda", 0755) < 0 && errno != EEXIST)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '/run/koda'");
	koda = run < 0 ? -1 : resolve(run, "koda");
	if (koda < 0 || (mkdirat(koda, "hidden", 0755) < 0 && errno != EEXIST) ||
	    (at = resolve(koda, "hidden")) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '%s'", VIEW_HIDDEN);
	fs = v->memory_fd = mounts_tmpfs(bytes, bytes / VIEW_BYTES_PER_FILE + OWN_FILES,
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (fs < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make a file system in memory");
	if (attach(fs, at) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "mount '%s'", VIEW_HIDDEN);
	if (mkdirat(fs, "hidden", 0755) < 0 ||
	    (dir = openat(fs, "hidden", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    mkdirat(dir, "directory", 0555) < 0 || fchmodat(dir, "directory", 0555, 0) < 0 ||
	    (file = openat(dir, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0)) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "what hides in '%s'", VIEW_HIDDEN);
	v->hidden_fd = sys_open_tree(fs, "hidden", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	/* Mount it on the root of the file system in memory, which no path leads to after that. */
	if (v->hidden_fd < 0 ||
	    syscall(SYS_mount_setattr, v->hidden_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
	    attach(v->hidden_fd, fs) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "mount '%s'", VIEW_HIDDEN);
	return 0;
}

struct slot_view *
view_new(uint64_t bytes, struct koda_error *err)
{
	cleanup_free struct slot_view *v = calloc(1, sizeof(*v));

	if (v == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "view");
		return NULL;
	}
	/* bwrap's mount namespace belongs to the outer user namespace. In a copy of it stage2
	 * may mount. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		err_set(err, KODA_UNSUPPORTED, errno, "mount namespace");
		return NULL;
	}
	return make_hidden(v, bytes, err) < 0 ? NULL : take_ptr(&v);
}

/* ---- for others ---- */

int
view_cover(const struct slot_view *v, int at)
{
	cleanup_close int mnt =
	    sys_open_tree(v->hidden_fd, "directory", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return mnt < 0 ? -1 : attach(mnt, at);
}

/* ---- undo ---- */

static bool
is_ours(const struct slot_view *v, int id)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->entry[i].there && v->entry[i].mount_id == id)
			return true;
	for (size_t i = 0; i < v->n_former; i++)
		if (v->former[i] == id)
			return true;
	return false;
}

struct own_mount {
	int id;
	char *path;
};

/* Find our mounts as they are mounted now, even if a process outside has moved them. The caller
 * owns *ret. Returns 0, or -1. */
static int
find_ours(const struct slot_view *v, struct own_mount **ret, size_t *ret_n)
{
	cleanup_free char *line = NULL;
	size_t line_size = 0, size = 0, n = 0;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct own_mount *places = NULL;
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
				struct own_mount *more =
				    realloc(places, (size += 64) * sizeof(*more));

				bad = more == NULL;
				places = bad ? places : more;
			}
			mounts_unescape(path);
			if (bad)
				free(path);
			else
				places[n++] = (struct own_mount){ id, path };
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
unmount_one(const struct own_mount *p)
{
	cleanup_close int fd = resolve(AT_FDCWD, p->path);
	char link[32];

	/* By descriptor: by name, something else that is there now could be unmounted. */
	if (fd < 0 || mount_id(fd) != p->id)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	umount2(link, MNT_DETACH);
}

static int
unmount_all(struct slot_view *v, struct koda_error *err)
{
	for (int tries = 0; tries < UNMOUNT_TRIES; tries++) {
		struct own_mount *places;
		size_t n;
		int r = find_ours(v, &places, &n);

		/* They are listed in the order in which they were made, so begin at the end. */
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
forget(struct slot_view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		free(v->entry[i].path);
		mirror_free(v->entry[i].mirror);
	}
	free(v->entry);
	free(v->former);
	v->entry = NULL;
	v->former = NULL;
	v->n = v->n_former = 0;
}

/* Drop former mounts that are not mounted any more. */
static void
prune_former(struct slot_view *v)
{
	struct own_mount *places;
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

/* Remember a mount that is not where the plan wants it. It may still be mounted, and a new plan
 * has to know about it. */
static int
keep_former(struct slot_view *v, int64_t id)
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

/* The state of one pass over some of the entries. The arrays have an element for each entry. */
struct pass {
	bool again;     /* repairing: need not be the inode of the plan */
	bool *todo;     /* to be mounted in this pass */
	bool *expected; /* it was mounted before */
	bool *holed;    /* it hides a place with holes in it */
	/* The nearest entry that hides, or shows again, what this one is in; -1: none. */
	ssize_t *cover;
	int *hole_fd; /* the content of a hole, cloned before it was hidden */
	int *hide_fd; /* the file system that hides, while holes are made in it */
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
	free(p->expected);
	free(p->holed);
	free(p->cover);
	free(p->hole_fd);
	free(p->hide_fd);
}

/* Open the entry's path if that is the place that the entry means. Returns an O_PATH descriptor,
 * or -1. */
static int
open_place(const struct view_entry *e, bool again, struct stat *ret)
{
	cleanup_close int fd = resolve(AT_FDCWD, e->path);

	if (fd < 0 || fstat(fd, ret) < 0 || S_ISLNK(ret->st_mode))
		return -1;
	/* An entry that hides a place does not depend on what is there. */
	if (again && e->kind != KODA__MOUNT_KIND__MOUNT_KIND_HIDE && e->mounted_ino != 0 &&
	    S_ISDIR(ret->st_mode) != e->directory)
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

/* Returns the nearest entry that hides, or shows again, what this one is in; -1: none. */
static ssize_t
cover_of(const struct slot_view *v, size_t i)
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
pass_init(struct pass *p, const struct slot_view *v, struct koda_error *err)
{
	size_t n = v->n + 1;

	*p = (struct pass){ false, calloc(n, sizeof(*p->todo)), calloc(n, sizeof(*p->expected)),
		calloc(n, sizeof(*p->holed)), calloc(n, sizeof(*p->cover)),
		calloc(n, sizeof(*p->hole_fd)), calloc(n, sizeof(*p->hide_fd)) };
	if (p->todo == NULL || p->expected == NULL || p->holed == NULL || p->cover == NULL ||
	    p->hole_fd == NULL || p->hide_fd == NULL) {
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

/* Returns true if the path shows the mount that was made, and notes its ID. A process outside
 * may have changed the path meanwhile. */
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

/* Returns true if another entry hides everything at the entry's path. Then a mirror has no place
 * there. */
static bool
is_covered(const struct slot_view *v, size_t i)
{
	const struct view_entry *nearest = NULL;

	for (size_t k = 0; k < i; k++) {
		const struct view_entry *e = &v->entry[k];

		if (e->there && (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE || is_hole(e)) &&
		    path_is_inside(v->entry[i].path, e->path) &&
		    (nearest == NULL || strlen(e->path) >= strlen(nearest->path)))
			nearest = e;
	}
	return nearest != NULL && nearest->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE;
}

static bool
is_of_kernel(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC;
}

static int
mount_mirror(struct slot_view *v, const struct pass *p, size_t i)
{
	struct view_entry *e = &v->entry[i];
	cleanup_close int at = -1;
	struct stat st;
	int mnt;

	if (is_covered(v, i))
		return 0;
	at = open_place(e, p->again, &st);
	if (at < 0 || !S_ISDIR(st.st_mode) || is_of_kernel(at))
		return 0;
	mnt = mirror_attach(e->mirror, at);
	if (mnt < 0)
		return errno == ENOENT ? 0 : -1;
	if (!is_seen(e, mnt))
		return keep_former(v, mount_id(mnt));
	note(e, &st);
	return 1;
}

/*
 * Mount one entry. Returns 1 if it is mounted, 0 if there is nothing (any more) to mount it on, -1
 * with errno if it exists and cannot be protected.
 */
static int
mount_entry(struct slot_view *v, struct pass *p, size_t i)
{
	struct view_entry *e = &v->entry[i];
	cleanup_close int at = -1, mnt = -1;
	ssize_t cover = p->cover[i];
	struct stat st;

	if (e->mirror != NULL)
		return mount_mirror(v, p, i);
	if (is_hole(e)) {
		if (p->hole_fd[i] < 0)
			return 0;
		mnt = take_fd(&p->hole_fd[i]);
		if (fstat(mnt, &st) < 0)
			return -1;
		if (cover >= 0 && p->hide_fd[cover] >= 0) {
			const char *dir = v->entry[cover].path;

			at = mounts_make_place(p->hide_fd[cover],
			    e->path + strlen(dir) + (dir[1] != '\0'), S_ISDIR(st.st_mode));
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

/*
 * Leave out what hides places in directories that commands write, and what is in it, until a
 * command starts: a command of an earlier sandbox may have made what is there, and the worker has
 * to check it first.
 */
static void
leave_uncovered(struct slot_view *v, struct pass *p)
{
	for (size_t i = 0; i < v->n; i++) {
		struct view_entry *e = &v->entry[i];
		cleanup_close int at = -1;
		struct stat st;

		const ssize_t cover = p->cover[i];

		if ((e->kind != KODA__MOUNT_KIND__MOUNT_KIND_HIDE || e->outside) &&
		    (cover < 0 || p->todo[cover]))
			continue;
		p->todo[i] = false;
		at = open_place(e, p->again, &st);
		e->uncovered = at >= 0 && (is_hole(e) || cover < 0 || is_hole(&v->entry[cover]));
	}
}

static int
mount_todo(struct slot_view *v, struct pass *p, struct koda_error *err)
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
		if (r < 0 && v->entry[i].mirror != NULL && errno == E2BIG)
			return err_set(err, KODA_UNSUPPORTED, 0,
			    "cannot hide a place in '%s' that does not exist yet: the directory has more "
			    "than %d names. Create the place, or remove its rule from deny_read",
			    v->entry[i].path, MIRROR_NAMES_MAX);
		if (r < 0 && v->entry[i].mirror != NULL)
			return err_set(err, KODA_UNSUPPORTED, errno,
			    "cannot hide a place in '%s' that does not exist yet. Create the place, or "
			    "remove its rule from deny_read",
			    v->entry[i].path);
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
copy_plan(struct slot_view *v, Koda__Mount *const *mounts, size_t n, struct koda_error *err)
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
		e->plain = mounts[i]->has_plain && mounts[i]->plain;
		e->dev = mounts[i]->has_dev && mounts[i]->has_ino ? mounts[i]->dev : 0;
		e->ino = mounts[i]->has_dev && mounts[i]->has_ino ? mounts[i]->ino : 0;
		e->outside = mounts[i]->has_outside && mounts[i]->outside;
		v->n++;
	}
	return 0;
}

int
view_mount(struct slot_view *v, Koda__Mount *const *mounts, size_t n, bool idle,
    struct koda_error *err)
{
	struct pass p;
	int r;

	if (unmount_all(v, err) < 0)
		return -1;
	forget(v);
	if (copy_plan(v, mounts, n, err) < 0 || absent_add_mirrors(v, err) < 0)
		return -1;
	if (pass_init(&p, v, err) < 0)
		return -1;
	for (size_t i = 0; i < v->n; i++)
		p.todo[i] = true;
	if (idle)
		leave_uncovered(v, &p);
	r = mount_todo(v, &p, err);
	pass_done(&p, v->n);
	return r;
}

/* ---- repair ---- */

/* Returns true if the place shows the entry's mount, or one that the plan mounts there after it. */
static bool
is_mounted(const struct slot_view *v, const struct view_entry *e)
{
	cleanup_close int fd = resolve(AT_FDCWD, e->path);
	int64_t id = fd < 0 ? -1 : mount_id(fd);

	/* Where stage2's user may not look, no process in the sandbox can change anything
	 * either. */
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
view_repair(struct slot_view *v, size_t *ret_lost, struct koda_error *err)
{
	size_t repaired = 0, lost = 0;
	struct pass p;
	int r;

	if (pass_init(&p, v, err) < 0)
		return -1;
	p.again = true;
	for (size_t i = 0; i < v->n; i++) {
		p.todo[i] = v->entry[i].there && !is_mounted(v, &v->entry[i]);
		/* Holes and what is in them are mounted again with what they are in. They are
		 * not missed if they did not exist. */
		if (p.cover[i] >= 0 && p.todo[p.cover[i]])
			p.todo[i] = true;
		p.expected[i] = p.todo[i] && v->entry[i].there;
	}
	for (size_t i = 0; i < v->n; i++)
		if (p.todo[i] && keep_former(v, v->entry[i].mount_id) < 0) {
			pass_done(&p, v->n);
			return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		}
	r = mount_todo(v, &p, err);
	for (size_t i = 0; i < v->n; i++) {
		repaired += p.expected[i] && v->entry[i].there;
		v->entry[i].late = v->entry[i].late ||
		    (p.todo[i] && v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE &&
			!v->entry[i].outside && !v->entry[i].uncovered);
		/* A place that a mirror never shows is not expected to appear. */
		lost += p.expected[i] && !v->entry[i].there && !v->entry[i].masked;
	}
	pass_done(&p, v->n);
	if (r < 0)
		return -1;
	*ret_lost = lost;
	return (int)repaired;
}

size_t
view_uncover(struct slot_view *v)
{
	size_t n = 0;

	for (size_t i = v->n; i > 0; i--) {
		struct view_entry *e = &v->entry[i - 1];

		if (!e->late || !e->there)
			continue;
		unmount_one(&(struct own_mount){ e->mount_id, e->path });
		e->there = false;
		e->uncovered = true;
		n++;
		/* Holes are mounted inside what hides, and go with it. */
		for (size_t k = i; k < v->n; k++)
			if (is_hole(&v->entry[k]) && is_below(v->entry[k].path, e->path))
				v->entry[k].there = false;
	}
	return n;
}

int
view_add_linked(struct slot_view *v, const char *path, size_t *ret)
{
	struct view_entry *e, *unused = NULL;
	size_t n = 0;
	char *copy;

	for (size_t i = 0; i < v->n; i++) {
		e = &v->entry[i];
		/* Already hidden or to be hidden, by itself or with a directory that it is in. */
		if (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE && path_is_inside(path, e->path))
			return 0;
		n += e->linked;
		if (e->linked && !e->there && !e->late && unused == NULL)
			unused = e;
	}
	if (n >= VIEW_LINKED_MAX && unused == NULL) {
		errno = E2BIG;
		return -1;
	}
	copy = strdup(path);
	if (copy == NULL)
		return -1;
	if (n < VIEW_LINKED_MAX) {
		e = reallocarray(v->entry, v->n + 2, sizeof(*e));
		if (e == NULL) {
			free(copy);
			return -1;
		}
		v->entry = e;
		unused = &e[v->n++];
		*unused = (struct view_entry){ .path = NULL };
	}
	free(unused->path);
	*unused = (struct view_entry){ .kind = KODA__MOUNT_KIND__MOUNT_KIND_HIDE,
		.path = copy,
		.linked = true,
		.mount_id = -1 };
	*ret = (size_t)(unused - v->entry);
	return 1;
}
