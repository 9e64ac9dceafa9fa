/* Asks the worker which files it protects although the policy does not name them, for a child
 * agent's policy (koda_slot_add_guards). */
#include <stdlib.h>
#include <string.h>

#include "host/command/command.h"
#include "shared/base/cleanup.h"

/* A page takes a millisecond; the first one may take as long as a scan. */
#define GUARDS_MS 120000

struct asked {
	struct koda_policy *policy;
	uint32_t from;
	bool more;
};

/* The reply is untrusted input. */
static int
take_guarded(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct asked *a = data;

	if (reply->result_case != KODA__REPLY__RESULT_GUARDED)
		return err_set(err, KODA_PROTOCOL, 0, "a reply of another kind than Guarded's");
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
ask_page(struct koda_slot *slot, struct asked *a, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Guarded guarded = KODA__GUARDED__INIT;
	struct call c = { .take = take_guarded, .take_data = a };
	struct packed packed;
	int r;

	req.op_case = KODA__REQUEST__OP_GUARDED;
	req.guarded = &guarded;
	guarded.has_from = true;
	guarded.from = a->from;
	req.id = slot->next_id;
	packed.len = koda__request__get_packed_size(&req);
	packed.data = malloc(packed.len);
	if (packed.data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	koda__request__pack(&req, packed.data);
	slot_submit_ours(slot, &packed, GUARDS_MS, &c);
	slot_run(slot, &c);
	r = c.err.code == KODA_OK ? 0 : -1;
	if (r < 0 && err != NULL)
		*err = c.err;
	call_done(&c);
	return r;
}

int
koda_slot_add_guards(struct koda_slot *slot, struct koda_policy *policy, struct koda_error *err)
{
	struct asked a = { .policy = policy, .more = true };
	int r;

	if (session_check(slot->ses, err) < 0)
		return -1;
	session_enter(slot->ses);
	r = command_make_ready(slot, err);
	while (r == 0 && a.more)
		r = ask_page(slot, &a, err);
	session_leave(slot->ses);
	return r < 0 ? err_wrap(err, "find out what the links in protected places lead to") : 0;
}
