#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"
#include "worker/draft/upper.h"
#include "worker/files/content.h"
#include "worker/ops/op.h"
#include "worker/say.h"

/* Opens the directory of a name in the upper tree, O_PATH, never through a link. *ret_name points
 * into rest, which is the path below the layer. */
static int
open_parent(const struct draft_layer *l, char *rest, const char **ret_name)
{
	char *slash = strrchr(rest, '/');
	int fd;

	*ret_name = slash == NULL ? rest : slash + 1;
	if (slash == NULL)
		return openat(l->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*slash = '\0';
	fd = open_walked(l->fd, rest, O_PATH | O_DIRECTORY);
	*slash = '/';
	return fd;
}

/* Opens the regular file of the draft that is at the path. */
static int
open_file(struct session *ses, const struct draft_layer *l, const char *path, uint64_t *ret_size,
    struct koda_error *err)
{
	const size_t top = strlen(l->path) == 1 ? 0 : strlen(l->path);
	char rest[PATH_LEN_MAX + 1];
	cleanup_close int dir = -1, fd = -1;
	const char *name;
	struct upper up;
	struct stat st;
	int opened;

	memcpy(rest, path + top + 1, strlen(path + top + 1) + 1);
	dir = open_parent(l, rest, &name);
	if (dir < 0 || upper_look(ses->res.proc_fd, dir, name, &up) < 0)
		return say(err, KODA_IO, errno, "read, in the draft,", path);
	if (up.kind == UPPER_NONE || up.kind == UPPER_DELETED)
		return say(err, KODA_IO, ENOENT, "read, in the draft,", path);
	if (up.kind != UPPER_FILE)
		return say(err, KODA_IO, 0, "not a regular file in the draft:", path);
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return say(err, KODA_IO, errno, "read, in the draft,", path);
	if (!S_ISREG(st.st_mode))
		return say(err, KODA_IO, 0, "not a regular file in the draft:", path);
	opened = resolve_reopen(&ses->res, fd, O_RDONLY | O_NOCTTY);
	if (opened < 0)
		return say(err, KODA_IO, errno, "read, in the draft,", path);
	*ret_size = (uint64_t)st.st_size;
	return opened;
}

int
op_read_draft(struct session *ses, const Koda__Request *req, Koda__Reply *rep,
    struct koda_error *err)
{
	const Koda__ReadDraft *ask = req->read_draft;
	const struct content_range range = { .offset = ask->offset,
		.max = ask->has_max ? ask->max : 0 };
	char *path = session_alloc(ses, ask->path.len + 1, err);
	struct access_verdict verdict;
	uint64_t size;
	int fd;

	if (path == NULL)
		return -1;
	memcpy(path, ask->path.data, ask->path.len);
	if (ask->layer >= ses->n_layers)
		return err_set(err, KODA_INVALID, 0, "the draft has no layer %u", ask->layer);
	if (!path_is_below(path, ses->layer[ask->layer].path))
		return say(err, KODA_INVALID, 0, "not in this layer of the draft:", path);
	if (ask->has_offset && ask->offset > INT64_MAX - FRAME_MAX)
		return say(err, KODA_INVALID, 0, "no file is as long as that offset:", path);
	verdict = access_judge(&ses->who, ACCESS_OP_READ, path, NULL);
	if (!verdict.allowed)
		return access_refuse(err, &ses->who, ACCESS_OP_READ, path, verdict);
	fd = open_file(ses, &ses->layer[ask->layer], path, &size, err);
	return fd < 0 ? -1 : content_reply(ses, fd, path, size, &range, rep, err);
}
