/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/caches.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/mounts.h"
#include "stage2/overlay.h"
#include "stage2/restrict.h"
#include "stage2/view.h"

#define NAMES_MAX NAME_MAX /* of the name of a layer */

/* The caches of one Boot order, opened. */
struct cache_job {
	struct slot_view *v;
	const Koda__Overlay *o;
	/* The directory that all caches are in; shows the host's content of it. */
	int at;
	int layers; /* -1: no layers */
	int upper, work;
	int under[OVERLAY_LOWER_MAX];
	size_t n_under;
	/* The caches are bind mounts of parts of this, which is mounted at `at`; or -1. */
	int root;
	char why[CACHES_WHY_MAX];
	bool mounted[CACHES_PLACES_MAX];
	struct caches_empty *empty;
	size_t n_empty;
};

static void
job_done(struct cache_job *j)
{
	close_at(&j->at);
	close_at(&j->layers);
	close_at(&j->upper);
	close_at(&j->work);
	close_at(&j->root);
	for (size_t i = 0; i < j->n_under; i++)
		close_at(&j->under[i]);
}

static void
text_of(const ProtobufCBinaryData *b, char *ret, size_t size)
{
	snprintf(ret, size, "%.*s", (int)b->len, (const char *)b->data);
}

/* ---- the order ---- */

static bool
is_relative(const ProtobufCBinaryData *b)
{
	return path_is_relative(b->data, b->len);
}

static bool
is_canonical(const ProtobufCBinaryData *b)
{
	return path_is_canonical(b->data, b->len);
}

static bool
is_name(const ProtobufCBinaryData *b)
{
	return is_relative(b) && memchr(b->data, '/', b->len) == NULL;
}

const char *
caches_valid(const Koda__Overlay *o)
{
	size_t n_keep = 0;

	if (o->n_place > CACHES_PLACES_MAX || o->n_under > OVERLAY_LOWER_MAX - 1)
		return "too many caches";
	if (!is_canonical(&o->lower) || (o->has_layers && !is_canonical(&o->layers)))
		return "a directory of caches that is not canonical";
	if (o->has_layers != o->has_upper || (o->has_upper && !is_name(&o->upper)))
		return "an incomplete layer";
	for (size_t i = 0; i < o->n_under; i++)
		if (!is_name(&o->under[i]))
			return "a layer with an invalid name";
	for (size_t i = 0; i < o->n_place; i++) {
		const Koda__OverlayPlace *p = o->place[i];

		n_keep += p->n_keep;
		if (!is_relative(&p->name) || !is_canonical(&p->path))
			return "a cache that is not canonical";
		for (size_t k = 0; k < p->n_keep; k++)
			if (!is_canonical(&p->keep[k]) || p->keep[k].len <= p->path.len + 1 ||
			    memcmp(p->keep[k].data, p->path.data, p->path.len) != 0 ||
			    p->keep[k].data[p->path.len] != '/')
				return "a place that is not in its cache";
	}
	return n_keep > CACHES_KEEP_MAX ? "too many places in caches" : NULL;
}

/* ---- directories ---- */

/* Follows no link below dir: a command may have written what is in a layer. */
static int
open_below(int dir, const char *name)
{
	return open_beneath(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

/*
 * Makes the directories of a relative path below dir that do not exist. Returns an O_PATH
 * descriptor of the last one, or -1.
 */
static int
make_below(int dir, const char *name)
{
	cleanup_close int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	char part[NAME_MAX + 1];

	while (at >= 0 && name[0] != '\0') {
		size_t len = strcspn(name, "/");
		int next;

		memcpy(part, name, len);
		part[len] = '\0';
		if (mkdirat(at, part, 0700) < 0 && errno != EEXIST)
			return -1;
		next = open_below(at, part);
		close(at);
		at = next;
		name += len + (name[len] == '/');
	}
	return take_fd(&at);
}

static int
open_layer(const struct cache_job *j, const ProtobufCBinaryData *name, const char *part)
{
	char path[NAMES_MAX + sizeof("/u")];

	snprintf(path, sizeof(path), "%.*s/%s", (int)name->len, (const char *)name->data, part);
	return open_below(j->layers, path);
}

static int
open_layers(struct cache_job *j, struct koda_error *err)
{
	char path[PATH_MAX];

	text_of(&j->o->lower, path, sizeof(path));
	j->at = resolve(AT_FDCWD, path);
	if (j->at < 0)
		return err_set(err, KODA_INTERNAL, errno, "open the directory of caches '%s'",
		    path);
	if (!j->o->has_layers) {
		snprintf(j->why, sizeof(j->why), "%.*s",
		    j->o->has_reason ? (int)j->o->reason.len : 0, (const char *)j->o->reason.data);
		return 0;
	}
	text_of(&j->o->layers, path, sizeof(path));
	j->layers = resolve(AT_FDCWD, path);
	if (j->layers < 0)
		return err_set(err, KODA_INTERNAL, errno, "open the directory of layers '%s'",
		    path);
	j->upper = open_layer(j, &j->o->upper, "u");
	j->work = open_layer(j, &j->o->upper, "w");
	if (j->upper < 0 || j->work < 0)
		snprintf(j->why, sizeof(j->why), "open the layer: %s", strerror(errno));
	for (size_t i = 0; i < j->o->n_under; i++) {
		j->under[j->n_under] = open_layer(j, &j->o->under[i], "u");
		if (j->under[j->n_under] >= 0)
			j->n_under++;
	}
	return 0;
}

/* ---- mounting ---- */

static bool
is_directory(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static void
keep_why(struct cache_job *j, const struct koda_error *err)
{
	if (err->errnum != 0 && strstr(err->message, strerror(err->errnum)) == NULL)
		snprintf(j->why, sizeof(j->why), "%.80s: %.40s", err->message,
		    strerror(err->errnum));
	else
		snprintf(j->why, sizeof(j->why), "%.120s", err->message);
}

/*
 * Makes one overlay for all caches. It must be mounted, because before Linux 6.15 no part of a
 * detached one could be cloned.
 */
static bool
make_whole(struct cache_job *j)
{
	int lower[OVERLAY_LOWER_MAX];
	struct koda_error err;
	size_t n = 0;

	if (j->upper < 0 || j->work < 0)
		return false;
	for (; n < j->n_under; n++)
		lower[n] = j->under[n];
	lower[n++] = j->at;
	j->root = overlay_new(lower, n, j->upper, j->work, NULL, &err);
	if (j->root >= 0 && attach(j->root, j->at) == 0)
		return true;
	if (j->root >= 0)
		err_set(&err, KODA_UNSUPPORTED, errno, "attach an overlay");
	keep_why(j, &err);
	close_at(&j->root);
	j->root = -1;
	return false;
}

static bool
mount_one(int mnt, const char *path)
{
	cleanup_close int at = resolve(AT_FDCWD, path);

	return mnt >= 0 && is_directory(at) && attach(mnt, at) == 0;
}

/* Mounts a part of the overlay that all caches share. */
static bool
mount_part(const struct cache_job *j, const Koda__OverlayPlace *p)
{
	char name[PATH_MAX], path[PATH_MAX];
	cleanup_close int part = -1, mnt = -1;

	text_of(&p->name, name, sizeof(name));
	text_of(&p->path, path, sizeof(path));
	part = p->has_make && p->make ? make_below(j->root, name) : open_below(j->root, name);
	if (part >= 0)
		mnt = clone_mount(part);
	return mount_one(mnt, path);
}

/*
 * Mounts an overlay for this cache only. It lays out its layers as the shared overlay does, so that
 * either way can use the layers of the other.
 */
static bool
mount_own(struct cache_job *j, size_t i)
{
	const Koda__OverlayPlace *p = j->o->place[i];
	char name[PATH_MAX], path[PATH_MAX], number[16];
	cleanup_close int upper = -1, work = -1, mnt = -1;
	int lower[OVERLAY_LOWER_MAX];
	struct koda_error err = { 0 };
	size_t n = 0;

	text_of(&p->name, name, sizeof(name));
	text_of(&p->path, path, sizeof(path));
	snprintf(number, sizeof(number), "%zu", i);
	upper = j->upper < 0 ? -1 : make_below(j->upper, name);
	work = j->work < 0 ? -1 : make_below(j->work, number);
	if (upper < 0 || work < 0)
		return false;
	for (size_t k = 0; k < j->n_under; k++)
		if ((lower[n] = open_below(j->under[k], name)) >= 0)
			n++;
	lower[n] = resolve(AT_FDCWD, path);
	if (is_directory(lower[n])) {
		mnt = overlay_new(lower, n + 1, upper, work, NULL, &err);
		if (mnt < 0)
			keep_why(j, &err);
	}
	for (size_t k = 0; k <= n; k++)
		close_at(&lower[k]);
	return mount_one(mnt, path);
}

static int
new_memory(void)
{
	cleanup_close int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0700", 0) < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", CACHES_MEMORY, 0) < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "nr_inodes", CACHES_MEMORY_INODES, 0) <
		0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* The places that stay readable in an empty cache, cloned before it is covered. */
struct kept_layer {
	int *fd;
	size_t n;
};

static void
kept_done(struct kept_layer *k)
{
	for (size_t i = 0; i < k->n; i++)
		close_at(&k->fd[i]);
	free(k->fd);
}

static int
open_kept(const Koda__OverlayPlace *p, struct kept_layer *ret)
{
	ret->fd = calloc(p->n_keep + 1, sizeof(*ret->fd));
	if (ret->fd == NULL)
		return -1;
	for (; ret->n < p->n_keep; ret->n++) {
		cleanup_close int fd = -1;
		char path[PATH_MAX];
		struct stat st;

		text_of(&p->keep[ret->n], path, sizeof(path));
		fd = resolve(AT_FDCWD, path);
		ret->fd[ret->n] = -1;
		if (fd < 0 || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode))
			continue; /* it does not exist: nothing to keep */
		ret->fd[ret->n] = clone_read_only(fd);
		if (ret->fd[ret->n] < 0)
			return -1;
	}
	return 0;
}

static int
mount_kept(int dir, const Koda__OverlayPlace *p, const struct kept_layer *kept)
{
	for (size_t i = 0; i < kept->n; i++) {
		cleanup_close int at = -1;
		char path[PATH_MAX];
		struct stat st;

		if (kept->fd[i] < 0)
			continue;
		text_of(&p->keep[i], path, sizeof(path));
		if (fstat(kept->fd[i], &st) < 0)
			return -1;
		/* It exists already if a place above it is kept as a whole. */
		at = resolve(AT_FDCWD, path);
		if (at < 0)
			at = mounts_make_place(dir, path + p->path.len + 1, S_ISDIR(st.st_mode));
		if (at < 0 || attach(kept->fd[i], at) < 0)
			return -1;
	}
	return 0;
}

static int
mount_empty(struct cache_job *j, const Koda__OverlayPlace *p, struct koda_error *err)
{
	cleanup(kept_done) struct kept_layer kept = { 0 };
	cleanup_close int dir = -1, mnt = -1, seen = -1;
	char name[PATH_MAX], path[PATH_MAX];

	text_of(&p->name, name, sizeof(name));
	text_of(&p->path, path, sizeof(path));
	if (open_kept(p, &kept) < 0)
		return err_set(err, KODA_INTERNAL, errno, "keep the readable places in '%s'", path);
	dir = make_below(j->root, name);
	mnt = dir < 0 ? -1 : clone_mount(dir);
	if (!mount_one(mnt, path) || (seen = resolve(AT_FDCWD, path)) < 0 ||
	    mount_kept(seen, p, &kept) < 0)
		return err_set(err, KODA_INTERNAL, errno, "put an empty directory at '%s'", path);
	j->empty[j->n_empty].path = (const char *)p->path.data;
	j->empty[j->n_empty].path_len = p->path.len;
	snprintf(j->empty[j->n_empty].why, sizeof(j->empty->why), "%s", j->why);
	j->n_empty++;
	return 0;
}

/* Mounts one file system for all directories in memory, so that one limit is enough. */
static int
make_memory(struct cache_job *j, struct koda_error *err)
{
	close_at(&j->root);
	j->root = new_memory();
	if (j->root < 0 || attach(j->root, j->at) < 0)
		return err_set(err, KODA_INTERNAL, errno, "make a file system in memory");
	return 0;
}

static bool
is_there(const Koda__OverlayPlace *p)
{
	char path[PATH_MAX];
	cleanup_close int fd = -1;

	text_of(&p->path, path, sizeof(path));
	fd = resolve(AT_FDCWD, path);
	return is_directory(fd);
}

static bool
is_own(const Koda__OverlayPlace *p)
{
	return p->has_own && p->own;
}

/*
 * Mounts each cache in the first way that works. A cache that stays unmounted is the host's own,
 * read-only; that happens only if it no longer exists.
 */
static int
mount_all(struct cache_job *j, struct koda_error *err)
{
	const Koda__Overlay *o = j->o;
	bool whole = false, memory = false, all_own = true;

	/*
	 * These come before the shared overlay: their upper directory lies in its upper directory,
	 * and the kernel would warn of the other order.
	 */
	for (size_t i = 0; i < o->n_place; i++)
		if (is_own(o->place[i]))
			j->mounted[i] = mount_own(j, i);
		else
			all_own = false;
	if (!all_own)
		whole = make_whole(j);
	for (size_t i = 0; i < o->n_place; i++)
		if (!is_own(o->place[i]))
			j->mounted[i] = whole ? mount_part(j, o->place[i]) : mount_own(j, i);
	for (size_t i = 0; i < o->n_place; i++) {
		if (j->mounted[i] || !is_there(o->place[i]))
			continue;
		if (!memory && make_memory(j, err) < 0)
			return -1;
		memory = true;
		if (mount_empty(j, o->place[i], err) < 0)
			return -1;
	}
	return 0;
}

/* Hides everything but the caches themselves: the host's directory and the layers. */
static int
hide_rest(struct cache_job *j, struct koda_error *err)
{
	const ProtobufCBinaryData *const hidden[] = { &j->o->lower, &j->o->layers };

	for (size_t i = 0; i < (j->layers >= 0 ? 2 : 1); i++) {
		cleanup_close int at = -1;
		char path[PATH_MAX];

		text_of(hidden[i], path, sizeof(path));
		at = resolve(AT_FDCWD, path);
		if (at < 0 || view_cover(j->v, at) < 0)
			return err_set(err, KODA_INTERNAL, errno, "hide '%s'", path);
	}
	return 0;
}

/* Notes the caches that are the slot's own now, for caches_lost(). */
static int
note_own(const struct cache_job *j, struct koda_error *err)
{
	struct slot_view *v = j->v;

	v->cache = calloc(j->o->n_place + 1, sizeof(*v->cache));
	if (v->cache == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "caches");
	for (size_t i = 0; i < j->o->n_place; i++) {
		cleanup_close int at = -1;
		char path[PATH_MAX];
		struct stat st;

		text_of(&j->o->place[i]->path, path, sizeof(path));
		at = resolve(AT_FDCWD, path);
		if (!is_directory(at))
			continue;
		if (fstat(at, &st) < 0 || (v->cache[v->n_caches].path = strdup(path)) == NULL)
			return err_set(err, KODA_INTERNAL, errno, "examine '%s'", path);
		v->cache[v->n_caches++].dev = st.st_dev;
	}
	return 0;
}

/* Could a command create something there? */
static bool
is_open(const char *path)
{
	char dir[PATH_MAX];
	struct statfs fs;

	snprintf(dir, sizeof(dir), "%s", path);
	for (;;) {
		cleanup_close int fd = resolve(AT_FDCWD, dir);
		char *slash = strrchr(dir, '/');

		if (is_directory(fd))
			return fstatfs(fd, &fs) < 0 || (fs.f_flags & ST_RDONLY) == 0;
		if (slash == NULL || slash == dir)
			return false;
		*slash = '\0';
	}
}

const char *
caches_lost(const struct slot_view *v)
{
	for (size_t i = 0; i < v->n_caches; i++) {
		cleanup_close int at = resolve(AT_FDCWD, v->cache[i].path);
		struct stat st;

		if (at >= 0 && fstat(at, &st) == 0 && st.st_dev == v->cache[i].dev)
			continue;
		if (is_open(v->cache[i].path))
			return v->cache[i].path;
	}
	return NULL;
}

static int
drop_override(struct koda_error *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
	const uint32_t others = ~(1u << CAP_DAC_OVERRIDE);

	if (syscall(SYS_capget, &header, data) < 0)
		return err_set(err, KODA_INTERNAL, errno, "capabilities");
	data[0].effective &= others;
	data[0].permitted &= others;
	data[0].inheritable &= others;
	if (syscall(SYS_capset, &header, data) < 0)
		return err_set(err, KODA_INTERNAL, errno, "give up a capability");
	return 0;
}

int
caches_mount(struct slot_view *v, const Koda__Overlay *o, struct caches_empty *ret_empty,
    size_t *ret_n_empty, struct koda_error *err)
{
	cleanup(job_done) struct cache_job j = { .v = v,
		.o = o,
		.at = -1,
		.layers = -1,
		.upper = -1,
		.work = -1,
		.root = -1,
		.empty = ret_empty };

	*ret_n_empty = 0;
	if (o != NULL &&
	    (open_layers(&j, err) < 0 || mount_all(&j, err) < 0 || hide_rest(&j, err) < 0 ||
		note_own(&j, err) < 0))
		return -1;
	*ret_n_empty = j.n_empty;
	return drop_override(err);
}
