/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/repository.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/sandbox/worktree.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

void
repository_done(struct repository *r)
{
	free(r->top);
	free(r->prefix);
	free(r->git);
	free(r->common);
	*r = (struct repository){ 0 };
}

/* Fills in the git directories of the worktree at dir. Returns false if it is not one. */
static bool
find_git(const char *dir, struct repository *ret)
{
	cleanup_free char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%s/.git", strcmp(dir, "/") == 0 ? "" : dir) < 0) {
		path = NULL;
		return false;
	}
	if (lstat(path, &st) < 0 || st.st_uid != geteuid())
		return false;
	if (S_ISREG(st.st_mode)) {
		ret->common = worktree_git_dir(dir);
		ret->git = worktree_own_dir(dir);
	} else if (S_ISDIR(st.st_mode) && worktree_is_git_dir(path)) {
		ret->common = strdup(path);
		ret->git = take_ptr(&path);
	}
	return ret->common != NULL && ret->git != NULL;
}

int
repository_find(const char *root, struct repository *ret, struct koda_error *err)
{
	cleanup_free char *dir = strdup(root);
	size_t len;

	*ret = (struct repository){ 0 };
	if (dir == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	while (!find_git(dir, ret)) {
		char *slash = strrchr(dir, '/');

		repository_done(ret);
		if (worktree_is_git_dir(dir))
			return err_set(err, KODA_INVALID, 0,
			    "'%.300s' is in a git directory, which has no files to work on", root);
		if (slash == NULL || strcmp(dir, "/") == 0)
			return err_set(err, KODA_INVALID, 0,
			    "'%.300s' is not in a git repository of this user: a worktree needs "
			    "one",
			    root);
		slash[slash == dir] = '\0';
	}
	len = strlen(dir);
	ret->prefix = strdup(root[len] == '/' ? root + len + 1 : root + len);
	if (ret->prefix == NULL) {
		repository_done(ret);
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	}
	ret->top = take_ptr(&dir);
	return 0;
}
