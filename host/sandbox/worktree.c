/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/worktree.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define POINTER_MAX (PATH_MAX + 64) /* a path and a word before it */
#define CONFIG_MAX  (64u << 10)     /* the configuration of a submodule has a few lines */

/* Returns the content of a small regular file of this user, without trailing line ends. The caller
 * frees it. */
static char *
read_small(const char *dir, const char *name, size_t max)
{
	cleanup_free char *path = NULL, *text = malloc(max + 1);
	cleanup_close int fd = -1;
	struct stat st;
	ssize_t n;

	if (text == NULL || asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return NULL;
	}
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return NULL;
	n = read(fd, text, max + 1);
	if (n <= 0 || (size_t)n > max || memchr(text, '\0', (size_t)n) != NULL)
		return NULL;
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	text[n] = '\0';
	return take_ptr(&text);
}

/* Resolves a path found in a file of dir. */
static char *
follow(const char *dir, const char *path)
{
	cleanup_free char *whole = NULL;

	if (path[0] == '/')
		return realpath(path, NULL);
	if (asprintf(&whole, "%s/%s", dir, path) < 0) {
		whole = NULL;
		return NULL;
	}
	return realpath(whole, NULL);
}

static bool
has(const char *dir, const char *name, mode_t type)
{
	cleanup_free char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return false;
	}
	return lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid();
}

static bool
is_git_dir(const char *dir)
{
	return has(dir, "HEAD", S_IFREG) && has(dir, "objects", S_IFDIR) &&
	    has(dir, "refs", S_IFDIR) && has(dir, ".", S_IFDIR);
}

bool
worktree_is_git_dir(const char *dir)
{
	return (has(dir, "HEAD", S_IFREG) || has(dir, "HEAD", S_IFLNK)) &&
	    has(dir, "objects", S_IFDIR) && has(dir, "refs", S_IFDIR);
}

/* For .../worktrees/NAME: its file gitdir must name the project's .git. */
static char *
linked(const char *private, const char *root)
{
	cleanup_free char *back = read_small(private, "gitdir", POINTER_MAX);
	cleanup_free char *up = read_small(private, "commondir", POINTER_MAX);
	cleanup_free char *common = up == NULL ? NULL : follow(private, up);
	cleanup_free char *dot_git = NULL, *real = NULL, *expected = NULL;

	if (back == NULL || common == NULL || asprintf(&dot_git, "%s/.git", root) < 0)
		return NULL;
	real = follow(private, back);
	if (real == NULL || strcmp(real, dot_git) != 0)
		return NULL;
	if (asprintf(&expected, "%s/worktrees%s", common, strrchr(private, '/')) < 0)
		return NULL;
	return strcmp(expected, private) == 0 && is_git_dir(common) ? take_ptr(&common) : NULL;
}

/* For .../modules/NAME: its configuration must name the project as its worktree. */
static char *
submodule(const char *dir, const char *root)
{
	cleanup_free char *config = read_small(dir, "config", CONFIG_MAX);
	char *line, *next;

	if (config == NULL || strstr(dir, "/modules/") == NULL || !is_git_dir(dir))
		return NULL;
	for (line = config; line != NULL; line = next) {
		cleanup_free char *real = NULL;
		char *p = line + strspn(line, " \t");

		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (strncmp(p, "worktree", 8) != 0)
			continue;
		p += 8 + strspn(p + 8, " \t");
		if (*p++ != '=')
			continue;
		p += strspn(p, " \t");
		real = follow(dir, p);
		return real != NULL && strcmp(real, root) == 0 ? strdup(dir) : NULL;
	}
	return NULL;
}

/* Where the project's `.git`, a file, points to; NULL if it is not such a file. */
static char *
pointed(const char *root)
{
	static const char word[] = "gitdir: ";
	cleanup_free char *pointer = read_small(root, ".git", POINTER_MAX), *dir = NULL;

	if (pointer == NULL || strncmp(pointer, word, sizeof(word) - 1) != 0)
		return NULL;
	dir = follow(root, pointer + sizeof(word) - 1);
	return dir == NULL || strrchr(dir, '/') == dir ? NULL : take_ptr(&dir);
}

char *
worktree_git_dir(const char *root)
{
	cleanup_free char *dir = pointed(root);
	char *found = dir == NULL ? NULL : linked(dir, root);

	return found != NULL || dir == NULL ? found : submodule(dir, root);
}

char *
worktree_own_dir(const char *root)
{
	cleanup_free char *common = worktree_git_dir(root);

	return common == NULL ? NULL : pointed(root);
}

bool
worktree_is_below(const char *root)
{
	cleanup_free char *dir = strdup(root);
	struct stat at_root, st;

	if (dir == NULL || lstat(root, &at_root) < 0)
		return false;
	for (bool above = false;; above = true) {
		cleanup_free char *git = NULL;
		char *slash = strrchr(dir, '/');

		if (lstat(dir, &st) < 0 || st.st_dev != at_root.st_dev)
			return false;
		if (asprintf(&git, "%s/.git", dir) < 0) {
			git = NULL;
			return false;
		}
		if (lstat(git, &st) == 0)
			return above;
		if (slash == NULL || slash[1] == '\0')
			return false;
		slash[slash == dir ? 1 : 0] = '\0';
	}
}
