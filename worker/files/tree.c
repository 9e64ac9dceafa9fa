/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/say.h"

static DIR *
open_dir(int dir_fd, const char *name)
{
	cleanup_close int fd =
	    openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d != NULL)
		fd = -1;
	return d;
}

/* Returns the next entry except "." and "..". NULL at the end (errno 0) or on an error. */
static struct dirent *
next_entry(DIR *d)
{
	struct dirent *e;

	do {
		errno = 0;
		e = readdir(d);
	} while (e != NULL && e->d_name[0] == '.' &&
	    (e->d_name[1] == '\0' || (e->d_name[1] == '.' && e->d_name[2] == '\0')));
	return e;
}

static bool
is_directory(DIR *d, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int
tree_is_empty(int dir_fd)
{
	cleanup(closedir_at) DIR *d = open_dir(dir_fd, ".");

	if (d == NULL)
		return -1;
	if (next_entry(d) != NULL)
		return 0;
	return errno == 0 ? 1 : -1;
}

struct check {
	const struct access_subject *who;
	enum access_op op;
	uint64_t entries;
	int64_t *newest;                            /* NULL: not wanted */
	char path[PATH_LEN_MAX + NAME_LEN_MAX + 2]; /* of the directory being checked */
	struct koda_error *err;
};

static int
refuse_tree(struct check *c, const char *by)
{
	const struct access_verdict no = { false, ACCESS_RULE_TREE, by };

	return access_refuse(c->err, c->who, c->op, c->path, no);
}

static int
not_provable(struct check *c, const char *what)
{
	say(c->err, KODA_POLICY_DENIED, 0, what, c->path);
	return err_about(c->err, c->path, access_rule_name(ACCESS_RULE_TREE));
}

static int check_directory(struct check *c, int dir_fd, const char *name, unsigned depth);

static void
look_when(struct check *c, DIR *d, const char *name)
{
	struct stat st;
	int64_t ns;

	if (c->newest == NULL || fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	ns = st.st_ctim.tv_sec * INT64_C(1000000000) + st.st_ctim.tv_nsec;
	if (ns > *c->newest)
		*c->newest = ns;
}

/* Checks one entry of the directory c->path, which ends at len. */
static int
check_entry(struct check *c, DIR *d, const struct dirent *e, const char *dir_name, size_t len,
    unsigned depth)
{
	size_t k = strlen(e->d_name);
	const char *by;
	int r = 0;

	if (++c->entries > TREE_ENTRIES_MAX)
		return not_provable(c, "too many entries to check below");
	if (len + 1 + k > PATH_LEN_MAX)
		return not_provable(c, "too many levels of directories to check at");
	c->path[len] = '/';
	memcpy(c->path + len + 1, e->d_name, k + 1);
	look_when(c, d, e->d_name);
	if (access_protected_entry(c->who, dir_name, e->d_name))
		r = refuse_tree(c, NULL);
	else if ((by = access_name_rule(c->who, c->path)) != NULL)
		r = refuse_tree(c, by);
	else if (is_directory(d, e))
		r = check_directory(c, dirfd(d), e->d_name, depth + 1);
	if (r == 0)
		c->path[len] = '\0';
	return r;
}

static int
check_directory(struct check *c, int dir_fd, const char *name, unsigned depth)
{
	cleanup(closedir_at) DIR *d = NULL;
	bool head = false, objects = false, refs = false, commondir = false;
	bool worktrees = false, any = false;
	const bool may_git = c->who->policy->flag[KODA_ALLOW_GIT_CONFIG];
	size_t len = strlen(c->path);
	char dir_name[NAME_LEN_MAX + 1];
	struct dirent *e;
	struct statx sx;

	if (depth > TREE_DEPTH_MAX)
		return not_provable(c, "too many levels of directories to check at");
	d = open_dir(dir_fd, name);
	if (d == NULL || statx(dirfd(d), "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_TYPE, &sx) < 0)
		return say(c->err, KODA_IO, errno, "read the directory", c->path);
	/* Not for the top itself: a file system mounted below is not part of the directory, and
	 * would not move along. */
	if (depth > 0 && (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
		return say(c->err, KODA_IO, EXDEV, "another file system is mounted at", c->path);
	snprintf(dir_name, sizeof(dir_name), "%s", strrchr(c->path, '/') + 1);
	while ((e = next_entry(d)) != NULL) {
		head |= strcmp(e->d_name, "HEAD") == 0;
		objects |= strcmp(e->d_name, "objects") == 0;
		refs |= strcmp(e->d_name, "refs") == 0;
		commondir |= strcmp(e->d_name, "commondir") == 0;
		worktrees |= strcmp(e->d_name, "worktrees") == 0;
		if (check_entry(c, d, e, dir_name, len, depth) < 0)
			return -1;
		any = true;
	}
	if (errno != 0)
		return say(c->err, KODA_IO, errno, "read the directory", c->path);
	/* A half-removed tree is worse than a refusal. */
	if (any && c->op == ACCESS_OP_REMOVE &&
	    faccessat(dirfd(d), ".", W_OK | X_OK, AT_EACCESS) < 0)
		return say(c->err, KODA_IO, errno, "empty", c->path);
	if (!may_git && access_is_git_dir(head, objects, refs, commondir, worktrees))
		return refuse_tree(c, NULL);
	return 0;
}

int
tree_check(const struct access_subject *who, enum access_op op, int dir_fd, const char *path,
    uint64_t *ret_entries, struct koda_error *err)
{
	return tree_check_newest(who, op, dir_fd, path, ret_entries, NULL, err);
}

int
tree_check_newest(const struct access_subject *who, enum access_op op, int dir_fd, const char *path,
    uint64_t *ret_entries, int64_t *ret_newest, struct koda_error *err)
{
	cleanup_free struct check *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "read a directory");
	c->who = who;
	c->op = op;
	c->newest = ret_newest;
	c->err = err;
	snprintf(c->path, sizeof(c->path), "%s", path);
	if (check_directory(c, dir_fd, ".", 0) < 0)
		return -1;
	*ret_entries = c->entries;
	return 0;
}

static int
remove_directory(int dir_fd, const char *name, unsigned depth)
{
	int first = 0;

	if (depth > TREE_DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}
	/* Reading a directory while it is emptied may skip entries: read it again as long as
	 * that removes something. */
	for (bool progress = true; progress;) {
		cleanup(closedir_at) DIR *d = open_dir(dir_fd, name);
		struct dirent *e;

		progress = false;
		if (d == NULL) {
			first = first != 0 ? first : errno;
			break;
		}
		while ((e = next_entry(d)) != NULL) {
			int r = is_directory(d, e)
			    ? remove_directory(dirfd(d), e->d_name, depth + 1)
			    : unlinkat(dirfd(d), e->d_name, 0);

			if (r == 0)
				progress = true;
			else if (errno != ENOENT && first == 0)
				first = errno;
		}
	}
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (first != 0)
		errno = first;
	return -1;
}

int
tree_remove(int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	/* Linux returns EISDIR; some file systems return EPERM. */
	if (errno != EISDIR && errno != EPERM)
		return -1;
	return remove_directory(dir_fd, name, 0);
}

int
tree_rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
	struct stat st;

	if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		errno = EEXIST;
	return errno == ENOENT ? renameat2(from_dir, from, to_dir, to, 0) : -1;
}
