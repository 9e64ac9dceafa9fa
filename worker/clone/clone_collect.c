/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what was changed in a copy, as the upper directory of an overlay over the project: files
 * that are new or changed as hard links to them, and the directories on the way. What was deleted is
 * listed: a command cannot make a whiteout. It may be repeated. What comes from it is judged by a worker, as in any other draft.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/clone/clone.h"
#include "worker/clone/clone_base.h"

#define OVERLAY_PREFIX "user.overlay."
#define LIST_SIZE      (64u << 10) /* the kernel has no longer list */

/* A directory of the copy, and the one in the upper, which is made when it is needed. */
struct clone_level {
	struct clone_level *above;
	const char *name;
	int tree, upper;
	struct stat st;
};

struct collecting {
	struct clone_base base;
	char path[CLONE_PATH_MAX + 1];
	unsigned depth;
	uint64_t n;
	FILE *gone; /* what was deleted: paths, each with a NUL */
};

static int
make_upper(struct clone_level *l)
{
	if (l->upper >= 0)
		return 0;
	if (make_upper(l->above) < 0 ||
	    (mkdirat(l->above->upper, l->name, 0700) < 0 && errno != EEXIST))
		return -1;
	l->upper = openat(l->above->upper, l->name, CLONE_OPEN_DIR);
	return l->upper < 0 ? -1 : 0;
}

/* Does the file have attributes by which overlayfs would take it for something else? A command can set
 * them in a copy, and not in a draft. */
static bool
has_marks(int dir, const char *name)
{
	cleanup_free char *list = malloc(LIST_SIZE);
	char path[64 + NAME_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	n = list == NULL ? -1 : llistxattr(path, list, LIST_SIZE);
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1)
		if (strncmp(list + at, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) == 0)
			return true;
	return n < 0 && errno != EOPNOTSUPP;
}

static int
put(struct collecting *c, struct clone_level *l, const char *name, const struct stat *st)
{
	struct clone_copied copied;

	c->n++;
	if (make_upper(l) < 0)
		return clone_fail("collect", c->path, errno);
	if (!S_ISREG(st->st_mode)) {
		if (linkat(l->tree, name, l->upper, name, 0) == 0)
			return 0;
		return S_ISLNK(st->st_mode) && clone_copy_link(l->tree, name, l->upper, name) == 0
		    ? 0
		    : clone_fail("collect", c->path, errno);
	}
	/* A copy of its own has no attributes. Where a file is protected, something is mounted on it,
	 * and there can be no link. */
	if (!has_marks(l->tree, name) && linkat(l->tree, name, l->upper, name, 0) == 0)
		return 0;
	if (clone_copy(l->tree, name, l->upper, name, UINT64_MAX, &copied) < 0 || copied.gone)
		return clone_fail("collect", c->path, copied.gone ? EACCES : errno);
	return 0;
}

static int collect_directory(struct collecting *c, struct clone_level *l, size_t len);

static int
enter(struct collecting *c, struct clone_level *above, const char *name, size_t len, bool changed)
{
	struct clone_level l = { .above = above, .name = name, .tree = -1, .upper = -1 };
	int status = 0;

	if (c->depth == CLONE_DEPTH_MAX)
		return clone_fail("there are too many directories in each other at", c->path, 0);
	l.tree = openat(above->tree, name, CLONE_OPEN_DIR);
	if (l.tree < 0 || fstat(l.tree, &l.st) < 0)
		status = clone_fail("read the directory", c->path, errno);
	c->depth++;
	if (status == 0 && changed && make_upper(&l) < 0)
		status = clone_fail("collect", c->path, errno);
	if (status == 0)
		status = collect_directory(c, &l, len);
	c->depth--;
	/* Others put names into it until now. */
	if (status == 0 && l.upper >= 0 && fchmod(l.upper, l.st.st_mode & 01777) < 0)
		status = clone_fail("collect", c->path, errno);
	close_at(&l.tree);
	close_at(&l.upper);
	return status;
}

static int
collect_name(struct collecting *c, struct clone_level *l, const char *name, size_t len)
{
	struct clone_entry *was = clone_base_find(&c->base, c->path, len), now;
	struct stat st;
	bool changed;

	if (fstatat(l->tree, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return clone_fail("look at", c->path, errno);
	now = clone_entry_of(&st);
	changed = was == NULL || !clone_entry_same(was, &now);
	if (was != NULL)
		was->found = was->type == now.type;
	if (now.type == 'd') {
		/* A directory that changes has more or fewer names, which are looked at. */
		c->n += was == NULL || !was->found;
		return enter(c, l, name, len, changed);
	}
	return changed ? put(c, l, name, &st) : 0;
}

/* The names that were in the directory and are not there now. */
static int
collect_deleted(struct collecting *c, struct clone_level *l, size_t len)
{
	const struct clone_entry *e = clone_base_find(&c->base, c->path, len);
	size_t i = len == 0 ? 0 : e == NULL ? c->base.n : (size_t)(e - c->base.v) + 1;

	if (e != NULL && e->type != 'd')
		return 0;
	for (; i < c->base.n; i++) {
		const char *path = c->base.v[i].path, *name;
		struct stat st;

		if (len > 0 && (strncmp(path, c->path, len) != 0 || path[len] != '/'))
			break;
		name = path + len + (len > 0);
		if (c->base.v[i].found || strchr(name, '/') != NULL ||
		    fstatat(l->tree, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		c->n++;
		if (make_upper(l) < 0)
			return clone_fail("collect", path, errno);
		fputs(path, c->gone);
		fputc('\0', c->gone);
	}
	return 0;
}

static int
collect_directory(struct collecting *c, struct clone_level *l, size_t len)
{
	char **names = clone_names(l->tree);
	int status = names == NULL ? clone_fail("read the directory", c->path, errno) : 0;

	for (size_t i = 0; status == 0 && names[i] != NULL; i++) {
		const size_t at = len + (len > 0), k = strlen(names[i]);

		if (at + k > CLONE_PATH_MAX) {
			status = clone_fail("the path is too long at", c->path, 0);
			break;
		}
		if (len > 0)
			c->path[len] = '/';
		memcpy(c->path + at, names[i], k + 1);
		status = collect_name(c, l, names[i], at + k);
	}
	c->path[len] = '\0';
	clone_names_free(names);
	return status != 0 ? status : collect_deleted(c, l, len);
}

/* Opens the upper directory, which is empty. */
static int
open_upper(int into)
{
	cleanup_close int fd = -1;
	char **names;
	bool empty;

	if (mkdirat(into, CLONE_UPPER, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = openat(into, CLONE_UPPER, CLONE_OPEN_DIR);
	names = fd < 0 ? NULL : clone_names(fd);
	if (names == NULL)
		return -1;
	empty = names[0] == NULL;
	clone_names_free(names);
	errno = ENOTEMPTY;
	return empty ? take_fd(&fd) : -1;
}

static FILE *
open_gone(int into)
{
	int fd =
	    openat(into, CLONE_GONE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (f == NULL)
		close_at(&fd);
	return f;
}

int
clone_collect(int into)
{
	struct collecting c = { 0 };
	struct clone_level top = { .tree = -1, .upper = -1 };
	int status = clone_base_read(into, &c.base);

	if (status == 0) {
		top.tree = openat(into, CLONE_TREE, CLONE_OPEN_DIR);
		top.upper = open_upper(into);
		if (top.tree < 0 || top.upper < 0 || fstat(top.tree, &top.st) < 0)
			status = clone_fail("open", CLONE_TREE, errno);
	}
	if (status == 0 && (c.gone = open_gone(into)) == NULL)
		status = clone_fail("make", CLONE_GONE, errno);
	if (status == 0)
		status = collect_directory(&c, &top, 0);
	if (c.gone != NULL && (ferror(c.gone) != 0) + (fclose(c.gone) != 0) > 0)
		status = clone_fail("write", CLONE_GONE, errno);
	if (status == 0 && fchmod(top.upper, top.st.st_mode & 01777) < 0)
		status = clone_fail("collect", CLONE_UPPER, errno);
	close_at(&top.tree);
	close_at(&top.upper);
	clone_base_done(&c.base);
	if (status == 0)
		printf("done %" PRIu64 " 0 0\n", c.n);
	return status;
}
