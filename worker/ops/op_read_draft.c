/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "shared/base/cleanup.h"
#include "worker/draft/upper_file.h"
#include "worker/files/content.h"
#include "worker/ops/op.h"
#include "worker/say.h"

/* Opens the regular file of the draft that is at the path for reading. */
static int
open_file(struct session *ses, const struct draft_layer *l, const char *path, uint64_t *ret_size,
    struct koda_error *err)
{
	cleanup(upper_file_done) struct upper_file f = UPPER_FILE_CLOSED;
	int opened;

	if (upper_file_open(ses, l, path, &f, err) < 0)
		return -1;
	opened = resolve_reopen(&ses->res, f.fd, O_RDONLY | O_NOCTTY);
	if (opened < 0)
		return say(err, KODA_IO, errno, "read, in the draft,", path);
	*ret_size = (uint64_t)f.st.st_size;
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
