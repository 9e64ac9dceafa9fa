/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "host/machine/state.h"
#include "proto/draft.pb-c.h"
#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/base/io.h"
#include "shared/wire/message.h"

#define ABOUT     "about"
#define MOUNTED   "mounted"
#define ABOUT_MAX (DRAFT_DIRS_MAX * (PATH_LEN_MAX + 64) + PATH_LEN_MAX + 256)

/* ---- about ---- */

static void
drop_dirs(struct draft *d)
{
	for (size_t i = 0; i < d->n_dirs; i++)
		free(d->dir[i].path);
	free(d->root);
	d->root = NULL;
	d->n_dirs = 0;
}

static int
write_about(const struct draft *d, struct koda_error *err)
{
	Koda__DraftAbout about = KODA__DRAFT_ABOUT__INIT;
	Koda__DraftDirectory dir[DRAFT_DIRS_MAX], *list[DRAFT_DIRS_MAX];
	cleanup_free uint8_t *packed = NULL;
	cleanup_close int fd = -1;
	size_t len;

	about.version = DRAFT_VERSION;
	about.root = message_text(d->root);
	about.begun_ns = d->begun_ns;
	for (size_t i = 0; i < d->n_dirs; i++) {
		koda__draft_directory__init(&dir[i]);
		dir[i].path = message_text(d->dir[i].path);
		dir[i].dev = (uint64_t)d->dir[i].dev;
		dir[i].ino = (uint64_t)d->dir[i].ino;
		dir[i].name = message_text(d->dir[i].name);
		list[i] = &dir[i];
	}
	about.directory = list;
	about.n_directory = d->n_dirs;
	len = koda__draft_about__get_packed_size(&about);
	packed = malloc(len);
	if (packed == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	koda__draft_about__pack(&about, packed);
	fd = openat(d->fd, ABOUT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write_all(fd, packed, len) < 0 || fsync(fd) < 0)
		return err_set(err, KODA_IO, errno, "write what the draft is of");
	return 0;
}

static char *
text_of(const ProtobufCBinaryData *b)
{
	return b->len > 0 && memchr(b->data, '\0', b->len) == NULL
	    ? strndup((const char *)b->data, b->len)
	    : NULL;
}

static int
take_about(const Koda__DraftAbout *about, struct draft *d, struct koda_error *err)
{
	if (about->version != DRAFT_VERSION)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "draft '%s' was made by another version of koda-sandbox", d->id);
	if (about->n_directory == 0 || about->n_directory > DRAFT_DIRS_MAX)
		return err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
	d->root = text_of(&about->root);
	d->begun_ns = about->begun_ns;
	for (size_t i = 0; i < about->n_directory; i++) {
		const Koda__DraftDirectory *from = about->directory[i];
		struct draft_dir *to = &d->dir[d->n_dirs];

		if (from->name.len == 0 || from->name.len >= sizeof(to->name) ||
		    strspn((const char *)from->name.data, "0123456789") < from->name.len)
			return err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
		memcpy(to->name, from->name.data, from->name.len);
		to->name[from->name.len] = '\0';
		to->dev = (dev_t)from->dev;
		to->ino = (ino_t)from->ino;
		to->path = text_of(&from->path);
		if (to->path == NULL || to->path[0] != '/')
			return err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
		d->n_dirs++;
	}
	return d->root != NULL ? 0 : err_set(err, KODA_IO, 0, "draft '%s' is damaged", d->id);
}

static int
read_about(struct draft *d, struct koda_error *err)
{
	cleanup_close int fd = openat(d->fd, ABOUT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free uint8_t *data = malloc(ABOUT_MAX);
	const Koda__DraftAbout *about;
	struct arena arena;
	ssize_t n;
	int r = -1;

	if (data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	n = fd < 0 ? -1 : read_whole(fd, data, ABOUT_MAX);
	if (n < 0)
		return err_set(err, KODA_IO, errno, "read what draft '%s' is of", d->id);
	arena_init(&arena);
	about = (const Koda__DraftAbout *)message_unpack(&koda__draft_about__descriptor, data,
	    (size_t)n, &arena, err);
	if (about != NULL)
		r = take_about(about, d, err);
	arena_done(&arena);
	return r;
}

/* ---- making one ---- */

/* The longest tick of a kernel's clock is 10 ms. */
#define TICK_STEP_NS 500000
#define TICK_STEPS   40

/*
 * Returns a time, by the clock that files are stamped with, that is later than all changes until now. That
 * clock ticks every few milliseconds, but newer kernels stamp a file more exactly if a process has looked
 * at its time: so a change may look later than the clock was.
 */
static int64_t
time_after_all(void)
{
	const uint64_t now = clock_ns(CLOCK_REALTIME);
	uint64_t tick = clock_ns(CLOCK_REALTIME_COARSE);

	for (int i = 0; i < TICK_STEPS && tick <= now; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = TICK_STEP_NS }, NULL);
		tick = clock_ns(CLOCK_REALTIME_COARSE);
	}
	return (int64_t)tick;
}

static int
add_dir(struct draft *d, const char *path, struct koda_error *err)
{
	cleanup_close int fd = state_open_directory(path, err);
	struct draft_dir *dir = &d->dir[d->n_dirs];
	char part[sizeof(dir->name) + 2];
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, KODA_INVALID, 0, "'%s' is not a directory: it gets no draft",
		    path);
	snprintf(dir->name, sizeof(dir->name), "%zu", d->n_dirs);
	if (mkdirat(d->fd, dir->name, 0700) < 0)
		return err_set(err, KODA_IO, errno, "make a draft");
	for (size_t i = 0; i < 2; i++) {
		snprintf(part, sizeof(part), "%s/%c", dir->name, "uw"[i]);
		/* What is seen of the directory itself is the upper one's mode. */
		if (mkdirat(d->fd, part, 0700) < 0 ||
		    (i == 0 && fchmodat(d->fd, part, st.st_mode & 07777, 0) < 0))
			return err_set(err, KODA_IO, errno, "make a draft");
	}
	dir->dev = st.st_dev;
	dir->ino = st.st_ino;
	dir->path = strdup(path);
	d->n_dirs += dir->path != NULL;
	return dir->path != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "draft");
}

static int
fill_new(struct draft *d, const char *root, const char *const *dirs, size_t n,
    struct koda_error *err)
{
	d->root = strdup(root);
	d->begun_ns = time_after_all();
	if (d->root == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	for (size_t i = 0; i < n; i++)
		if (add_dir(d, dirs[i], err) < 0)
			return -1;
	return write_about(d, err);
}

int
draft_make(const char *state, const char *root, const char *const *dirs, size_t n,
    struct draft *ret, struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_drafts, state, root, true);

	*ret = DRAFT_CLOSED;
	if (all < 0)
		return err_set(err, KODA_IO, errno, "make the directory of drafts in '%s'", state);
	if (n == 0 || n > DRAFT_DIRS_MAX)
		return err_set(err, KODA_INVALID, 0,
		    "a draft of %zu directories: at least 1 and at most %d are possible", n,
		    DRAFT_DIRS_MAX);
	ret->fd = named_make(&named_drafts, all, ret->id, err);
	if (ret->fd < 0)
		return -1;
	if (fill_new(ret, root, dirs, n, err) == 0) {
		if (named_appear(&named_drafts, all, ret->id, err) == 0)
			return 0;
	} else {
		named_give_up(all, ret->id);
	}
	draft_close(ret);
	return -1;
}

static int
make_whiteout(int dir, const char *name)
{
	cleanup_close int fd = -1;

	if (mknodat(dir, name, S_IFCHR, 0) == 0)
		return 0;
	if (errno != EPERM)
		return -1;
	/* An overlay has no such device, and a review takes this for the same. */
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : fsetxattr(fd, "user.overlay.whiteout", "y", 1, 0);
}

/* Make a whiteout in the upper directory u. Returns 0, or -1 with errno. */
static int
put_whiteout(int u, char *path)
{
	char *slash = strrchr(path, '/');
	const char *name = slash != NULL ? slash + 1 : path;
	cleanup_close int dir = -1;
	struct stat st;
	int r;

	if (slash != NULL)
		*slash = '\0';
	if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		errno = EINVAL;
		return -1;
	}
	dir = slash != NULL ? open_walked(u, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
			    : fcntl(u, F_DUPFD_CLOEXEC, 3);
	if (dir < 0)
		return -1;
	r = make_whiteout(dir, name);
	if (r == 0 || errno != EACCES || fstat(dir, &st) < 0)
		return r;
	/* The directory has the mode that it is to have in the project. */
	if (fchmod(dir, (st.st_mode & 07777) | 0700) < 0)
		return -1;
	r = make_whiteout(dir, name);
	return fchmod(dir, st.st_mode & 07777) < 0 ? -1 : r;
}

static int
put_whiteouts(const struct draft *d, int from, const char *gone)
{
	cleanup_close int u = openat(d->fd, "0/u", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd = openat(from, gone, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), r = 0;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	cleanup_free char *path = NULL;
	size_t size = 0;

	if (f == NULL) {
		close_at(&fd);
		return -1;
	}
	while (r == 0 && u >= 0 && getdelim(&path, &size, '\0', f) > 0)
		r = put_whiteout(u, path);
	if (ferror(f))
		r = -1;
	fclose(f);
	return u < 0 ? -1 : r;
}

/* It counts as mounted when it began, so what changed in the project since then is a conflict. */
static int
fill_of(struct draft *d, const char *root, int64_t begun_ns, int from, const char *upper,
    const char *gone, struct koda_error *err)
{
	/* Never mounted: it was made of a copy, in which its files have names too. */
	const int64_t before = begun_ns - 1;
	const struct timespec stamp = { before / 1000000000, before % 1000000000 };
	cleanup_close int mounted = -1;

	d->root = strdup(root);
	d->begun_ns = begun_ns;
	if (d->root == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	if (add_dir(d, root, err) < 0 || write_about(d, err) < 0)
		return -1;
	/* Its place is an empty directory. */
	if (renameat(from, upper, d->fd, "0/u") < 0 || put_whiteouts(d, from, gone) < 0)
		return err_set(err, KODA_IO, errno, "make a draft of what was changed");
	mounted = openat(d->fd, MOUNTED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (mounted < 0 || futimens(mounted, (const struct timespec[]){ stamp, stamp }) < 0)
		return err_set(err, KODA_IO, errno, "make a draft of what was changed");
	return 0;
}

int
draft_make_of(const char *state, const char *root, int64_t begun_ns, int from, const char *upper,
    const char *gone, draft_named_fn *named, void *data, struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_drafts, state, root, true);
	struct draft d = DRAFT_CLOSED;
	int r;

	if (all < 0)
		return err_set(err, KODA_IO, errno, "make the directory of drafts in '%s'", state);
	d.fd = named_make(&named_drafts, all, d.id, err);
	if (d.fd < 0)
		return -1;
	r = fill_of(&d, root, begun_ns, from, upper, gone, err);
	if (r == 0)
		r = named(data, d.id, err);
	if (r == 0)
		r = named_appear(&named_drafts, all, d.id, err);
	else
		named_give_up(all, d.id);
	draft_close(&d);
	return r;
}

/* ---- the others ---- */

static int
open_one(int all, const char *id, enum named_lock how, struct draft *ret, struct koda_error *err)
{
	*ret = DRAFT_CLOSED;
	ret->fd = named_open(&named_drafts, all, id, how, err);
	if (ret->fd < 0)
		return -1;
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	if (read_about(ret, err) == 0)
		return 0;
	draft_close(ret);
	return -1;
}

/* overlayfs refuses a working directory that a volatile mount has used: it cannot tell whether all
 * changes were written. The changes themselves are the kernel's as soon as a command made them. */
int
draft_renew(const struct draft *d, struct koda_error *err)
{
	cleanup_close int mounted = -1;
	struct timespec stamp;
	int64_t now;

	for (size_t i = 0; i < d->n_dirs; i++) {
		cleanup_close int fd = -1;
		char name[sizeof(d->dir[i].name) + 2];

		snprintf(name, sizeof(name), "%s/w", d->dir[i].name);
		fd = openat(d->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || cache_tree_empty(fd, CACHE_NO_DEADLINE) < 0)
			return err_set(err, KODA_IO, errno, "prepare draft '%s'", d->id);
	}
	mounted = openat(d->fd, MOUNTED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	/* A new draft begins where it is mounted first. */
	now = (int64_t)clock_ns(CLOCK_REALTIME_COARSE);
	if (now != d->begun_ns)
		now = time_after_all();
	stamp = (struct timespec){ now / 1000000000, now % 1000000000 };
	if (mounted < 0 || futimens(mounted, (const struct timespec[]){ stamp, stamp }) < 0)
		return err_set(err, KODA_IO, errno, "prepare draft '%s'", d->id);
	return 0;
}

int64_t
draft_mounted_ns(const struct draft *d)
{
	struct stat st;

	if (fstatat(d->fd, MOUNTED, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

int
draft_open(const char *state, const char *root, const char *id, struct draft *ret,
    struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_drafts, state, root, false);

	*ret = DRAFT_CLOSED;
	if (all < 0)
		return err_set(err, errno == ENOENT ? KODA_INVALID : KODA_IO,
		    errno == ENOENT ? 0 : errno, "there is no draft '%.40s' of '%.300s'", id, root);
	return open_one(all, id, NAMED_WAIT, ret, err);
}

void
draft_close(struct draft *d)
{
	close_at(&d->fd);
	d->fd = -1;
	drop_dirs(d);
}

void
draft_abandon(struct draft *d)
{
	/* The descriptor shares the parent's lock, which closing it here keeps. */
	draft_close(d);
}

int
draft_discard(const char *state, struct draft *d, struct koda_error *err)
{
	cleanup_close int all = named_open_all(&named_drafts, state, d->root, false);

	if (all < 0)
		return err_set(err, KODA_IO, errno, "discard draft '%s'", d->id);
	if (named_remove(&named_drafts, all, d->id, err) < 0)
		return -1;
	draft_close(d);
	return 0;
}

/* ---- all of them ---- */

struct drafts_found {
	struct draft *v;
	size_t n;
};

static void
found_done(struct drafts_found *f)
{
	while (f->n > 0)
		draft_close(&f->v[--f->n]);
	free(f->v);
}

static int
by_age(const void *a, const void *b)
{
	const struct draft *x = a, *y = b;

	if (x->begun_ns != y->begun_ns)
		return x->begun_ns < y->begun_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* One that is damaged, or was discarded meanwhile, is left out. */
static int
on_name(void *data, int all, const char *id)
{
	struct drafts_found *f = data;
	struct draft *grown = reallocarray(f->v, f->n + 1, sizeof(*grown));

	if (grown == NULL)
		return -1;
	f->v = grown;
	if (open_one(all, id, NAMED_AT_ONCE, &f->v[f->n], NULL) < 0) {
		if (open_one(all, id, NAMED_UNLOCKED, &f->v[f->n], NULL) < 0)
			return 0;
		f->v[f->n].in_use = true;
	}
	/* What was found is shown later; a lock until then would stop others. */
	close_at(&f->v[f->n].fd);
	f->v[f->n++].fd = -1;
	return 0;
}

static int
on_root(void *data, int all)
{
	return named_list(&named_drafts, all, on_name, data, NULL);
}

int
draft_list(const char *state, const char *root, draft_each_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup_close int all =
	    root == NULL ? -1 : named_open_all(&named_drafts, state, root, false);
	cleanup(found_done) struct drafts_found f = { 0 };
	int r = 0;

	if (root == NULL)
		r = named_roots(&named_drafts, state, on_root, &f, err);
	else if (all >= 0)
		r = named_list(&named_drafts, all, on_name, &f, err);
	else if (errno != ENOENT)
		return err_set(err, KODA_IO, errno, "open the directory of drafts in '%s'", state);
	if (r < 0)
		return -1;
	if (f.n > 1)
		qsort(f.v, f.n, sizeof(*f.v), by_age);
	for (size_t i = 0; r == 0 && i < f.n; i++)
		r = fn(data, &f.v[i]);
	return r;
}
