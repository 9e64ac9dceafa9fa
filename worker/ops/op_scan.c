/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "shared/base/cleanup.h"
#include "shared/rules/names.h"
#include "worker/ops/op.h"
#include "worker/scan/scan.h"
#include "worker/scan/scan_compare.h"
#include "worker/scan/scan_reply.h"
#include "worker/scan/scan_results.h"

static struct scan *
begin(struct session *ses, struct koda_error *err)
{
	const struct quarantine q = { .fd = ses->quarantine_fd,
		.token = ses->token,
		.left = UINT_MAX };

	if (ses->scan == NULL)
		ses->scan = scan_new(&ses->res, &ses->who, q);
	if (ses->scan == NULL)
		err_set(err, KODA_INTERNAL, ENOMEM, "scan");
	return ses->scan;
}

int
op_scan(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Scan *ask = req->scan;
	Koda__Scanned *msg = session_alloc(ses, sizeof(*msg), err);
	const bool next = ask->has_next && ask->next;
	struct scan *sc;

	if (msg == NULL)
		return -1;
	if (next ? ses->scan == NULL || !ses->scanned : ses->scanned)
		return err_set(err, KODA_INVALID, 0,
		    next ? "no scan to continue" : "scanned already");
	sc = begin(ses, err);
	if (sc == NULL)
		return -1;
	for (size_t i = 0; i < ask->n_below; i++) {
		char path[PATH_LEN_MAX + 1];

		memcpy(path, ask->below[i].data, ask->below[i].len);
		path[ask->below[i].len] = '\0';
		if (scan_add_root(sc, path, err) < 0)
			return -1;
	}
	for (size_t i = 0; ses->caches[i] != NULL; i++) {
		if (scan_add_cache(sc, ses->caches[i], err) < 0)
			return -1;
	}
	for (size_t i = 0; i < ask->n_told; i++) {
		char name[NAMES_RULE_MAX + 1];

		if (ask->told[i].len >= sizeof(name))
			return err_set(err, KODA_INVALID, 0, "a name is too long");
		memcpy(name, ask->told[i].data, ask->told[i].len);
		name[ask->told[i].len] = '\0';
		if (scan_add_told(sc, name, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < ask->n_known; i++) {
		if (scan_add_known(sc, ask->known[i], err) < 0)
			return -1;
	}
	if (!next && !(ask->has_more && ask->more)) {
		if ((ask->has_resumed && ask->resumed ? scan_resume(sc, err)
						      : scan_learn(sc, err)) < 0)
			return -1;
		ses->scanned = true;
	}
	koda__scanned__init(msg);
	msg->watched = scan_watched(sc);
	msg->has_cut = msg->cut = scan_cut(sc);
	if (ses->scanned && scan_places(ses, sc, &msg->place, &msg->n_place, 0, err) < 0)
		return -1;
	msg->has_more = msg->more = scan_has_more(sc);
	rep->result_case = KODA__REPLY__RESULT_SCANNED;
	rep->scanned = msg;
	return 0;
}
