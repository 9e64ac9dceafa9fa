/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/settle.h"

#include "host/context/context.h"
#include "host/draft/history.h"
#include "host/draft/history_live.h"
#include "host/draft/history_now.h"
#include "host/draft/history_size.h"
#include "host/workspace/keeping.h"
#include "shared/base/cleanup.h"

/* ---- one entry ---- */

static int
take(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	return reply->result_case == KODA__REPLY__RESULT_RECOVERED
	    ? 0
	    : err_set(err, KODA_PROTOCOL, 0, "the reply to Recover has the wrong type");
}

/* Returns false if it cannot be asked again: it kills workers. */
static bool
ask(void *data, Koda__Recover *m)
{
	Koda__Request req = KODA__REQUEST__INIT;
	struct koda_error err;

	req.op_case = KODA__REQUEST__OP_RECOVER;
	req.recover = m;
	return held_ask(data, &req, take, NULL, &err) == 0 ||
	    (err.code != KODA_WORKER && err.code != KODA_PROTOCOL);
}

bool
settle_entry(const struct history *h, struct holder *held)
{
	if (!history_is_of_files(h) || !history_now_is_any(h))
		return false;
	history_size_forget(h->fd);
	history_now_visit(h, ask, held);
	return true;
}

/* ---- all of them ---- */

static void
run_worker(const struct koda_session *ses, const struct history *h)
{
	cleanup(held_like_done) struct held_like like = { 0 };
	cleanup(held_close) struct holder held = { 0 };
	struct koda_error err;

	if (held_like(ses, &like, &err) == 0 && held_open(&held, &like, NULL, h->fd, &err) == 0)
		settle_entry(h, &held);
}

static void
settle_one(void *data, const char *id)
{
	struct koda_session *ses = data;
	cleanup(history_close) struct history h = HISTORY_CLOSED;
	struct koda_error err = { 0 };

	if (history_open_at_once(ses->state, ses->root, id, &h, &err) < 0) {
		/* KODA_CONFLICT: the session goes on. */
		if (err.code == KODA_INVALID)
			history_live_clear(ses->state, ses->root, id);
		return;
	}
	if (history_now_is_any(&h))
		run_worker(ses, &h);
	if (!history_now_is_any(&h))
		keeping_settled(ses, &h, 0);
}

void
settle_killed(struct koda_session *ses)
{
	if (ses->settled || !keeping_is_wanted(ses) || ses->state == NULL)
		return;
	ses->settled = true;
	history_live_visit(ses->state, ses->root, settle_one, ses);
}
