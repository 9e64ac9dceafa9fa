/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/session.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/socket.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* The host that started the worker seals it at once; any other peer never does. */
#define SEAL_TIMEOUT_MS 10000
/* How long to wait before checking whether the host still lives: a process forked off the host
 * can hold the other end of the socket open, and then the host's death does not end the stream. */
#define HOST_CHECK_SECS 5
/* How long a reply with a descriptor waits for a host that does not read. */
#define FD_TIMEOUT_MS 60000
/* Allocations larger than a frame of inline content are mapped, and unmapped when freed. */
#define MMAP_FROM (128 << 10)
/* Replies to many small requests are sent together, but no more than this is held back. */
#define QUEUE_MAX (256u << 10)
/* Nor are more replies than this held back: waking the host costs a tenth of a small write. */
#define REPLIES_HELD_MAX 16
/* If a request finds more than this in the record, the queued replies are sent and the record is
 * emptied: the rest is left free for the request's own messages. */
#define RECORD_BEGIN_MAX (RECORD_BYTES / 8)

static bool
host_gone(const struct session *ses)
{
	return getppid() != ses->parent;
}

int
session_flush(struct session *ses, struct koda_error *err)
{
	while (frame_pending(&ses->fs) > 0) {
		if (frame_flush(&ses->fs, true, err) >= 0)
			continue;
		if (err->errnum != EAGAIN || host_gone(ses))
			return -1;
	}
	ses->unrecorded = false;
	return 0;
}

void *
session_alloc(struct session *ses, size_t size, struct koda_error *err)
{
	void *p = arena_alloc(&ses->arena, size);

	if (p == NULL)
		err_set(err, KODA_INTERNAL, ENOMEM, "request %llu", (unsigned long long)ses->id);
	return p;
}

int
session_take_fd(struct session *ses, struct koda_error *err)
{
	int fd = frame_take_fd(&ses->fs);

	if (fd < 0)
		err_set(err, KODA_PROTOCOL, 0, "an announced descriptor is missing");
	return fd;
}

/* ---- judging ---- */

struct disk {
	struct session *ses;
	const struct place *at;
};

static bool
disk_has(void *data, const char *path, size_t dir_len, const char *name)
{
	const struct disk *disk = data;
	const struct place *at = disk->at;
	cleanup_close int dir = -1;
	struct stat st;
	int fd;

	/* The place's own directory is open already: look in the directory that will be acted
	 * on. */
	if (at->parent_fd >= 0 && at->name > at->path &&
	    dir_len == (at->name == at->path + 1 ? 0 : (size_t)(at->name - at->path) - 1) &&
	    memcmp(path, at->path, dir_len) == 0) {
		fd = at->parent_fd;
	} else {
		fd = dir = resolve_canonical_dir(&disk->ses->res, path, dir_len);
		/* A directory that the worker cannot check may contain the name. A directory that
		 * does not exist cannot. */
		if (fd < 0)
			return errno != ENOENT && errno != ENOTDIR;
	}
	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	    (errno != ENOENT && errno != ENOTDIR);
}

static struct access_verdict
judge_further(struct session *ses, enum access_op op, const char *path,
    struct access_verdict so_far)
{
	return ses->role->judge != NULL ? ses->role->judge(ses, op, path, so_far) : so_far;
}

struct access_verdict
session_judge(struct session *ses, enum access_op op, const struct place *at,
    const char **ret_where, enum access_op *ret_op)
{
	struct disk data = { ses, at };
	const struct access_disk disk = { &data, disk_has };
	const enum access_op hop_op = op == ACCESS_OP_READ ? ACCESS_OP_HOP : ACCESS_OP_HOP_CHANGE;
	struct access_verdict verdict;

	*ret_op = hop_op;
	for (size_t i = 0; i < at->n_hops; i++) {
		*ret_where = at->hop[i];
		verdict = access_judge(&ses->who, hop_op, at->hop[i], &disk);
		if (!verdict.allowed)
			return verdict;
	}
	*ret_op = op;
	*ret_where = at->path;
	return judge_further(ses, op, at->path, access_judge(&ses->who, op, at->path, &disk));
}

int
session_judge_further(struct session *ses, enum access_op op, const char *path,
    struct access_verdict so_far, struct koda_error *err)
{
	struct access_verdict verdict = judge_further(ses, op, path, so_far);

	return verdict.allowed ? 0 : access_refuse(err, &ses->who, op, path, verdict);
}

int
session_judge_path(struct session *ses, enum access_op op, const struct place *near,
    const char *path, struct koda_error *err)
{
	struct disk data = { ses, near };
	const struct access_disk disk = { &data, disk_has };
	struct access_verdict verdict =
	    judge_further(ses, op, path, access_judge(&ses->who, op, path, &disk));

	return verdict.allowed ? 0 : access_refuse(err, &ses->who, op, path, verdict);
}

int
session_place(struct session *ses, ProtobufCBinaryData path, unsigned flags, enum access_op op,
    struct place *ret, struct koda_error *err)
{
	const char *where;
	enum access_op judged;
	struct access_verdict verdict;
	struct koda_error dropped;
	int r;

	/* The error's code is needed below, even if the caller passes no err. */
	if (err == NULL)
		err = &dropped;
	r = resolve(&ses->res, path.data, path.len, flags, ret, err);

	/* Without a place there is nothing to judge. */
	if (r < 0 &&
	    (ret->path[0] == '\0' || err->code == KODA_INVALID || err->code == KODA_INTERNAL))
		return -1;
	verdict = session_judge(ses, op, ret, &where, &judged);
	if (!verdict.allowed)
		return access_refuse(err, &ses->who, judged, where, verdict);
	return r;
}

int
session_verify_parent(struct session *ses, const struct place *at, struct koda_error *err)
{
	return resolve_verify(&ses->res, at->parent_fd, at->path,
	    at->name <= at->path + 1 ? 0 : (size_t)(at->name - at->path) - 1, err);
}

int
session_verify_target(struct session *ses, const struct place *at, struct koda_error *err)
{
	return resolve_verify(&ses->res, at->target_fd, at->path, strlen(at->path), err);
}

/* ---- replies ---- */

/* Appends a frame to the record. Returns 0, or -1 if the record is full. */
static int
record_append(struct record *record, uint64_t used, const Koda__Reply *rep)
{
	size_t n = used > sizeof(record->frames)
	    ? 0
	    : message_put_frame(&rep->base, record->frames + used, sizeof(record->frames) - used);

	if (n == 0)
		return -1;
	__atomic_store_n(&record->used, used + n, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Writes a reply into the record, which the host reads when this worker is dead. The record holds
 * what belongs to replies that were not sent yet, so it is emptied when no reply is queued. It
 * keeps the order of all changes only if it has every reply, so queued replies that are not in it
 * are sent first.
 */
static int
record_reply(struct session *ses, Koda__Reply *rep, struct koda_error *err)
{
	struct record *record = ses->record;
	uint64_t used = record->used;

	rep->id = ses->id;
	if (ses->recorded != ses->id) {
		if ((used > RECORD_BEGIN_MAX || ses->unrecorded) && session_flush(ses, err) < 0)
			return -1;
		if (frame_pending(&ses->fs) == 0)
			used = 0;
		ses->recorded = ses->id;
		__atomic_store_n(&record->used, used, __ATOMIC_RELEASE);
	}
	if (record_append(record, used, rep) < 0)
		return err_set(err, KODA_INTERNAL, 0, "the record is full");
	return 0;
}

static int
queue_reply(struct session *ses, Koda__Reply *rep, struct koda_error *err)
{
	/* Until the reply is sent, the worker's death must not lose it: the next request may
	 * hide the traces of this one. */
	struct koda_error unused;
	const bool recorded =
	    ses->record != NULL && ses->changes && record_reply(ses, rep, &unused) == 0;

	rep->id = ses->id;
	if (message_queue(&ses->fs, &rep->base, err) < 0)
		return -1;
	ses->unrecorded |= !recorded;
	return 0;
}

static int
queue_error(struct session *ses, const struct koda_error *why, struct koda_error *err)
{
	Koda__Error msg = KODA__ERROR__INIT;
	Koda__Reply rep = KODA__REPLY__INIT;

	msg.code = (Koda__ErrorCode)why->code;
	msg.has_errnum = why->errnum != 0;
	msg.errnum = (uint32_t)why->errnum;
	msg.message = bytes_of(why->message, strlen(why->message));
	msg.has_path = why->path[0] != '\0';
	msg.path = bytes_of(why->path, strlen(why->path));
	msg.has_rule = why->rule[0] != '\0';
	msg.rule = bytes_of(why->rule, strlen(why->rule));
	rep.result_case = KODA__REPLY__RESULT_ERROR;
	rep.error = &msg;
	return queue_reply(ses, &rep, err);
}

/* Reports a milestone where the host finds it, before the next step is taken. */
static int
send_now(struct session *ses, Koda__Reply *rep, struct koda_error *err)
{
	if (ses->record != NULL)
		return record_reply(ses, rep, err);
	return queue_reply(ses, rep, err) < 0 ? -1 : session_flush(ses, err);
}

int
session_prepared(struct session *ses, Koda__Prepared *prepared, struct koda_error *err)
{
	Koda__Reply rep = KODA__REPLY__INIT;

	rep.result_case = KODA__REPLY__RESULT_PREPARED;
	rep.prepared = prepared;
	return send_now(ses, &rep, err);
}

int
session_committed(struct session *ses, struct koda_error *err)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Committed msg = KODA__COMMITTED__INIT;

	rep.result_case = KODA__REPLY__RESULT_COMMITTED;
	rep.committed = &msg;
	return send_now(ses, &rep, err);
}

int
session_verdict(struct session *ses, Koda__Verdict *verdict, struct koda_error *err)
{
	Koda__Reply rep = KODA__REPLY__INIT;

	rep.result_case = KODA__REPLY__RESULT_VERDICT;
	rep.verdict = verdict;
	return send_now(ses, &rep, err);
}

int
session_part(struct session *ses, Koda__Reply *rep, bool at_once, struct koda_error *err)
{
	if (queue_reply(ses, rep, err) < 0)
		return -1;
	return at_once ? session_flush(ses, err) : 0;
}

void
session_not_done(struct session *ses)
{
	Koda__Verdict msg = KODA__VERDICT__INIT;
	struct koda_error dropped;

	msg.happened = KODA__HAPPENED__DID_NOT_HAPPEN;
	session_verdict(ses, &msg, &dropped);
}

/* ---- the loop ---- */

static int
queue_result(struct session *ses, Koda__Reply *rep, struct koda_error *err)
{
	struct koda_error why;
	size_t before = frame_pending(&ses->fs);

	if (queue_reply(ses, rep, &why) < 0)
		return queue_error(ses, &why, err);
	if (ses->send_fd < 0)
		return 0;
	return frame_flush_with_fd(&ses->fs, frame_pending(&ses->fs) - before, ses->send_fd,
	    FD_TIMEOUT_MS, err);
}

/* Serves one frame. Returns 0; -1 ends the session, and *err (if it has a code) still has to be
 * reported. */
static int
serve(struct session *ses, const uint8_t *data, size_t len, struct koda_error *err)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	const Koda__Request *req;
	const struct op *op;
	int r;

	ses->id = 0;
	req = (const Koda__Request *)message_unpack(&koda__request__descriptor, data, len,
	    &ses->arena, err);
	if (req == NULL)
		return -1;
	ses->id = req->id;
	if (valid_request(req, err) < 0)
		return -1;
	op = role_op(ses->role, req->op_case);
	if (op == NULL)
		return err_set(err, KODA_PROTOCOL, 0, "no such operation: %d", (int)req->op_case);
	if (((op->flags & OP_UNSEALED) != 0) == ses->sealed)
		return err_set(err, KODA_PROTOCOL, 0,
		    ses->sealed ? "%s: sealed already" : "%s: not sealed yet", op->name);
	ses->changes = (op->flags & OP_CHANGES) != 0;
	r = op->run(ses, req, &rep, err);
	if (r < 0 && (!ses->sealed || err->code == KODA_PROTOCOL))
		return -1;
	if (r < 0) {
		struct koda_error why = *err;

		return queue_error(ses, &why, err);
	}
	return queue_result(ses, &rep, err);
}

static void
forget_request(struct session *ses)
{
	place_done(&ses->at);
	place_done(&ses->to);
	close_at(&ses->send_fd);
	ses->send_fd = -1;
	arena_reset(&ses->arena);
	ses->prepares = 0;
}

/* Serves everything that has arrived. Returns 0, or -1 with *err set. */
static int
serve_arrived(struct session *ses, struct koda_error *err)
{
	unsigned held = 0;
	const uint8_t *data;
	size_t len;
	int r;

	while (!ses->ended && (r = frame_next(&ses->fs, &data, &len, err)) != 0) {
		if (r > 0)
			r = serve(ses, data, len, err);
		else
			ses->id = 0;
		forget_request(ses);
		if (r < 0)
			return -1;
		if (++held < REPLIES_HELD_MAX && frame_pending(&ses->fs) <= QUEUE_MAX)
			continue;
		held = 0;
		if (session_flush(ses, err) < 0)
			return -1;
	}
	/* Descriptors may wait for the rest of their frame; any other was sent with the wrong
	 * frame. */
	if (frame_fds_waiting(&ses->fs) > (ses->fs.in_start == ses->fs.in_end ? 0
						  : ses->sealed               ? 1
									      : SEAL_FDS_MAX)) {
		ses->id = 0;
		return err_set(err, KODA_PROTOCOL, 0, "an unexpected descriptor");
	}
	return 0;
}

/* Returns the exit status. */
static int
session_loop(struct session *ses, struct koda_error *err)
{
	const uint64_t deadline = monotonic_ms() + SEAL_TIMEOUT_MS;

	for (;;) {
		int r = frame_fill(&ses->fs, true, err);

		if (r < 0)
			return ses->fs.eof && err->code == KODA_IO ? 0 : 1;
		if (r == 0 && (host_gone(ses) || (!ses->sealed && monotonic_ms() > deadline)))
			return 1;
		/* No request for a while: give the memory back to the system. */
		if (r == 0)
			malloc_trim(0);
		if (serve_arrived(ses, err) < 0) {
			struct koda_error why = *err;

			/* Best effort: a peer that broke the protocol may not read the error
			 * either. */
			if (why.code != KODA_IO && queue_error(ses, &why, err) == 0)
				session_flush(ses, err);
			return 1;
		}
		if (session_flush(ses, err) < 0)
			return 1;
		if (ses->ended)
			return 0;
	}
}

const struct op *
role_op(const struct role *role, Koda__Request__OpCase op_case)
{
	size_t i = (size_t)op_case;

	return i < role->n_ops && role->ops[i].run != NULL ? &role->ops[i] : NULL;
}

int
session_run(int fd, const struct role *role, const struct sock_filter *filter, size_t n_filter)
{
	const struct timeval check = { .tv_sec = HOST_CHECK_SECS };
	/* Lives as long as the process: nothing of it is released at the end. */
	static struct session ses;
	struct koda_error err;
	int r;

	/* Fixed thresholds, so that the memory of a large request is given back at once:
	 * otherwise malloc would raise them after it and keep that much forever. */
	mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
	mallopt(M_TRIM_THRESHOLD, 2 * MMAP_FROM);
	ses.role = role;
	ses.filter = filter;
	ses.n_filter = n_filter;
	frame_init(&ses.fs, fd);
	arena_init(&ses.arena);
	place_init(&ses.at);
	place_init(&ses.to);
	policy_init(&ses.policy);
	ses.send_fd = -1;
	ses.res.root_fd = ses.res.proc_fd = -1;
	ses.quarantine_fd = -1;
	ses.draft_fd = ses.old_fd = ses.keep.log_fd = ses.keep.now_fd = -1;
	ses.max_file_bytes = UINT64_MAX;
	ses.euid = geteuid();
	ses.parent = getppid();
	ses.umask = umask(0);
	umask(ses.umask);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &check, sizeof(check)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &check, sizeof(check)) < 0)
		return 1;
	r = session_loop(&ses, &err);
	if (role->end != NULL)
		role->end(&ses);
	return r;
}
