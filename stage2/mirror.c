/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/mirror.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/mounts.h"
#include "stage2/notice.h"
#include "stage2/restrict.h"

#ifndef MOVE_MOUNT_BENEATH
#define MOVE_MOUNT_BENEATH 0x00000200 /* Linux 6.5 */
#endif

/* Nesting of directories on the way to a hidden name: no sensible path of a policy has more. */
#define LEVELS_MAX 64
/* Size of a mirror's file system: it holds names, and targets of links. */
#define MIRROR_BYTES (1u << 20)

struct level;

/* A name that commands see. */
struct mirror_name {
	char *name;
	struct stat st;   /* what it was when it was bound */
	int64_t mount_id; /* of the bind mount; -1: none */
	/* A directory on the way to a hidden name. NULL: it is bound, or a link. */
	struct level *level;
	unsigned round; /* the round in which it was last seen */
};

/* A directory on the host, and its copy. */
struct level {
	char *rel; /* below the mirror's path; "" is the mirror itself */
	int real;  /* O_RDONLY, with a notice */
	int copy;  /* its copy in the mirror's file system, for writing */
	bool blind;
	struct mirror_name *v;
	size_t n, size, cursor;
	unsigned round, depth;
};

struct mirror {
	char *path;
	char **hidden;
	size_t n_hidden;
	mirror_pinned_fn *pinned;
	const void *data;
	int view; /* the mount that commands see, read-only */
	int own;  /* the same file system, not attached anywhere, for writing */
	struct level *top;
	size_t n_names;
};

static void level_free(struct level *l);

static void
name_done(struct mirror_name *s)
{
	level_free(s->level);
	free(s->name);
}

static void
level_free(struct level *l)
{
	if (l == NULL)
		return;
	for (size_t i = 0; i < l->n; i++)
		name_done(&l->v[i]);
	free(l->v);
	free(l->rel);
	close_at(&l->real);
	close_at(&l->copy);
	free(l);
}

static struct level *
level_new(const char *rel, unsigned depth)
{
	struct level *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->real = l->copy = -1;
	l->depth = depth;
	l->rel = strdup(rel);
	if (l->rel == NULL) {
		free(l);
		return NULL;
	}
	return l;
}

struct mirror *
mirror_new(const char *path, mirror_pinned_fn *pinned, const void *data)
{
	struct mirror *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->pinned = pinned;
	m->data = data;
	m->view = m->own = -1;
	m->path = strdup(path);
	if (m->path == NULL) {
		free(m);
		return NULL;
	}
	return m;
}

static void
detach_tree(struct mirror *m)
{
	level_free(take_ptr(&m->top));
	close_at(&m->view);
	close_at(&m->own);
	m->view = m->own = -1;
	m->n_names = 0;
}

void
mirror_free(struct mirror *m)
{
	if (m == NULL)
		return;
	detach_tree(m);
	for (size_t i = 0; i < m->n_hidden; i++)
		free(m->hidden[i]);
	free(m->hidden);
	free(m->path);
	free(m);
}

int
mirror_hide(struct mirror *m, const char *rel)
{
	char **more = reallocarray(m->hidden, m->n_hidden + 1, sizeof(*more));

	if (more == NULL)
		return -1;
	m->hidden = more;
	m->hidden[m->n_hidden] = strdup(rel);
	return m->hidden[m->n_hidden] == NULL ? -1 : (m->n_hidden++, 0);
}

/* ---- which names ---- */

enum way { WAY_SHOWN, WAY_HIDDEN, WAY_LEADS };

/* Is that name hidden, or does it lead to a hidden one? */
static enum way
way_of(const struct mirror *m, const char *rel)
{
	enum way way = WAY_SHOWN;

	for (size_t i = 0; i < m->n_hidden; i++) {
		if (path_is_inside(rel, m->hidden[i]))
			return WAY_HIDDEN;
		if (path_is_inside(m->hidden[i], rel))
			way = WAY_LEADS;
	}
	return way;
}

static bool
is_same(const struct stat *a, const struct stat *b)
{
	/*
	 * What is bound or open keeps its inode number; the number of a link that was removed may
	 * have been reused.
	 */
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	    (a->st_mode & S_IFMT) == (b->st_mode & S_IFMT) &&
	    (!S_ISLNK(a->st_mode) ||
		(a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
		    a->st_ctim.tv_nsec == b->st_ctim.tv_nsec));
}

/* Usually the name follows the one found last: a directory lists its names in the same order. */
static struct mirror_name *
find_name(struct level *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++) {
		size_t at = (l->cursor + i) % l->n;

		if (strcmp(l->v[at].name, name) == 0) {
			l->cursor = at + 1;
			return &l->v[at];
		}
	}
	return NULL;
}

/* ---- binding ---- */

/* Opens the name in the view, with what is mounted there. */
static int
open_seen(const struct mirror *m, const struct level *l, const char *name)
{
	char rel[PATH_MAX];

	if ((size_t)snprintf(rel, sizeof(rel), "%s%s%s", l->rel, l->rel[0] != '\0' ? "/" : "",
		name) >= sizeof(rel)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return resolve(m->view, rel);
}

static int
unmount_seen(const struct mirror *m, const struct level *l, const struct mirror_name *s)
{
	cleanup_close int fd = open_seen(m, l, s->name);

	return mounts_detach(fd, s->mount_id);
}

/* Returns a detached mount of what the name is on the host now; *ret_st describes exactly that. */
static int
clone_real(const struct level *l, const char *name, struct stat *ret_st)
{
	cleanup_close int fd = openat(l->real, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -1;
	if (S_ISLNK(ret_st->st_mode)) {
		/* The name was no link a moment ago; another signal will come. */
		errno = EAGAIN;
		return -1;
	}
	return clone_mount(fd);
}

static int
bind_name(struct mirror *m, struct level *l, struct mirror_name *s)
{
	cleanup_close int mnt = clone_real(l, s->name, &s->st), at = -1, file = -1;

	if (mnt < 0)
		return -1;
	if (S_ISDIR(s->st.st_mode)) {
		if (mkdirat(l->copy, s->name, 0755) < 0)
			return -1;
	} else {
		file = openat(l->copy, s->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
		if (file < 0)
			return -1;
	}
	at = open_seen(m, l, s->name);
	if (at >= 0 && attach(mnt, at) == 0) {
		s->mount_id = mount_id(mnt);
		return 0;
	}
	unlinkat(l->copy, s->name, S_ISDIR(s->st.st_mode) ? AT_REMOVEDIR : 0);
	return -1;
}

/*
 * Mounts the new object under the old one and then unmounts the old one, so the name is never
 * missing. Returns -1 if that is not possible.
 */
static int
rebind_name(struct mirror *m, struct level *l, struct mirror_name *s)
{
	struct stat st;
	cleanup_close int mnt = clone_real(l, s->name, &st), at = open_seen(m, l, s->name);

	if (mnt < 0 || at < 0 || S_ISDIR(st.st_mode) != S_ISDIR(s->st.st_mode) ||
	    mount_id(at) != s->mount_id ||
	    syscall(SYS_move_mount, mnt, "", at, "",
		MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH | MOVE_MOUNT_BENEATH) < 0)
		return -1;
	if (unmount_seen(m, l, s) < 0)
		return -1;
	s->mount_id = mount_id(mnt);
	s->st = st;
	return 0;
}

static int
copy_link(const struct level *l, struct mirror_name *s)
{
	char to[PATH_MAX];
	ssize_t n = readlinkat(l->real, s->name, to, sizeof(to) - 1);

	if (n < 0)
		return -1;
	to[n] = '\0';
	return symlinkat(to, l->copy, s->name);
}

static int sync_level(struct mirror *m, struct level *l);

static int
make_level(struct mirror *m, struct level *l, struct mirror_name *s, const char *rel)
{
	struct level *next = level_new(rel, l->depth + 1);

	if (next == NULL)
		return -1;
	next->real = openat(l->real, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (next->real < 0 || fstat(next->real, &s->st) < 0 || next->depth > LEVELS_MAX ||
	    (mkdirat(l->copy, s->name, 0755) < 0 && errno != EEXIST) ||
	    (next->copy = openat(l->copy, s->name,
		 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
		level_free(next);
		return -1;
	}
	next->blind = notice_directory(next->real) < 0;
	s->level = next;
	return sync_level(m, next);
}

/* ---- comparing ---- */

static void
drop_name(struct mirror *m, struct level *l, struct mirror_name *s)
{
	bool directory = s->level != NULL || (s->mount_id >= 0 && S_ISDIR(s->st.st_mode));

	while (s->level != NULL && s->level->n > 0)
		drop_name(m, s->level, &s->level->v[s->level->n - 1]);
	if (s->mount_id >= 0)
		unmount_seen(m, l, s);
	unlinkat(l->copy, s->name, directory ? AT_REMOVEDIR : 0);
	name_done(s);
	*s = l->v[--l->n];
	m->n_names--;
}

static int
add_name(struct mirror *m, struct level *l, const char *name, const struct stat *st, enum way way,
    const char *rel)
{
	struct mirror_name *more, *s;
	int r;

	if (m->n_names >= MIRROR_NAMES_MAX) {
		errno = E2BIG;
		return -1;
	}
	if (l->n == l->size) {
		more = reallocarray(l->v, l->size == 0 ? 32 : 2 * l->size, sizeof(*more));
		if (more == NULL)
			return -1;
		l->v = more;
		l->size = l->size == 0 ? 32 : 2 * l->size;
	}
	s = &l->v[l->n];
	*s = (struct mirror_name){ strdup(name), *st, -1, NULL, l->round };
	if (s->name == NULL)
		return -1;
	if (S_ISLNK(st->st_mode))
		r = copy_link(l, s);
	else if (way == WAY_LEADS && S_ISDIR(st->st_mode))
		r = make_level(m, l, s, rel);
	else
		r = bind_name(m, l, s);
	if (r < 0 && s->level == NULL) {
		int saved = errno;

		name_done(s);
		errno = saved;
		return -1;
	}
	l->n++;
	m->n_names++;
	return r;
}

/*
 * Checks one name that exists. Returns 0, or -1 with errno if it is not shown although it should
 * be.
 */
static int
look_at(struct mirror *m, struct level *l, const char *name)
{
	char rel[PATH_MAX], path[PATH_MAX];
	struct mirror_name *s = find_name(l, name);
	struct stat st;
	enum way way;

	if ((size_t)snprintf(rel, sizeof(rel), "%s%s%s", l->rel, l->rel[0] != '\0' ? "/" : "",
		name) >= sizeof(rel) ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", m->path, rel) >= sizeof(path))
		return 0;
	way = way_of(m, rel);
	if (way == WAY_HIDDEN || fstatat(l->real, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (s != NULL && is_same(&s->st, &st)) {
		s->round = l->round;
		return s->level != NULL ? sync_level(m, s->level) : 0;
	}
	if (s != NULL && m->pinned(m->data, path) && s->level == NULL) {
		s->round = l->round;
		return 0;
	}
	if (way == WAY_LEADS && S_ISLNK(st.st_mode))
		return 0;
	if (s != NULL && s->mount_id >= 0 && way == WAY_SHOWN && !S_ISLNK(st.st_mode) &&
	    rebind_name(m, l, s) == 0) {
		s->round = l->round;
		return 0;
	}
	if (s != NULL)
		drop_name(m, l, s);
	return add_name(m, l, name, &st, way, rel);
}

/*
 * A single name that cannot be bound is just not shown. If nothing more can be bound at all, the
 * view cannot be used.
 */
static bool
is_shortage(int errnum)
{
	return errnum == E2BIG || errnum == ENOMEM || errnum == EMFILE || errnum == ENFILE ||
	    errnum == ENOSPC;
}

/*
 * Compares a directory with the host. Returns 0, or -1 with errno if a name that should be shown is
 * not. Names that should not be shown are not shown in either case.
 */
static int
sync_level(struct mirror *m, struct level *l)
{
	int fd = openat(l->real, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = 0;
	cleanup(closedir_at) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;

	if (dir == NULL && fd >= 0)
		close(fd);
	if (dir == NULL && errno != ENOENT)
		return -1;
	l->round++;
	l->cursor = 0;
	while (dir != NULL && (d = readdir(dir)) != NULL) {
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
		    look_at(m, l, d->d_name) < 0 && !is_shortage(failed))
			failed = errno;
	}
	for (size_t i = l->n; i > 0; i--) {
		char path[PATH_MAX];
		struct mirror_name *s = &l->v[i - 1];

		snprintf(path, sizeof(path), "%s/%s%s%s", m->path, l->rel,
		    l->rel[0] != '\0' ? "/" : "", s->name);
		if (s->round != l->round && (s->level != NULL || !m->pinned(m->data, path)))
			drop_name(m, l, s);
	}
	errno = failed;
	return failed == 0 ? 0 : -1;
}

/* Does the directory have too many names? Called before anything is bound. */
static bool
is_crowd(int real)
{
	int fd = openat(real, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup(closedir_at) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;

	if (dir == NULL && fd >= 0)
		close(fd);
	while (dir != NULL && n <= MIRROR_NAMES_MAX + 2 && readdir(dir) != NULL)
		n++;
	return n > MIRROR_NAMES_MAX + 2;
}

int
mirror_attach(struct mirror *m, int at)
{
	cleanup_close int fs = -1, real = -1;
	struct stat st;

	detach_tree(m);
	m->top = level_new("", 0);
	real = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->top == NULL || real < 0 || fstat(real, &st) < 0)
		return -1;
	if (is_crowd(real)) {
		errno = E2BIG;
		return -1;
	}
	m->top->real = take_fd(&real);
	m->top->blind = notice_directory(m->top->real) < 0;
	fs = mounts_tmpfs(MIRROR_BYTES, MIRROR_NAMES_MAX + LEVELS_MAX,
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fs < 0 || attach(fs, at) < 0)
		return -1;
	m->view = take_fd(&fs);
	m->own = clone_mount(m->view);
	m->top->copy = m->own < 0 ? -1 : openat(m->own, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Keep the mode, which some programs check. Only we need write access. */
	if (m->top->copy < 0 || fchmod(m->top->copy, (st.st_mode & 07777) | 0700) < 0 ||
	    make_read_only(m->view, 0) < 0 || (sync_level(m, m->top) < 0 && is_shortage(errno)))
		return -1;
	return m->view;
}

/* ---- changes ---- */

static bool
has_descriptor(const struct level *l, int fd)
{
	bool found = l->real == fd;

	for (size_t i = 0; i < l->n && !found; i++)
		found = l->v[i].level != NULL && has_descriptor(l->v[i].level, fd);
	return found;
}

static bool
is_blind(const struct level *l)
{
	bool blind = l->blind;

	for (size_t i = 0; i < l->n && !blind; i++)
		blind = l->v[i].level != NULL && is_blind(l->v[i].level);
	return blind;
}

void
mirror_changed(struct mirror *m, int fd)
{
	/* A name that could not be bound is not shown; the next attempt may succeed. */
	if (m->top != NULL && m->view >= 0 && (fd < 0 || has_descriptor(m->top, fd)))
		(void)sync_level(m, m->top);
}

void
mirror_catch_up(struct mirror *m)
{
	if (m->top != NULL && m->view >= 0 && is_blind(m->top))
		(void)sync_level(m, m->top);
}
