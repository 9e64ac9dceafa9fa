/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/lower_names.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"

/* Directories that are watched, of a user's 8192 or more watches. */
#define DIRS_MAX 6144
/* Looked at in one turn of the loop, which then looks for orders: less than a millisecond. */
#define DIRS_AT_ONCE 16
/* A slot that is asked less often has no use for watches, which take time to remove at its end. */
#define ASKED_MIN 4
#define ROOTS_MAX 64 /* as DRAFTS_PLACES_MAX */

/* The lock files of a tool that looks at the project, as `git status` does. */
#define FRESH_MAX      8
#define FRESH_NAME_MAX 32

/* Names, and modes, which the kernel does not look at again either. */
#define CHANGES (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB)
/* With IN_ISDIR: there may be a directory that is not watched. */
#define NEW_DIRS (IN_CREATE | IN_MOVED_TO | IN_ATTRIB)

struct lower_names {
	int inotify; /* -1: given up */
	int root[ROOTS_MAX];
	size_t n_roots;
	unsigned asked;
	bool changed; /* since lower_names_changed() said so */
	bool idle;    /* no process has looked up names since the last events */
	/* Directories to look at; relative to their root. */
	struct todo {
		size_t root;
		char *path;
	} * todo;
	size_t n_todo, todo_size;
	size_t n_dirs; /* watched */
	enum { NOT_YET, SOME, ALL } watched;
	/* Names that came, and that no command can have seen. */
	struct fresh {
		int dir;
		char name[FRESH_NAME_MAX];
	} fresh[FRESH_MAX];
	size_t n_fresh;
};

struct lower_names *
lower_names_new(void)
{
	struct lower_names *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return NULL;
	n->changed = true;
	n->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (n->inotify >= 0)
		return n;
	free(n);
	return NULL;
}

static void
forget_todo(struct lower_names *n)
{
	while (n->n_todo > 0)
		free(n->todo[--n->n_todo].path);
}

static void
give_up(struct lower_names *n)
{
	forget_todo(n);
	close(n->inotify);
	n->inotify = -1;
	n->watched = NOT_YET;
}

void
lower_names_free(struct lower_names *n)
{
	if (n == NULL)
		return;
	if (n->inotify >= 0)
		give_up(n);
	for (size_t i = 0; i < n->n_roots; i++)
		close(n->root[i]);
	free(n->todo);
	free(n);
}

/* Takes over the path, NULL if memory is short. */
static void
add_todo(struct lower_names *n, size_t root, char *path)
{
	if (path != NULL && n->n_todo == n->todo_size) {
		const size_t size = n->todo_size > 0 ? 2 * n->todo_size : 64;
		struct todo *more = reallocarray(n->todo, size, sizeof(*more));

		n->todo = more != NULL ? more : n->todo;
		n->todo_size = more != NULL ? size : n->todo_size;
	}
	if (path == NULL || n->n_todo == n->todo_size || n->n_todo + n->n_dirs >= DIRS_MAX) {
		free(path);
		give_up(n);
		return;
	}
	n->todo[n->n_todo++] = (struct todo){ root, path };
}

/* From the beginning: what is watched already stays watched. */
static void
begin(struct lower_names *n)
{
	forget_todo(n);
	n->watched = SOME;
	n->n_dirs = 0;
	for (size_t i = 0; i < n->n_roots && n->inotify >= 0; i++)
		add_todo(n, i, strdup("."));
}

void
lower_names_add(struct lower_names *n, int root)
{
	if (n != NULL && n->n_roots < ROOTS_MAX)
		n->root[n->n_roots++] = root;
	else
		close(root);
}

/* ---- what changed ---- */

/* A name that came and went while no command ran was never looked up. Returns false if it is such. */
static bool
stays(struct lower_names *n, const struct inotify_event *e)
{
	struct fresh *f = n->fresh;

	if (!n->idle || e->len == 0 || strlen(e->name) >= FRESH_NAME_MAX)
		return true;
	if (e->mask == IN_CREATE && n->n_fresh < FRESH_MAX) {
		f = &n->fresh[n->n_fresh++];
		f->dir = e->wd;
		strcpy(f->name, e->name);
		return false;
	}
	while (f < n->fresh + n->n_fresh && (f->dir != e->wd || strcmp(f->name, e->name) != 0))
		f++;
	if (e->mask != IN_DELETE || f == n->fresh + n->n_fresh)
		return true;
	*f = n->fresh[--n->n_fresh];
	return false;
}

static void
read_events(struct lower_names *n)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool dirs = false;
	ssize_t len;

	n->n_fresh = 0;
	while ((len = read(n->inotify, buf, sizeof(buf))) > 0) {
		for (const char *p = buf; p < buf + len;) {
			const struct inotify_event *e = (const struct inotify_event *)p;

			n->changed = stays(n, e) || n->changed;
			dirs = dirs || (e->mask & IN_Q_OVERFLOW) != 0 ||
			    ((e->mask & IN_ISDIR) != 0 && (e->mask & NEW_DIRS) != 0);
			p += sizeof(*e) + e->len;
		}
	}
	n->changed = n->changed || n->n_fresh > 0;
	if (len < 0 && errno != EAGAIN)
		give_up(n);
	else if (dirs)
		begin(n);
}

void
lower_names_idle(struct lower_names *n)
{
	if (n == NULL || n->watched == NOT_YET || n->idle)
		return;
	read_events(n);
	n->idle = true;
}

bool
lower_names_changed(struct lower_names *n)
{
	bool ret;

	if (n == NULL || n->inotify < 0)
		return true;
	if (n->asked < ASKED_MIN && ++n->asked == ASKED_MIN)
		begin(n);
	if (n->inotify >= 0)
		read_events(n);
	ret = n->changed || n->watched != ALL;
	n->changed = n->idle = false;
	return ret;
}

/* ---- watching ---- */

static int
open_list(const struct lower_names *n, const struct todo *t, DIR **ret)
{
	int fd = open_beneath(n->root[t->root], t->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	char name[32];

	*ret = NULL;
	/* It is gone, or no command can look up names in it; either is an event of its parent. */
	if (fd < 0 && errno == EACCES && faccessat(n->root[t->root], t->path, X_OK, 0) < 0)
		return 0;
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	/* Before it is read: what comes later is an event. */
	if (inotify_add_watch(n->inotify, name, CHANGES | IN_ONLYDIR) < 0 ||
	    (*ret = fdopendir(fd)) == NULL) {
		close(fd);
		return -1;
	}
	return 0;
}

static bool
is_directory(DIR *list, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(dirfd(list), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode);
}

static void
look_at(struct lower_names *n, const struct todo *t)
{
	const struct dirent *e;
	DIR *list;

	if (open_list(n, t, &list) < 0) {
		give_up(n);
		return;
	}
	if (list == NULL)
		return;
	n->n_dirs++;
	while (n->inotify >= 0 && (errno = 0, e = readdir(list)) != NULL) {
		char *path;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    !is_directory(list, e))
			continue;
		if (asprintf(&path, "%s/%s", t->path, e->d_name) < 0)
			path = NULL;
		if (path != NULL && strlen(path) >= PATH_MAX) {
			free(path);
			path = NULL;
		}
		add_todo(n, t->root, path);
	}
	if (n->inotify >= 0 && errno != 0)
		give_up(n);
	closedir(list);
}

bool
lower_names_waits(const struct lower_names *n)
{
	return n != NULL && n->n_todo > 0;
}

void
lower_names_look(struct lower_names *n)
{
	for (int i = 0; i < DIRS_AT_ONCE && lower_names_waits(n); i++) {
		const struct todo t = n->todo[--n->n_todo];

		look_at(n, &t);
		free(t.path);
	}
	if (n == NULL || n->watched != SOME || n->n_todo > 0)
		return;
	/* What changed before a directory was watched is not an event. */
	n->watched = ALL;
	n->changed = true;
}
