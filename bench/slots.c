/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/slots.h"

#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/trees.h"

void
slots_home(const char *root, char ret_history[PATH_MAX])
{
	char home[PATH_MAX - 64];

	/* See bench/commands.c. */
	snprintf(home, sizeof(home), "%s/home", root);
	if (setenv("HOME", home, 1) < 0 || unsetenv("XDG_STATE_HOME") < 0 ||
	    unsetenv("XDG_CONFIG_HOME") < 0)
		err(1, "environment");
	make_dir(home);
	snprintf(ret_history, PATH_MAX, "%s/.local/state/koda-sandbox/history", home);
}

struct koda_session *
slots_session(const char *root, const char *helpers)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_session *ses;
	struct koda_error e;

	options.root = root;
	options.mode = KODA_AUTO;
	options.helper_dir = helpers;
	options.commands = true;
	ses = koda_session_open(&options, &e);
	if (ses == NULL)
		complain_error("session", &e);
	return ses;
}

int
slots_run(struct koda_slot *slot, const char *const *argv, const char *shell)
{
	const struct koda_command_options o = { .argv = argv, .shell = shell };
	struct koda_command_result result;
	struct koda_error e;
	int status;

	if (koda_run(slot, &o, &result, &e) < 0)
		return complain_error("run", &e);
	status = result.status;
	if (status != 0)
		fprintf(stderr, "the command ended with %d: %.*s\n", status,
		    (int)result.err.head_len, result.err.head);
	koda_command_result_done(&result);
	return status == 0 ? 0 : -1;
}

struct koda_slot *
slots_open(struct koda_session *ses, enum koda_workspace workspace)
{
	static const char *const just_true[] = { "true", NULL };
	const struct koda_slot_options o = { .workspace = workspace };
	struct koda_error e;
	struct koda_slot *slot = koda_slot_open(ses, &o, &e);

	if (slot == NULL) {
		complain_error("slot", &e);
		return NULL;
	}
	if (slots_run(slot, just_true, NULL) == 0)
		return slot;
	koda_slot_release(slot);
	return NULL;
}

struct koda_draft *
slots_draft(struct koda_session *ses, struct koda_slot *slot)
{
	struct koda_draft *draft;
	struct koda_error e;
	char id[64];

	snprintf(id, sizeof(id), "%s", koda_slot_draft(slot));
	koda_slot_release(slot);
	draft = koda_draft_open(ses, id, &e);
	if (draft == NULL)
		complain_error("draft", &e);
	return draft;
}
