/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "shared/base/cleanup.h"
#include "worker/ops/op.h"

/* The longest reason, which may quote a rule of the policy. */
#define REASON_SIZE (PATH_LEN_MAX + 512)

int
op_explain(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Explain *ask = req->explain;
	const enum access_op op =
	    ask->access == KODA__ACCESS__ACCESS_WRITE ? ACCESS_OP_WRITE : ACCESS_OP_READ;
	struct place *at = &ses->at;
	Koda__Explained *msg = session_alloc(ses, sizeof(*msg), err);
	char *buf = session_alloc(ses, REASON_SIZE, err);
	struct access_verdict verdict;
	enum access_op judged;
	const char *where, *reason, *rule;

	if (msg == NULL || buf == NULL)
		return -1;
	if (resolve(&ses->res, ask->path.data, ask->path.len,
		op == ACCESS_OP_WRITE ? RESOLVE_PARENT : 0, at, err) < 0) {
		place_done(at);
		/* Report the same refusal that the operation itself would get. */
		return session_place(ses, ask->path, 0, op, at, err) < 0
		    ? -1
		    : err_set(err, KODA_CONFLICT, 0, "the path changed meanwhile");
	}
	verdict = session_judge(ses, op, at, &where, &judged);
	koda__explained__init(msg);
	reason = access_reason(&ses->who, judged, verdict, buf, REASON_SIZE);
	rule = access_rule_name(verdict.rule);
	msg->allowed = verdict.allowed;
	msg->path = bytes_of(at->path, strlen(at->path));
	msg->rule = bytes_of(rule, strlen(rule));
	msg->reason = bytes_of(reason, strlen(reason));
	msg->hop = session_alloc(ses, (at->n_hops + 1) * sizeof(*msg->hop), err);
	if (msg->hop == NULL)
		return -1;
	msg->n_hop = at->n_hops;
	for (size_t i = 0; i < at->n_hops; i++)
		msg->hop[i] = bytes_of(at->hop[i], strlen(at->hop[i]));
	rep->result_case = KODA__REPLY__RESULT_EXPLAINED;
	rep->explained = msg;
	return 0;
}
