/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/upper_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"
#include "worker/say.h"

/* Opens the directory of the name, O_PATH. */
static int
open_parent(const struct draft_layer *l, struct upper_file *f)
{
	char *slash = strrchr(f->path, '/');
	int fd;

	f->name = slash == NULL ? f->path : slash + 1;
	if (slash == NULL)
		return openat(l->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*slash = '\0';
	fd = open_walked(l->fd, f->path, O_PATH | O_DIRECTORY);
	*slash = '/';
	return fd;
}

int
upper_file_open(struct session *ses, const struct draft_layer *l, const char *path,
    struct upper_file *ret, struct koda_error *err)
{
	const size_t top = strlen(l->path) == 1 ? 0 : strlen(l->path);

	*ret = (struct upper_file)UPPER_FILE_CLOSED;
	memcpy(ret->path, path + top + 1, strlen(path + top + 1) + 1);
	ret->dir = open_parent(l, ret);
	if (ret->dir < 0 || upper_look(ses->res.proc_fd, ret->dir, ret->name, &ret->up) < 0)
		return say(err, KODA_IO, errno, "read, in the draft,", path);
	if (ret->up.kind == UPPER_NONE || ret->up.kind == UPPER_DELETED)
		return say(err, KODA_IO, ENOENT, "read, in the draft,", path);
	if (ret->up.kind != UPPER_FILE)
		return say(err, KODA_IO, 0, "not a regular file in the draft:", path);
	ret->fd = openat(ret->dir, ret->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0 || fstat(ret->fd, &ret->st) < 0)
		return say(err, KODA_IO, errno, "read, in the draft,", path);
	if (!S_ISREG(ret->st.st_mode))
		return say(err, KODA_IO, 0, "not a regular file in the draft:", path);
	return 0;
}

void
upper_file_done(struct upper_file *f)
{
	close_at(&f->dir);
	close_at(&f->fd);
	f->dir = f->fd = -1;
}
