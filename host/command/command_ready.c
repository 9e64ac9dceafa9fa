/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/command_ready.h"

#include "host/command/state.h"
#include "host/context/entry.h"
#include "host/protect/protect.h"
#include "host/sandbox/sandbox_end.h"
#include "host/sandbox/sandbox_orders.h"
#include "shared/rules/access.h"
#include "shared/rules/names.h"

int
command_make_ready(struct koda_slot *slot, struct koda_error *err)
{
	const struct koda_op ping = { .kind = KODA_OP_PING };
	struct koda_error dead;
	struct koda_result none;
	struct sandbox *sb;
	int r = 0;

	if (slot->commands == NULL)
		return 0; /* the worker is started by the first call */
	sb = slot->commands->sandbox;
	if (sb->full && slot->commands->n <= 1) {
		err_set(&dead, KODA_WORKER, 0,
		    "its private file systems hold most of its memory limit");
		sandbox_kill(sb, &dead);
	}
	if (sb->doubtful) {
		sb->doubtful = false;
		if (sb->up)
			sandbox_mount(sb, &dead);
	}
	/* A worker that still exists runs in the sandbox that is ending: it would answer the ping,
	 * and the host would not start another sandbox. */
	if (!sb->up && slot->state == SLOT_UP)
		child_kill(&slot->child);
	if (!sb->up || slot->state != SLOT_UP) {
		r = koda_call(slot, &ping, &none, err);
		koda_result_done(&none);
	}
	if (r == 0 && slot->commands == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0, "the kernel sandbox stopped working");
	return r < 0 ? -1 : protect_prepare(slot->commands->protect, err);
}

int
koda_slot_explain_command(struct koda_slot *slot, enum koda_access access, const char *path,
    bool *ret_allowed, const char **ret_rule, struct koda_error *err)
{
	const char *rule = NULL;
	int r;

	if (session_check(slot->ses, err) < 0)
		return -1;
	if (slot->commands == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "commands need the kernel sandbox, which this session does not have");
	session_enter(slot->ses);
	r = command_make_ready(slot, err);
	if (r == 0 && access == KODA_WRITE_ACCESS) {
		*ret_allowed = view_writes(&slot->commands->sandbox->view, path, &rule);
		/* A place that does not exist has no mount, but the host removes what appears
		 * there. */
		if (*ret_allowed &&
		    names_rule_of(&koda_policy_get(slot->policy)->list[KODA_DENY_WRITE_NAMES],
			path) != NULL) {
			*ret_allowed = false;
			rule = access_rule_name(ACCESS_RULE_DENY_NAME);
		}
	} else if (r == 0)
		*ret_allowed = view_shows(&slot->commands->sandbox->view, path, &rule);
	session_leave(slot->ses);
	*ret_rule = rule != NULL ? rule : "";
	return r;
}
