/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "host/machine/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define GONE_PREFIX ".koda-gone-"
#define GONE_MAX    64

int
tree_make(const char *path, struct koda_error *err)
{
	return state_make(path) < 0 ? err_set(err, KODA_IO, errno, "make '%.300s'", path) : 0;
}

/* Empty dir/name, and remove it. */
static int
remove_gone(int dir, const char *name, struct koda_error *err)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || cache_tree_empty(fd, CACHE_NO_DEADLINE) < 0 ||
	    unlinkat(dir, name, AT_REMOVEDIR) < 0)
		return err_set(err, KODA_IO, errno, "remove a copy that is not used any more");
	return 0;
}

int
tree_remove(const char *path, const char *id, struct koda_error *err)
{
	cleanup_free char *parent = strdup(path);
	char gone[GONE_MAX], *slash;
	cleanup_close int dir = -1;

	if (parent == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	slash = strrchr(parent, '/');
	*slash = '\0';
	dir = state_open_directory(parent, err);
	if (dir < 0)
		return errno == ENOENT ? 0 : -1;
	snprintf(gone, sizeof(gone), GONE_PREFIX "%s", id);
	if (remove_gone(dir, gone, err) < 0)
		return -1;
	if (renameat2(dir, slash + 1, dir, gone, RENAME_NOREPLACE) < 0)
		return errno == ENOENT ? 0 : err_set(err, KODA_IO, errno, "remove '%.300s'", path);
	return remove_gone(dir, gone, err);
}

/* Does dir/name belong to the worktree whose `.git` is pointer? git writes that down after it has made
 * the directory, with the name of the worktree. */
static bool
is_private_of(int dir, const char *name, const char *pointer, const char *id)
{
	cleanup_close int private =
	    openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int fd = private < 0
	    ? -1
	    : openat(private, "gitdir", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[PATH_LEN_MAX + 2];
	struct stat st;
	ssize_t n;

	if (fd < 0 && private >= 0 && errno == ENOENT)
		return strcmp(name, id) == 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	n = read(fd, text, sizeof(text) - 1);
	while (n > 0 && text[n - 1] == '\n')
		n--;
	if (n == 0)
		return strcmp(name, id) == 0;
	return n > 0 && (size_t)n == strlen(pointer) && memcmp(text, pointer, (size_t)n) == 0;
}

int
tree_remove_private(const char *common, const char *tree, const char *id, struct koda_error *err)
{
	cleanup_close int dir = state_open_directory(common, err), all = -1;
	cleanup(closedir_at) DIR *d = NULL;
	cleanup_free char *pointer = NULL;
	const struct dirent *e;
	char gone[GONE_MAX];
	int r = 0;

	if (dir < 0)
		return errno == ENOENT ? 0 : -1;
	if (asprintf(&pointer, "%s/.git", tree) < 0) {
		pointer = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	}
	snprintf(gone, sizeof(gone), GONE_PREFIX "%s", id);
	if (remove_gone(dir, gone, err) < 0)
		return -1;
	all = openat(dir, "worktrees", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = all < 0 ? NULL : cache_read_dir(all);
	if (d == NULL)
		return all < 0 && errno == ENOENT
		    ? 0
		    : err_set(err, KODA_IO, errno, "list the worktrees of '%.300s'", common);
	while (r == 0 && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.' || !is_private_of(all, e->d_name, pointer, id))
			continue;
		if (renameat2(all, e->d_name, dir, gone, RENAME_NOREPLACE) < 0)
			return err_set(err, KODA_IO, errno, "remove a worktree of '%.300s'",
			    common);
		r = remove_gone(dir, gone, err);
		break;
	}
	unlinkat(dir, "worktrees", AT_REMOVEDIR); /* as git does, if it is empty */
	return r;
}
