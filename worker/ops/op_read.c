/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "worker/files/change.h"
#include "worker/files/content.h"
#include "worker/ops/op.h"
#include "worker/say.h"

static bool
is_on_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || (unsigned long)fs.f_type == PROC_SUPER_MAGIC;
}

static int
check_readable(struct session *ses, struct koda_error *err)
{
	const struct place *at = &ses->at;

	if (at->target_fd < 0)
		return say(err, KODA_IO, ENOENT, "read", at->path);
	if (S_ISDIR(at->st.st_mode))
		return say(err, KODA_IO, EISDIR, "read", at->path);
	if (refuse_special(at, "read", err) < 0)
		return -1;
	/* The judge knows proc by its usual path; in a chroot's tree it is mounted at another
	 * one. */
	if (at->st.st_size == 0 && is_on_proc(at->target_fd)) {
		const struct access_verdict no = { false, ACCESS_RULE_PROCESS_WINDOW, NULL };

		return access_refuse(err, &ses->who, ACCESS_OP_READ, at->path, no);
	}
	return session_verify_target(ses, at, err);
}

int
op_read(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Read *ask = req->read;
	const struct content_range range = { ask->offset, ask->has_max ? ask->max : 0,
		ask->has_digest && ask->digest };
	const struct place *at = &ses->at;
	int fd;

	if (session_place(ses, ask->path, 0, ACCESS_OP_READ, &ses->at, err) < 0 ||
	    check_readable(ses, err) < 0)
		return -1;
	if (ask->has_offset && ask->offset > INT64_MAX - FRAME_MAX)
		return say(err, KODA_INVALID, 0, "no file is as long as that offset:", at->path);
	fd = resolve_reopen(&ses->res, at->target_fd, O_RDONLY | O_NOCTTY);
	if (fd < 0)
		return say(err, KODA_IO, errno, "read", at->path);
	return content_reply(ses, fd, at->path, (uint64_t)at->st.st_size, &range, rep, err);
}
