/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the worker which files it protects although the policy does not name them, for a child
 * agent's policy (koda_slot_add_guards). */
#include <string.h>

#include "host/command/command_ready.h"
#include "host/context/entry.h"
#include "host/slot/slot.h"
#include "shared/base/cleanup.h"

/* A page takes a millisecond; the first one may take as long as a scan. */
#define GUARDS_MS 120000

struct guarded_pages {
	struct koda_policy *policy;
	uint32_t from;
	bool more;
};

/* The reply is untrusted input. */
static int
take_guarded(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct guarded_pages *a = data;

	if (reply->result_case != KODA__REPLY__RESULT_GUARDED)
		return err_set(err, KODA_PROTOCOL, 0, "the reply to Guarded has the wrong type");
	for (size_t i = 0; i < reply->guarded->n_path; i++) {
		const ProtobufCBinaryData path = reply->guarded->path[i];
		char text[PATH_LEN_MAX + 1];

		if (!path_is_canonical(path.data, path.len))
			return err_set(err, KODA_PROTOCOL, 0,
			    "a guarded place whose path is not canonical");
		memcpy(text, path.data, path.len);
		text[path.len] = '\0';
		if (koda_policy_add(a->policy, KODA_DENY_WRITE_WITHIN_ALLOW, text, err) < 0)
			return -1;
	}
	a->from += (uint32_t)reply->guarded->n_path;
	a->more = reply->guarded->has_more && reply->guarded->more;
	if (a->more && reply->guarded->n_path == 0)
		return err_set(err, KODA_PROTOCOL, 0, "an empty page of guarded places");
	return 0;
}

static int
ask_page(struct koda_slot *slot, struct guarded_pages *a, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Guarded guarded = KODA__GUARDED__INIT;
	struct packed packed;

	req.op_case = KODA__REQUEST__OP_GUARDED;
	req.guarded = &guarded;
	guarded.has_from = true;
	guarded.from = a->from;
	if (slot_pack_ours(slot, &req, &packed, err) < 0)
		return -1;
	return slot_ask_ours(slot, &packed, GUARDS_MS, take_guarded, a, err);
}

int
koda_slot_add_guards(struct koda_slot *slot, struct koda_policy *policy, struct koda_error *err)
{
	struct guarded_pages a = { .policy = policy, .more = true };
	int r;

	if (session_check(slot->ses, err) < 0)
		return -1;
	session_enter(slot->ses);
	r = command_make_ready(slot, err);
	while (r == 0 && a.more)
		r = ask_page(slot, &a, err);
	session_leave(slot->ses);
	return r < 0 ? err_wrap(err, "find where the links in protected places lead") : 0;
}
