/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/change.h"
#include "worker/files/digest.h"
#include "worker/ops/op.h"
#include "worker/say.h"

static int
write_check(struct session *ses, const struct file_content *content, struct koda_error *err)
{
	const struct place *at = &ses->at;

	if (at->target_fd < 0 && at->wants_dir)
		return say(err, KODA_IO, EISDIR, "write", at->path);
	if (at->target_fd >= 0) {
		if (S_ISDIR(at->st.st_mode))
			return say(err, KODA_IO, EISDIR, "write", at->path);
		if (refuse_special(at, "write", err) < 0 || may_write(ses, at, "write", err) < 0)
			return -1;
	}
	if (content->len > ses->max_file_bytes)
		return say(err, KODA_TOO_LARGE, 0,
		    "more bytes than max_file_bytes of the policy allows:", at->path);
	return 0;
}

/* Making each missing directory is a change of its own. */
int
judge_missing(struct session *ses, const struct place *at, struct koda_error *err)
{
	char path[PATH_LEN_MAX + 1];

	if (*at->missing == '\0')
		return 0;
	memcpy(path, at->path, strlen(at->path) + 1);
	for (char *slash = path + (at->missing - at->path) - 1; slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (session_judge_path(ses, ACCESS_OP_MKDIR, at, path, err) < 0)
			return -1;
		*slash = '/';
	}
	return 0;
}

static int
content_digest(const struct file_content *content, struct outcome *out, struct koda_error *err)
{
	void *p = NULL;

	if (content->fd < 0) {
		digest_bytes(content->data, content->len, out->digest);
	} else if (content->len == 0) {
		digest_bytes("", 0, out->digest);
	} else {
		p = mmap(NULL, content->len, PROT_READ, MAP_PRIVATE, content->fd, 0);
		if (p == MAP_FAILED)
			return err_set(err, KODA_IO, errno, "map the content");
		digest_bytes(p, content->len, out->digest);
		munmap(p, content->len);
	}
	out->msg.has_digest = true;
	out->msg.digest = bytes_of(out->digest, KODA_DIGEST_BYTES);
	return 0;
}

/* One attempt. Returns 1 if another process was faster: start again from resolving. */
static int
try_write(struct session *ses, const Koda__Write *ask, const struct file_content *content,
    Koda__Reply *rep, struct koda_error *err)
{
	const bool guarded = ask->guard != NULL && ask->guard->has_digest;
	const bool dry = ask->has_dry_run && ask->dry_run;
	struct place *at = &ses->at;
	cleanup_close int held = -1;
	struct outcome *out;
	int r;

	if (session_place(ses, ask->path, RESOLVE_PARENT, ACCESS_OP_WRITE, at, err) < 0 ||
	    judge_missing(ses, at, err) < 0 || write_check(ses, content, err) < 0 ||
	    guard_check(ask->guard, at, err) < 0)
		return -1;
	out = outcome_new(ses, at, err);
	if (out == NULL)
		return -1;
	if (guarded || (dry && at->target_fd >= 0)) {
		r = open_to_change(ses, at, &held, err);
		if (r != 0)
			return r;
		if (guard_digest(ses, ask->guard, at, held, dry, out, err) < 0)
			return -1;
	}
	out->msg.has_created = true;
	out->msg.created = at->target_fd < 0;
	out->msg.has_size = true;
	out->msg.size = content->len;
	if (ask->has_digest && ask->digest && content_digest(content, out, err) < 0)
		return -1;
	rep->result_case = KODA__REPLY__RESULT_OUTCOME;
	rep->outcome = &out->msg;
	if (dry)
		return 0;

	const struct file_change change = {
		.at = at,
		.content = content,
		.outcome = &out->msg,
		.durable = ask->has_durable && ask->durable,
		.exclusive = ask->guard != NULL && ask->guard->has_absent && ask->guard->absent,
		.same = guarded,
	};
	r = change_perform(ses, &change, err);
	if (r == 1 && change.exclusive && *at->missing == '\0')
		return say(err, KODA_CONFLICT, EEXIST, "write", at->path);
	return r;
}

int
op_write(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Write *ask = req->write;
	struct file_content content = { ask->content.data, ask->content.len, -1 };
	cleanup_close int fd = -1;
	int r = 1;

	if (ask->has_descriptor && ask->descriptor) {
		int64_t size;

		fd = session_take_fd(ses, err);
		if (fd < 0)
			return -1;
		size = content_check_fd(fd, err);
		if (size < 0)
			return -1;
		content.fd = fd;
		content.len = (size_t)size;
	}
	if (ask->path.len > 0 && ask->path.data[ask->path.len - 1] == '/')
		return err_set(err, KODA_INVALID, 0,
		    "write: a path that ends in '/' names a directory");
	for (int i = 0; r == 1 && i < LOCK_TRIES; i++) {
		place_done(&ses->at);
		r = try_write(ses, ask, &content, rep, err);
		if (r == 1 && *ses->at.missing != '\0' && i + 1 >= CHANGE_TRIES)
			break;
	}
	if (r == 1)
		return say(err, KODA_CONFLICT, 0, "gave up: another process keeps changing",
		    ses->at.path);
	return r;
}
