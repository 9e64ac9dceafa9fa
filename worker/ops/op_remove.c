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

/* Moves the file back to its name and sets *err to `code`. If moving fails, sets *err to
 * KODA_UNKNOWN: the file is then neither removed nor at its name. Returns -1. */
static int
put_back(const struct place *at, const char *temp, enum koda_code code, int error, const char *what,
    struct koda_error *err)
{
	char shown[512];

	bytes_show(shown, sizeof(shown), at->path, strlen(at->path));
	if (tree_rename_new(at->parent_fd, temp, at->parent_fd, at->name) == 0)
		err_set(err, code, error, "%s '%s'", what, shown);
	else
		err_set(err, KODA_UNKNOWN, error, "%s '%s' (what was there is beside it as '%s')",
		    what, shown, temp);
	return err_about(err, at->path, NULL);
}

/* Removes the file or directory that was moved to the temporary name, or (moves) moves it on to the
 * history. */
static int
take_apart(struct session *ses, const Koda__Prepared *prepared, const char *temp, bool recursive,
    bool moves, struct koda_error *err)
{
	const struct place *at = &ses->at;
	cleanup_close int dir = -1;
	int r;

	if (S_ISDIR(at->st.st_mode) && !recursive) {
		/* A process that has the directory open may have made something in it before the
		 * rename. */
		dir = openat(at->parent_fd, temp, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = dir < 0 ? -1 : tree_is_empty(dir);
		if (r != 1)
			return put_back(at, temp, KODA_IO, r < 0 ? errno : ENOTEMPTY, "remove",
			    err);
	}
	if (session_committed(ses, err) < 0)
		return -1;
	keep_now_remove(ses, prepared, recursive, true);
	PAUSE_POINT(PAUSE_COMMITTED);
	if (moves && keep_removed(ses, ses->token, ses->id, at->parent_fd, temp) == 0) {
		keep_measure(ses, prepared->outcome);
		PAUSE_POINT(PAUSE_TAKEN);
		return 0;
	}
	r = S_ISDIR(at->st.st_mode) && !recursive ? unlinkat(at->parent_fd, temp, AT_REMOVEDIR)
						  : tree_remove(at->parent_fd, temp);
	if (r < 0)
		return put_back(at, temp, KODA_IO, errno,
		    recursive ? "could only remove a part of" : "remove", err);
	return 0;
}

/* Acts, after Prepared. */
static int
take_away(struct session *ses, const Koda__Remove *ask, const Koda__Prepared *prepared,
    const char *temp, struct koda_error *err)
{
	const struct place *at = &ses->at;
	const bool recursive = ask->has_recursive && ask->recursive;
	bool moves;

	if (session_verify_parent(ses, at, err) < 0)
		return -1;
	moves = keep_remove(ses, at, prepared->outcome);
	PAUSE_POINT(PAUSE_KEPT);
	if (tree_rename_new(at->parent_fd, at->name, at->parent_fd, temp) < 0)
		return say(err, KODA_IO, errno, "remove", at->path);
	PAUSE_POINT(PAUSE_ACTED);
	if (!moved_is(at->parent_fd, temp, &at->st))
		return put_back(at, temp, KODA_CONFLICT, 0, "another process replaced", err);
	return take_apart(ses, prepared, temp, recursive, moves, err);
}

static int
remove_place(struct session *ses, const Koda__Remove *ask, struct outcome *out,
    struct koda_error *err)
{
	const struct place *at = &ses->at;
	Koda__Prepared prepared = KODA__PREPARED__INIT;
	cleanup_close int sync_fd = -1;
	char temp[TEMP_NAME_SIZE];

	if (ask->has_durable && ask->durable) {
		sync_fd = openat(at->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (sync_fd < 0)
			return say(err, KODA_IO, errno, "open to sync the directory of", at->path);
	}
	temp_name(temp, ses->token, ses->id);
	prepared.place = bytes_of(at->path, strlen(at->path));
	prepared.has_temp = true;
	prepared.temp = bytes_of(temp, strlen(temp));
	prepared.dev = at->st.st_dev;
	prepared.ino = at->st.st_ino;
	prepared.outcome = &out->msg;
	if (session_prepared(ses, &prepared, err) < 0)
		return -1;
	keep_now_remove(ses, &prepared, ask->has_recursive && ask->recursive, false);
	PAUSE_POINT(PAUSE_PREPARED);
	if (take_away(ses, ask, &prepared, temp, err) < 0) {
		keep_not_done(ses);
		return -1;
	}
	if (sync_fd >= 0 && fsync(sync_fd) < 0)
		return say(err, KODA_UNKNOWN, errno,
		    "removed, but a power failure may undo it, because syncing failed:", at->path);
	return 0;
}

static int
check_directory(struct session *ses, bool recursive, uint64_t *ret_entries, struct koda_error *err)
{
	const struct place *at = &ses->at;
	int empty;

	if (move_check_tree(ses, ACCESS_OP_REMOVE, at, recursive ? ret_entries : NULL, err) < 0)
		return -1;
	if (recursive)
		return 0;
	empty = tree_is_empty(at->target_fd);
	if (empty != 1)
		return say(err, KODA_IO, empty < 0 ? errno : ENOTEMPTY, "remove", at->path);
	return 0;
}

int
op_remove(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Remove *ask = req->remove;
	const bool recursive = ask->has_recursive && ask->recursive;
	const bool dry = ask->has_dry_run && ask->dry_run;
	struct place *at = &ses->at;
	struct outcome *out;
	uint64_t entries = 0;

	if (session_place(ses, ask->path, RESOLVE_PARENT | RESOLVE_LINK_ITSELF, ACCESS_OP_REMOVE,
		at, err) < 0 ||
	    move_check_root(ses, "remove", at, err) < 0 || guard_check(ask->guard, at, err) < 0)
		return -1;
	if (at->target_fd < 0)
		return say(err, KODA_IO, ENOENT, "remove", at->path);
	if (refuse_special(at, "remove", err) < 0 ||
	    (S_ISDIR(at->st.st_mode) && check_directory(ses, recursive, &entries, err) < 0))
		return -1;
	out = outcome_new(ses, at, err);
	if (out == NULL || guard_digest(ses, ask->guard, at, -1, dry, out, err) < 0)
		return -1;
	out->msg.has_entries = true;
	out->msg.entries = entries + 1;
	rep->result_case = KODA__REPLY__RESULT_OUTCOME;
	rep->outcome = &out->msg;
	if (dry)
		return 0;
	return remove_place(ses, ask, out, err);
}
