#include "worker/draft/upper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define OPAQUE    "user.overlay.opaque"
#define WHITEOUT  "user.overlay.whiteout"
#define REDIRECT  "user.overlay.redirect"
#define METACOPY  "user.overlay.metacopy"
#define VALUE_MAX 8

/* Returns the length of the attribute's value, at most VALUE_MAX; 0: it has none; -1 with errno. */
static ssize_t
attribute(const char *path, const char *name, char value[VALUE_MAX])
{
	ssize_t n = getxattr(path, name, value, VALUE_MAX);

	if (n >= 0)
		return n;
	if (errno == ERANGE)
		return VALUE_MAX;
	return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
}

/* Has it that attribute, with any value? */
static int
is_marked(const char *path, const char *name, bool *ret)
{
	char value[VALUE_MAX];
	ssize_t n = getxattr(path, name, value, sizeof(value));

	*ret = n >= 0 || errno == ERANGE;
	return *ret || errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
}

static int
look_at_directory(const char *path, struct upper *ret)
{
	char value[VALUE_MAX];
	bool redirected;
	ssize_t n;

	if (is_marked(path, REDIRECT, &redirected) < 0)
		return -1;
	n = attribute(path, OPAQUE, value);
	if (n < 0)
		return -1;
	ret->kind = n == 0 ? UPPER_DIR : n == 1 && value[0] == 'y' ? UPPER_OPAQUE : UPPER_UNKNOWN;
	if (redirected)
		ret->kind = UPPER_UNKNOWN;
	return 0;
}

static int
look_at_file(const char *path, struct upper *ret)
{
	bool marked;

	ret->kind = UPPER_FILE;
	if (is_marked(path, METACOPY, &marked) < 0)
		return -1;
	if (marked)
		ret->kind = UPPER_UNKNOWN;
	if (ret->st.st_size > 0)
		return 0;
	if (is_marked(path, WHITEOUT, &marked) < 0)
		return -1;
	if (marked)
		ret->kind = UPPER_DELETED;
	return 0;
}

int
upper_look(int proc_fd, int dir, const char *name, struct upper *ret)
{
	cleanup_close int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[32];

	*ret = (struct upper){ .kind = UPPER_NONE };
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	if (fstat(fd, &ret->st) < 0)
		return -1;
	/* The worker's working directory is /proc/self/fd, as proc_fd is. */
	(void)proc_fd;
	snprintf(path, sizeof(path), "%d", fd);
	switch (ret->st.st_mode & S_IFMT) {
	case S_IFREG:
		return look_at_file(path, ret);
	case S_IFDIR:
		return look_at_directory(path, ret);
	case S_IFLNK:
		ret->kind = UPPER_LINK;
		return 0;
	case S_IFCHR:
		ret->kind = ret->st.st_rdev == makedev(0, 0) ? UPPER_DELETED : UPPER_SPECIAL;
		return 0;
	default:
		ret->kind = UPPER_SPECIAL;
		return 0;
	}
}
