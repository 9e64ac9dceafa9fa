/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/mount_pass.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/hidden.h"
#include "stage2/mirror.h"
#include "stage2/mounts.h"
#include "stage2/own_mounts.h"
#include "stage2/restrict.h"

/* A file system that hides a place contains a few directories, in which holes are mounted. It
 * becomes read-only once they are made. */
#define HIDING_BYTES  (1u << 20)
#define HIDING_INODES 65536

static int
new_hiding(void)
{
	return mounts_tmpfs(HIDING_BYTES, HIDING_INODES,
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
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

/* Returns the nearest entry that contains this one and hides or shows it again; -1: none. */
static ssize_t
find_cover(const struct slot_view *v, size_t i)
{
	ssize_t best = -1;

	for (size_t k = 0; k < i; k++) {
		const struct view_entry *e = &v->entry[k];

		if ((e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE || view_entry_is_hole(e)) &&
		    view_entry_is_below(v->entry[i].path, e->path) &&
		    (best < 0 || strlen(e->path) >= strlen(v->entry[best].path)))
			best = (ssize_t)k;
	}
	return best;
}

int
mount_pass_init(struct mount_pass *p, const struct slot_view *v, struct koda_error *err)
{
	size_t n = v->n + 1;

	*p = (struct mount_pass){ false, calloc(n, sizeof(*p->todo)),
		calloc(n, sizeof(*p->expected)), calloc(n, sizeof(*p->holed)),
		calloc(n, sizeof(*p->cover)), calloc(n, sizeof(*p->hole_fd)),
		calloc(n, sizeof(*p->hide_fd)) };
	if (p->todo == NULL || p->expected == NULL || p->holed == NULL || p->cover == NULL ||
	    p->hole_fd == NULL || p->hide_fd == NULL) {
		mount_pass_done(p, 0);
		return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
	}
	for (size_t i = 0; i < v->n; i++) {
		p->hole_fd[i] = p->hide_fd[i] = -1;
		p->cover[i] = find_cover(v, i);
		if (view_entry_is_hole(&v->entry[i]) && p->cover[i] >= 0)
			p->holed[p->cover[i]] = true;
	}
	return 0;
}

void
mount_pass_done(struct mount_pass *p, size_t n)
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

static void
note_place(struct view_entry *e, const struct stat *st)
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

		if (e->there &&
		    (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE || view_entry_is_hole(e)) &&
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
mount_mirror(struct slot_view *v, const struct mount_pass *p, size_t i)
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
		return own_mounts_keep_former(v, mount_id(mnt));
	note_place(e, &st);
	return 1;
}

/*
 * Mount one entry. Returns 1 if it is mounted, 0 if there is nothing (any more) to mount it on, -1
 * with errno if it exists and cannot be protected.
 */
static int
mount_entry(struct slot_view *v, struct mount_pass *p, size_t i)
{
	struct view_entry *e = &v->entry[i];
	cleanup_close int at = -1, mnt = -1;
	ssize_t cover = p->cover[i];
	struct stat st;

	if (e->mirror != NULL)
		return mount_mirror(v, p, i);
	if (view_entry_is_hole(e)) {
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
		if (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_READ_ONLY)
			mnt = clone_read_only(at);
		else if (e->kind != KODA__MOUNT_KIND__MOUNT_KIND_HIDE)
			mnt = clone_mount(at);
		else if (S_ISDIR(st.st_mode) && p->holed[i])
			mnt = new_hiding();
		else
			mnt = hidden_clone(v->hidden_fd, S_ISDIR(st.st_mode));
		if (mnt < 0)
			return -1;
	}
	if (attach(mnt, at) < 0)
		return errno == ENOENT ? 0 : -1; /* removed meanwhile */
	if (!is_seen(e, mnt))
		return own_mounts_keep_former(v, mount_id(mnt));
	note_place(e, &st);
	if (e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HIDE && S_ISDIR(st.st_mode) && p->holed[i])
		p->hide_fd[i] = take_fd(&mnt);
	return 1;
}

static int
seal_hiding(int fs)
{
	cleanup_close int dir = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 || fchmod(dir, 0555) < 0 || make_read_only(fs, 0) < 0 ? -1 : 0;
}

void
mount_pass_leave_uncovered(struct slot_view *v, struct mount_pass *p)
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
		e->uncovered = at >= 0 &&
		    (view_entry_is_hole(e) || cover < 0 || view_entry_is_hole(&v->entry[cover]));
	}
}

int
mount_pass_run(struct slot_view *v, struct mount_pass *p, struct koda_error *err)
{
	for (size_t i = 0; i < v->n; i++) {
		cleanup_close int at = -1;
		struct stat st;

		if (!p->todo[i] || !view_entry_is_hole(&v->entry[i]))
			continue;
		at = open_place(&v->entry[i], p->again, &st);
		if (at < 0)
			continue;
		p->hole_fd[i] = v->entry[i].kind == KODA__MOUNT_KIND__MOUNT_KIND_HOLE
		    ? clone_read_only(at)
		    : clone_mount(at);
		if (p->hole_fd[i] < 0)
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
		if (p->hide_fd[i] >= 0 && seal_hiding(p->hide_fd[i]) < 0)
			return err_set(err, KODA_INTERNAL, errno, "hide '%s'", v->entry[i].path);
	return 0;
}
