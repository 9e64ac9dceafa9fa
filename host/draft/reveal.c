/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/reveal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define OPAQUE "user.overlay.opaque"

void
reveal_done(struct reveal *r)
{
	free(r->seen);
}

static bool
is_opaque(int dir)
{
	char value;

	return fgetxattr(dir, OPAQUE, &value, 1) == 1 && value == 'y';
}

/* A directory in it must not begin to show what the project has below that name. */
static int
hide_below(int dir)
{
	cleanup(closedir_at) DIR *d = NULL;
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	struct dirent *e;

	d = fd < 0 ? NULL : fdopendir(fd);
	if (d == NULL) {
		close_at(&fd);
		return -1;
	}
	rewinddir(d);
	while (errno = 0, (e = readdir(d)) != NULL) {
		cleanup_close int below = -1;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
			continue;
		below = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0 && errno == ENOTDIR)
			continue;
		if (below < 0 || fsetxattr(below, OPAQUE, "y", 1, 0) < 0)
			return -1;
	}
	return errno == 0 ? 0 : -1;
}

/* Does it come before all that is in the directory (< 0), after it (> 0), or is it in there (0)? */
static int
compare(const struct reveal_name *name, size_t layer, const char *dir, size_t len)
{
	const unsigned char *a = (const unsigned char *)name->path, *b = (const unsigned char *)dir;

	if (name->layer != layer)
		return name->layer < layer ? -1 : 1;
	for (size_t i = 0; i < len; i++) {
		/* A slash is before all other bytes. */
		const int x = a[i] == '/' ? 1 : a[i] == '\0' ? 0 : a[i] + 1;
		const int y = b[i] == '/' ? 1 : b[i] + 1;

		if (x != y)
			return x - y;
	}
	return a[len] == '/' ? 0 : a[len] == '\0' ? -1 : 1;
}

static int
hide_names(const struct reveal *r, int dir, size_t layer, const char *path, size_t len)
{
	size_t low = 0, high = r->n_gone;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (compare(&r->gone[mid], layer, path, len) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < r->n_gone && compare(&r->gone[low], layer, path, len) == 0; low++) {
		const char *name = r->gone[low].path + len + 1;

		/* If it exists, something else has the name in the draft. */
		if (strchr(name, '/') == NULL && mknodat(dir, name, S_IFCHR, makedev(0, 0)) < 0 &&
		    errno != EEXIST)
			return -1;
	}
	return 0;
}

static int
reveal_one(const struct reveal *r, int upper, size_t layer, const char *path, size_t len,
    struct koda_error *err)
{
	const size_t above =
	    strcmp(r->draft->dir[layer].path, "/") == 0 ? 0 : strlen(r->draft->dir[layer].path);
	char part[PATH_LEN_MAX + 1];
	cleanup_close int dir = -1;

	snprintf(part, sizeof(part), "%.*s", (int)(len - above - 1), path + above + 1);
	dir = open_beneath(upper, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (dir < 0 || !is_opaque(dir))
		return 0;
	if (hide_below(dir) == 0 && hide_names(r, dir, layer, path, len) == 0 &&
	    fremovexattr(dir, OPAQUE) == 0)
		return 0;
	if (errno == EACCES || errno == EPERM)
		return 0;
	err_set(err, KODA_IO, errno, "prepare the draft's directory");
	return err_about(err, path, NULL);
}

int
reveal_above(struct reveal *r, size_t layer, const char *path, struct koda_error *err)
{
	const char *root = r->draft->dir[layer].path;
	const size_t above = strcmp(root, "/") == 0 ? 0 : strlen(root), n = strlen(path);
	cleanup_close int upper = -1;
	char part[16];

	if (n > PATH_LEN_MAX || !path_is_inside(path, root) || n <= above + 1)
		return err_set(err, KODA_INVALID, 0, "that is not in draft '%s'", r->draft->id);
	snprintf(part, sizeof(part), "%s/u", r->draft->dir[layer].name);
	for (size_t len = above + 1; len <= n; len++) {
		if (path[len] != '/' && path[len] != '\0')
			continue;
		if (r->seen != NULL && r->layer == layer && strncmp(r->seen, path, len) == 0 &&
		    (r->seen[len] == '/' || r->seen[len] == '\0'))
			continue;
		if (upper < 0)
			upper =
			    open_beneath(r->draft->fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (upper < 0)
			return err_set(err, KODA_IO, errno, "open draft '%s'", r->draft->id);
		if (reveal_one(r, upper, layer, path, len, err) < 0)
			return -1;
	}
	free(r->seen);
	r->seen = strdup(path);
	r->layer = layer;
	return r->seen == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "apply") : 0;
}
