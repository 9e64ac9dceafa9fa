/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out what became of a change whose worker died, by looking for the inode that the worker had
 * prepared. Decides and reports first, cleans up second, so that a death between the two only needs
 * another Recover.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/change.h"
#include "worker/files/digest.h"
#include "worker/files/keep.h"
#include "worker/files/keep_now.h"
#include "worker/files/tree.h"
#include "worker/ops/op.h"
#include "worker/pause.h"

/* A name in an open directory. */
struct spot {
	int dir_fd; /* -1: the directory is gone */
	char name[NAME_LEN_MAX + 1];
};

static void
spot_done(struct spot *spot)
{
	close_at(&spot->dir_fd);
}

static void
spot_open(struct session *ses, ProtobufCBinaryData path, struct spot *ret)
{
	const char *text = (const char *)path.data;
	size_t dir = path.len;

	while (text[dir - 1] != '/')
		dir--;
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(path.len - dir), text + dir);
	ret->dir_fd = resolve_canonical_dir(&ses->res, text, dir - 1);
}

static bool
spot_is(const struct spot *spot, const char *name, const Koda__Prepared *p)
{
	struct stat st;

	return spot->dir_fd >= 0 && fstatat(spot->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_dev == p->dev && st.st_ino == p->ino;
}

static bool
spot_has(const struct spot *spot, const char *name)
{
	struct stat st;

	return spot->dir_fd >= 0 && fstatat(spot->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool
spot_has_changed(const struct spot *spot, const Koda__Prepared *p)
{
	struct stat st;

	return p->has_ctime_ns &&
	    fstatat(spot->dir_fd, spot->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    change_ctime_ns(&st) != p->ctime_ns;
}

struct change_recovery {
	const Koda__Recover *ask;
	struct spot place, to;
	char temp[TEMP_NAME_SIZE];
};

static void
recovery_done(struct change_recovery *r)
{
	spot_done(&r->place);
	spot_done(&r->to);
}

/* Removing a directory that has to be empty: did another process put something in before its
 * name went? */
static bool
must_go_back(const struct change_recovery *r)
{
	cleanup_close int dir = -1;

	if (r->ask->has_recursive && r->ask->recursive)
		return false;
	dir = openat(r->place.dir_fd, r->temp, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir >= 0 && tree_is_empty(dir) != 1;
}

static Koda__Happened
decide_remove(const struct change_recovery *r)
{
	/* The name exists again: put back because the directory could not be removed, or a new
	 * file that happens to have the same inode number. */
	if (r->ask->has_committed && r->ask->committed)
		return spot_is(&r->place, r->place.name, r->ask->prepared) &&
			!spot_has(&r->place, r->temp)
		    ? KODA__HAPPENED__CANNOT_TELL
		    : KODA__HAPPENED__HAPPENED;
	if (spot_is(&r->place, r->temp, r->ask->prepared))
		return must_go_back(r) ? KODA__HAPPENED__DID_NOT_HAPPEN : KODA__HAPPENED__HAPPENED;
	/* Still there, or another process has removed it. */
	return KODA__HAPPENED__DID_NOT_HAPPEN;
}

/* If the source is at its old name but has another ctime, another process may have moved it back. */
static Koda__Happened
decide_rename(const struct change_recovery *r)
{
	const Koda__Prepared *p = r->ask->prepared;

	if (spot_is(&r->to, r->to.name, p))
		return KODA__HAPPENED__HAPPENED;
	return spot_is(&r->place, r->place.name, p) && !spot_has_changed(&r->place, p)
	    ? KODA__HAPPENED__DID_NOT_HAPPEN
	    : KODA__HAPPENED__CANNOT_TELL;
}

static Koda__Happened
decide(const struct change_recovery *r)
{
	const Koda__Prepared *p = r->ask->prepared;

	if (r->ask->verdict != NULL)
		return r->ask->verdict->happened;
	if (p == NULL)
		return KODA__HAPPENED__DID_NOT_HAPPEN;
	if (r->ask->kind == KODA__KIND__KIND_REMOVE)
		return decide_remove(r);
	if (r->ask->kind == KODA__KIND__KIND_RENAME)
		return decide_rename(r);
	if (spot_is(&r->place, r->place.name, p))
		return KODA__HAPPENED__HAPPENED;
	/* Also if the inode differs: then the worker had started again, which it does only after
	 * a failed attempt. */
	return spot_has(&r->place, r->temp) ? KODA__HAPPENED__DID_NOT_HAPPEN
					    : KODA__HAPPENED__CANNOT_TELL;
}

static enum access_op
op_of(Koda__Kind kind)
{
	switch (kind) {
	case KODA__KIND__KIND_MKDIR:
		return ACCESS_OP_MKDIR;
	case KODA__KIND__KIND_REMOVE:
		return ACCESS_OP_REMOVE;
	case KODA__KIND__KIND_RENAME:
		return ACCESS_OP_RENAME_FROM;
	case KODA__KIND__KIND_WRITE:
	case KODA__KIND__KIND_EDIT:
	case _KODA__KIND_IS_INT_SIZE:
		break;
	}
	return ACCESS_OP_WRITE;
}

/*
 * Cleans up after a request that did not reach Prepared: its temporary file is in the directory
 * that was the deepest existing one on the way to the place at that time; another process may have
 * made more of the path since. Returns false if the policy refuses the change: then it was never
 * started, unless the policy is another one (orphaned).
 */
static bool
clean_unprepared(struct session *ses, const struct change_recovery *r)
{
	const Koda__Recover *ask = r->ask;
	struct place *at = &ses->at;
	const unsigned itself = ask->kind == KODA__KIND__KIND_MKDIR ? RESOLVE_LINK_ITSELF : 0;
	struct koda_error why;
	struct stat st;
	bool found = false;
	size_t len;

	if (ask->kind == KODA__KIND__KIND_REMOVE || ask->kind == KODA__KIND__KIND_RENAME)
		return true;
	if (session_place(ses, ask->path, RESOLVE_PARENT | itself, op_of(ask->kind), at, &why) < 0)
		return why.code != KODA_POLICY_DENIED;
	len = strlen(at->path);
	while (len > 0) {
		cleanup_close int dir = -1;

		while (len > 0 && at->path[len - 1] != '/')
			len--;
		len = len > 0 ? len - 1 : 0;
		dir = resolve_canonical_dir(&ses->res, at->path, len);
		if (dir < 0)
			continue;
		found |= fstatat(dir, r->temp, &st, AT_SYMLINK_NOFOLLOW) == 0;
		tree_remove(dir, r->temp);
	}
	/* What an orphan had written down before its last step did not happen either. */
	if (found && ask->has_orphaned && ask->orphaned)
		keep_forget(ses, ask->token.data, ask->request);
	return true;
}

/* Returns false if the policy refused it. */
static bool
clean_up(struct session *ses, const struct change_recovery *r, Koda__Happened happened)
{
	const Koda__Recover *ask = r->ask;
	const bool ours = ask->prepared != NULL && spot_is(&r->place, r->temp, ask->prepared);
	cleanup_close int dir = -1;

	if (ask->prepared == NULL)
		return clean_unprepared(ses, r);
	if (happened == KODA__HAPPENED__CANNOT_TELL)
		return true;
	if (ask->kind == KODA__KIND__KIND_REMOVE) {
		if (ours && happened == KODA__HAPPENED__HAPPENED) {
			if (keep_removed(ses, ask->token.data, ask->request, r->place.dir_fd,
				r->temp) < 0)
				tree_remove(r->place.dir_fd, r->temp);
		} else if (spot_has(&r->place, r->temp))
			/* Also moves back what another process had put under the name just
			 * before the rename: it is not ours to remove. */
			tree_rename_new(r->place.dir_fd, r->temp, r->place.dir_fd, r->place.name);
	} else if (ask->kind != KODA__KIND__KIND_RENAME && r->place.dir_fd >= 0 &&
	    happened == KODA__HAPPENED__DID_NOT_HAPPEN) {
		tree_remove(r->place.dir_fd, r->temp);
	}
	/* If what was to be removed is not at its place, an earlier Recover may have taken it to the
	 * history, which then has it alone. */
	if (happened == KODA__HAPPENED__DID_NOT_HAPPEN &&
	    (ask->kind != KODA__KIND__KIND_REMOVE ||
		spot_is(&r->place, r->place.name, ask->prepared)))
		keep_forget(ses, ask->token.data, ask->request);
	/* Whether it was to be durable is not known here, but reporting that it happened
	 * promises it now. */
	if (happened == KODA__HAPPENED__HAPPENED && r->place.dir_fd >= 0 &&
	    (dir = openat(r->place.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
		fsync(dir);
	return true;
}

/* Adds the digest of what is there now, for the person who has to find out what happened. */
static void
digest_now(struct session *ses, const struct change_recovery *r, Koda__Verdict *msg)
{
	const bool renamed = r->ask->kind == KODA__KIND__KIND_RENAME;
	const struct spot *spot = renamed ? &r->to : &r->place;
	ProtobufCBinaryData path = renamed ? r->ask->prepared->to : r->ask->prepared->place;
	cleanup_close int held = -1, fd = -1;
	uint8_t *digest = session_alloc(ses, KODA_DIGEST_BYTES, NULL);
	char text[PATH_LEN_MAX + 1];
	struct stat st;

	snprintf(text, sizeof(text), "%.*s", (int)path.len, (const char *)path.data);
	if (digest == NULL || spot->dir_fd < 0 ||
	    session_judge_path(ses, ACCESS_OP_READ, &ses->at, text, NULL) < 0)
		return;
	held = openat(spot->dir_fd, spot->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (held < 0 || fstat(held, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	fd = resolve_reopen(&ses->res, held, O_RDONLY | O_NOCTTY);
	if (fd < 0 || digest_file(fd, digest) < 0)
		return;
	msg->has_digest_now = true;
	msg->digest_now = bytes_of(digest, KODA_DIGEST_BYTES);
}

/* Prepared comes from a worker that may have been compromised: judge it by the policy like a
 * request, and compare its temporary name with the one it must have had. */
static int
check_prepared(struct session *ses, const struct change_recovery *r, bool *ret_allowed,
    struct koda_error *err)
{
	const Koda__Prepared *p = r->ask->prepared;
	char text[PATH_LEN_MAX + 1];

	if (p->has_temp &&
	    (p->temp.len != strlen(r->temp) || memcmp(p->temp.data, r->temp, p->temp.len) != 0))
		return err_set(err, KODA_PROTOCOL, 0,
		    "recover: the temporary name is not that of the request");
	snprintf(text, sizeof(text), "%.*s", (int)p->place.len, (const char *)p->place.data);
	*ret_allowed = session_judge_path(ses, op_of(r->ask->kind), &ses->at, text, NULL) == 0;
	if (p->has_to && *ret_allowed) {
		snprintf(text, sizeof(text), "%.*s", (int)p->to.len, (const char *)p->to.data);
		*ret_allowed =
		    session_judge_path(ses, ACCESS_OP_RENAME_TO, &ses->at, text, NULL) == 0;
	}
	return 0;
}

int
op_recover(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Recover *ask = req->recover;
	cleanup(recovery_done) struct change_recovery r = { .ask = ask,
		.place.dir_fd = -1,
		.to.dir_fd = -1 };
	Koda__Verdict *msg = session_alloc(ses, sizeof(*msg), err);
	const bool orphaned = ask->has_orphaned && ask->orphaned;
	bool allowed = true;

	if (msg == NULL)
		return -1;
	temp_name(r.temp, ask->token.data, ask->request);
	koda__verdict__init(msg);
	if (ask->prepared != NULL) {
		if (check_prepared(ses, &r, &allowed, err) < 0)
			return -1;
		spot_open(ses, ask->prepared->place, &r.place);
		if (ask->prepared->has_to)
			spot_open(ses, ask->prepared->to, &r.to);
	}
	msg->happened = allowed ? decide(&r) : KODA__HAPPENED__CANNOT_TELL;
	if (allowed && ask->prepared != NULL && msg->happened == KODA__HAPPENED__CANNOT_TELL)
		digest_now(ses, &r, msg);
	if (ask->verdict == NULL && !orphaned && session_verdict(ses, msg, err) < 0)
		return -1;
	PAUSE_POINT(PAUSE_VERDICT);
	if (allowed && clean_up(ses, &r, msg->happened))
		keep_now_forget(ses, ask->token.data);
	rep->result_case = KODA__REPLY__RESULT_RECOVERED;
	rep->recovered = msg;
	return 0;
}
