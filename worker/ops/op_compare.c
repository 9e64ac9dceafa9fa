/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "worker/ops/op.h"
#include "worker/scan/scan_compare.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_reply.h"
#include "worker/scan/scan_results.h"

static enum scan_reach
reach_of(const Koda__Compare *ask)
{
	if (ask->has_look && ask->look)
		return SCAN_LOOK;
	if (ask->has_gentle && ask->gentle)
		return SCAN_GENTLY;
	return ask->has_mounted && ask->mounted ? SCAN_ALL_MOUNTED : SCAN_ALL;
}

int
op_compare(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Compare *ask = req->compare;
	Koda__Compared *msg = session_alloc(ses, sizeof(*msg), err);
	struct scan *sc = ses->scan;
	size_t used = 0;

	if (msg == NULL)
		return -1;
	if (sc == NULL || !ses->scanned)
		return err_set(err, KODA_INVALID, 0, "there was no scan to compare with");
	if (ask->has_keep)
		scan_quarantine(sc)->left = ask->keep;
	if (ask->has_command) {
		struct quarantine *q = scan_quarantine(sc);

		free(q->command);
		q->command = strndup((const char *)ask->command.data, ask->command.len);
	}
	if (ask->has_again && ask->again)
		scan_try_again(sc);
	if (ask->has_walk && ask->walk)
		scan_walk_again(sc);
	/* Report everything found so far before looking for more. */
	if (!scan_has_more(sc) &&
	    scan_compare(sc, reach_of(ask), ask->has_busy && ask->busy, err) < 0)
		return -1;
	koda__compared__init(msg);
	if (scan_changes(ses, sc, &msg->change, &msg->n_change, &used, err) < 0 ||
	    scan_places(ses, sc, &msg->place, &msg->n_place, used, err) < 0)
		return -1;
	msg->watched = scan_watched(sc);
	msg->has_watch_errno = !msg->watched;
	msg->watch_errno = (uint32_t)scan_watch_errno(sc);
	msg->has_cut = msg->cut = scan_cut(sc);
	msg->has_more = msg->more = scan_has_more(sc);
	rep->result_case = KODA__REPLY__RESULT_COMPARED;
	rep->compared = msg;
	return 0;
}
