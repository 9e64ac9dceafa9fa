/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/change.h"
#include "worker/files/digest.h"
#include "worker/ops/op.h"
#include "worker/say.h"

static int
stat_target(struct session *ses, Koda__StatReply *msg, struct koda_error *err)
{
	char *target = session_alloc(ses, PATH_LEN_MAX + 1, err);
	ssize_t n;

	if (target == NULL)
		return -1;
	n = readlinkat(ses->at.target_fd, "", target, PATH_LEN_MAX + 1);
	if (n < 0)
		return say(err, KODA_IO, errno, "read the link", ses->at.path);
	msg->has_target = true;
	msg->target = bytes_of(target, (size_t)n);
	return 0;
}

static int
stat_digest(struct session *ses, Koda__StatReply *msg, struct koda_error *err)
{
	uint8_t *digest = session_alloc(ses, KODA_DIGEST_BYTES, err);
	cleanup_close int fd = -1;

	if (digest == NULL)
		return -1;
	fd = resolve_reopen(&ses->res, ses->at.target_fd, O_RDONLY | O_NOCTTY);
	if (fd < 0 || digest_file(fd, digest) < 0)
		return say(err, KODA_IO, errno, "read", ses->at.path);
	msg->has_digest = true;
	msg->digest = bytes_of(digest, KODA_DIGEST_BYTES);
	return 0;
}

int
op_stat(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Stat *ask = req->stat;
	const struct place *at = &ses->at;
	Koda__StatReply *msg = session_alloc(ses, sizeof(*msg), err);

	if (msg == NULL ||
	    session_place(ses, ask->path, RESOLVE_LINK_ITSELF, ACCESS_OP_READ, &ses->at, err) < 0)
		return -1;
	if (at->target_fd < 0)
		return say(err, KODA_IO, ENOENT, "stat", at->path);
	if (session_verify_target(ses, at, err) < 0)
		return -1;
	koda__stat_reply__init(msg);
	msg->path = bytes_of(at->path, strlen(at->path));
	msg->type = file_type_of(at->st.st_mode);
	msg->size = (uint64_t)at->st.st_size;
	msg->mode = at->st.st_mode & 07777;
	msg->mtime_ns = (int64_t)at->st.st_mtim.tv_sec * 1000000000 + at->st.st_mtim.tv_nsec;
	msg->links = at->st.st_nlink;
	if (S_ISLNK(at->st.st_mode) && stat_target(ses, msg, err) < 0)
		return -1;
	if (ask->has_digest && ask->digest && S_ISREG(at->st.st_mode) &&
	    stat_digest(ses, msg, err) < 0)
		return -1;
	rep->result_case = KODA__REPLY__RESULT_STAT;
	rep->stat = msg;
	return 0;
}
