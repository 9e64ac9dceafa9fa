/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "worker/files/change.h"
#include "worker/ops/op.h"
#include "worker/say.h"

/* One attempt. Returns 1 if another process was faster: start again from resolving. */
static int
try_mkdir(struct session *ses, const Koda__Mkdir *ask, Koda__Reply *rep, struct koda_error *err)
{
	const bool parents = ask->has_parents && ask->parents;
	struct place *at = &ses->at;
	struct outcome *out;
	int r;

	if (session_place(ses, ask->path, RESOLVE_PARENT | RESOLVE_LINK_ITSELF, ACCESS_OP_MKDIR, at,
		err) < 0 ||
	    judge_missing(ses, at, err) < 0 || guard_check(ask->guard, at, err) < 0)
		return -1;
	if (at->target_fd >= 0 && !(parents && S_ISDIR(at->st.st_mode)))
		return say(err, KODA_CONFLICT, EEXIST, "make the directory", at->path);
	if (*at->missing != '\0' && !parents)
		return say(err, KODA_IO, ENOENT, "make the directory", at->path);
	out = outcome_new(ses, at, err);
	if (out == NULL)
		return -1;
	out->msg.has_created = true;
	out->msg.created = at->target_fd < 0;
	rep->result_case = KODA__REPLY__RESULT_OUTCOME;
	rep->outcome = &out->msg;
	if (at->target_fd >= 0 || (ask->has_dry_run && ask->dry_run))
		return 0;

	const struct file_change change = {
		.at = at,
		.outcome = &out->msg,
		.durable = ask->has_durable && ask->durable,
		.exclusive = true,
	};
	r = change_perform(ses, &change, err);
	if (r == 1 && !parents)
		return say(err, KODA_CONFLICT, EEXIST, "make the directory", at->path);
	return r;
}

int
op_mkdir(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	int r = 1;

	for (int i = 0; r == 1 && i < CHANGE_TRIES; i++) {
		place_done(&ses->at);
		r = try_mkdir(ses, req->mkdir, rep, err);
	}
	if (r == 1)
		return say(err, KODA_CONFLICT, 0, "gave up: another process keeps changing",
		    ses->at.path);
	return r;
}
