/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots that work in a draft, and commands in them.
 */
#ifndef KODA_TESTS_KIT_DRAFTING_H
#define KODA_TESTS_KIT_DRAFTING_H

#include "tests/kit/hosting.h"

#define DRAFT_OUT_MAX 65536

/* id NULL: a new one. */
static UNUSED struct koda_slot *
draft_open_slot(struct fixture *f, const char *id)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT, .draft = id };
	struct koda_error err;
	struct koda_slot *slot = koda_slot_open(f->ses, &o, &err);

	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	return slot;
}

/* Runs it and returns what it printed, with its errors after it; valid until the second next
 * call. */
static UNUSED const char *
draft_out(struct koda_slot *slot, const char *shell)
{
	static char text[2][DRAFT_OUT_MAX];
	static unsigned next;
	char *ret = text[next++ % 2];
	const struct koda_command_options o = { .shell = shell };
	struct koda_command_result r;
	struct koda_error err;

	if (koda_run(slot, &o, &r, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	snprintf(ret, DRAFT_OUT_MAX, "%.*s%.*s", (int)r.out.head_len, r.out.head,
	    (int)r.err.head_len, r.err.head);
	koda_command_result_done(&r);
	return ret;
}

/* A new draft slot has to fail like this, and the message to say these words. */
static UNUSED void
draft_refused(struct fixture *f, enum koda_code code, const char *words)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_error err;

	assert_null(koda_slot_open(f->ses, &o, &err));
	if (err.code != code || strstr(err.message, words) == NULL)
		fail_msg("%s: %s", koda_code_name(err.code), err.message);
}

#endif
