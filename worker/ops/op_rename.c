/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/change.h"
#include "worker/files/keep.h"
#include "worker/files/keep_now.h"
#include "worker/files/move.h"
#include "worker/files/tree.h"
#include "worker/ops/op.h"
#include "worker/pause.h"
#include "worker/say.h"

static int
check_from(struct session *ses, struct koda_error *err)
{
	const struct place *from = &ses->at, *to = &ses->to;
	struct access_verdict verdict;
	uint64_t entries;

	if (from->target_fd < 0)
		return say(err, KODA_IO, ENOENT, "rename", from->path);
	if (refuse_special(from, "rename", err) < 0)
		return -1;
	if (!S_ISDIR(from->st.st_mode) && !S_ISLNK(from->st.st_mode))
		return 0;
	if (S_ISDIR(from->st.st_mode) &&
	    move_check_tree(ses, ACCESS_OP_RENAME_FROM, from, &entries, err) < 0)
		return -1;
	/* Everything in it would appear below the new name. */
	verdict = access_judge_tree(&ses->who, ACCESS_OP_RENAME_TO, to->path);
	if (!verdict.allowed)
		return access_refuse(err, &ses->who, ACCESS_OP_RENAME_TO, to->path, verdict);
	return 0;
}

#define REFUSED_MOVE                                                                               \
	"this kernel's Landlock (before Linux 5.19) permits renames in one directory only: write " \
	"the new file and remove the old one; rename to"

static int
check_to(struct session *ses, bool overwrite, struct koda_error *err)
{
	const struct place *from = &ses->at, *to = &ses->to;

	if (*to->missing != '\0')
		return say(err, KODA_IO, ENOENT, "rename to", to->path);
	if (to->wants_dir && !S_ISDIR(from->st.st_mode))
		return say(err, KODA_IO, ENOTDIR, "rename to", to->path);
	if (to->target_fd < 0)
		return 0;
	if (!overwrite)
		return say(err, KODA_CONFLICT, EEXIST, "rename to", to->path);
	return refuse_special(to, "rename over", err);
}

static int
sync_dir(int parent_fd, bool durable, int *ret, const struct place *at, struct koda_error *err)
{
	if (!durable)
		return 0;
	*ret = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret >= 0 ? 0 : say(err, KODA_IO, errno, "open to sync the directory of", at->path);
}

static int
move(struct session *ses, const Koda__Rename *ask, struct outcome *out, struct koda_error *err)
{
	const struct place *from = &ses->at, *to = &ses->to;
	const bool durable = ask->has_durable && ask->durable;
	/* With a history, only what was kept is replaced. */
	const bool replaces =
	    ask->has_overwrite && ask->overwrite && (!keep_is_on(ses) || to->target_fd >= 0);
	Koda__Prepared prepared = KODA__PREPARED__INIT;
	cleanup_close int sync_from = -1, sync_to = -1;
	int r;

	if (sync_dir(from->parent_fd, durable, &sync_from, from, err) < 0 ||
	    sync_dir(to->parent_fd, durable, &sync_to, to, err) < 0)
		return -1;
	prepared.place = bytes_of(from->path, strlen(from->path));
	prepared.dev = from->st.st_dev;
	prepared.ino = from->st.st_ino;
	prepared.has_ctime_ns = true;
	prepared.ctime_ns = change_ctime_ns(&from->st);
	prepared.has_to = true;
	prepared.to = bytes_of(to->path, strlen(to->path));
	prepared.outcome = &out->msg;
	if (session_prepared(ses, &prepared, err) < 0)
		return -1;
	keep_now_rename(ses, &prepared);
	PAUSE_POINT(PAUSE_PREPARED);
	r = session_verify_parent(ses, from, err);
	if (r == 0)
		r = session_verify_parent(ses, to, err);
	if (r == 0)
		keep_rename(ses, from, to, &out->msg);
	PAUSE_POINT(PAUSE_KEPT);
	if (r == 0 &&
	    (replaces ? renameat2(from->parent_fd, from->name, to->parent_fd, to->name, 0)
		      : tree_rename_new(from->parent_fd, from->name, to->parent_fd, to->name)) < 0)
		r = say(err, errno == EEXIST && !replaces ? KODA_CONFLICT : KODA_IO, errno,
		    errno == EXDEV && ses->no_moves ? REFUSED_MOVE : "rename to", to->path);
	if (r < 0) {
		session_not_done(ses);
		keep_not_done(ses);
		return -1;
	}
	PAUSE_POINT(PAUSE_ACTED);
	if (!moved_is(to->parent_fd, to->name, &from->st)) {
		/* Another process put another file at the old name, which the worker has not
		 * judged. What was overwritten stays in the history. */
		if (tree_rename_new(to->parent_fd, to->name, from->parent_fd, from->name) < 0)
			return say(err, KODA_UNKNOWN, errno,
			    "another process replaced the source, and the replacement was moved to",
			    to->path);
		return say(err, KODA_CONFLICT, 0, "another process replaced", from->path);
	}
	if ((sync_to >= 0 && fsync(sync_to) < 0) || (sync_from >= 0 && fsync(sync_from) < 0))
		return say(err, KODA_UNKNOWN, errno,
		    "renamed, but a power failure may undo it, because syncing failed:", to->path);
	return 0;
}

int
op_rename(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Rename *ask = req->rename;
	const bool overwrite = ask->has_overwrite && ask->overwrite;
	const bool dry = ask->has_dry_run && ask->dry_run;
	struct place *from = &ses->at, *to = &ses->to;
	const unsigned flags = RESOLVE_PARENT | RESOLVE_LINK_ITSELF;
	struct outcome *out;

	if (session_place(ses, ask->from, flags, ACCESS_OP_RENAME_FROM, from, err) < 0 ||
	    session_place(ses, ask->to, flags, ACCESS_OP_RENAME_TO, to, err) < 0 ||
	    move_check_root(ses, "rename", from, err) < 0 ||
	    move_check_root(ses, "rename over", to, err) < 0 ||
	    guard_check(ask->guard, from, err) < 0)
		return -1;
	if (ask->has_guard_to &&
	    (ask->guard_to.len != strlen(to->path) ||
		memcmp(ask->guard_to.data, to->path, ask->guard_to.len) != 0))
		return say_of(err, KODA_CONFLICT, 0, to->path,
		    "no longer resolves to the place that was approved");
	if (check_from(ses, err) < 0 || check_to(ses, overwrite, err) < 0)
		return -1;
	out = outcome_new(ses, from, err);
	if (out == NULL || guard_digest(ses, ask->guard, from, -1, dry, out, err) < 0)
		return -1;
	out->msg.has_to = true;
	out->msg.to = bytes_of(to->path, strlen(to->path));
	out->msg.has_created = true;
	out->msg.created = to->target_fd < 0;
	rep->result_case = KODA__REPLY__RESULT_OUTCOME;
	rep->outcome = &out->msg;
	if (dry)
		return 0;
	return move(ses, ask, out, err);
}
