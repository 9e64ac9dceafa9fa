/* SPDX-License-Identifier: Apache-2.0 */
/* A session and a slot on the real workers, for tests that use the library. */
#ifndef KODA_TESTS_KIT_PROOF_SESSION_H
#define KODA_TESTS_KIT_PROOF_SESSION_H

#include "include/koda/sandbox.h"
#include "tests/kit/proof.h"

/* Prints every death, so that an unexpected one can be understood. */
static proof_unused void
proof_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind != KODA_EVENT_SPAWN && getenv("KODA_TEST_QUIET") == NULL)
		fprintf(stderr, "# event %d: %s\n", (int)kind, text);
}

/* Opens a session, or fails the test. policy may be NULL: the mode's own. */
static proof_unused struct koda_session *
proof_session(const char *root, enum koda_mode mode, const struct koda_policy *policy,
    const char *helper_dir)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_session *ses;
	struct koda_error err;

	options.root = root;
	options.mode = mode;
	options.policy = policy;
	options.event = proof_event;
	options.helper_dir = helper_dir != NULL ? helper_dir : KODA_TEST_HELPER_DIR;
	ses = koda_session_open(&options, &err);
	if (ses == NULL)
		fail_msg("session: %s", err.message);
	return ses;
}

static proof_unused struct koda_slot *
proof_slot(struct koda_session *ses)
{
	struct koda_error err;
	struct koda_slot *slot = koda_slot_acquire(ses, NULL, &err);

	if (slot == NULL)
		fail_msg("slot: %s", err.message);
	return slot;
}

#endif
