/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded: the places that are protected only because a link or a configuration leads to them. */
#include <string.h>

#include "shared/wire/protocol.h"
#include "worker/ops/op.h"
#include "worker/scan/scan_led.h"

/* Places in one reply. Bounds what a frame unpacks into. */
#define ITEMS_MAX 1000

int
op_guarded(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const size_t from = req->guarded->has_from ? req->guarded->from : 0;
	Koda__GuardedReply *msg = session_alloc(ses, sizeof(*msg), err);
	const struct scan *sc = session_led(ses);
	size_t used = 0;

	if (msg == NULL)
		return -1;
	if (sc == NULL)
		return err_set(err, KODA_INTERNAL, 0,
		    "the links in protected places could not be followed");
	koda__guarded_reply__init(msg);
	msg->path = session_alloc(ses, ITEMS_MAX * sizeof(*msg->path), err);
	if (msg->path == NULL)
		return -1;
	for (size_t i = from;; i++) {
		const char *path = scan_guarded(sc, i);
		size_t len;
		char *copy;

		if (path == NULL)
			break;
		len = strlen(path);
		if (msg->n_path == ITEMS_MAX || used + len > PAGE_MAX) {
			msg->has_more = msg->more = true;
			break;
		}
		copy = session_alloc(ses, len + 1, err);
		if (copy == NULL)
			return -1;
		memcpy(copy, path, len + 1);
		msg->path[msg->n_path++] =
		    (ProtobufCBinaryData){ .len = len, .data = (uint8_t *)copy };
		used += len + 8;
	}
	rep->result_case = KODA__REPLY__RESULT_GUARDED;
	rep->guarded = msg;
	return 0;
}
