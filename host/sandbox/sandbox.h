/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel sandbox of one slot: bwrap, which makes the namespaces and the coarse view, and
 * stage2, its init, which does the rest and runs commands. Lives as long as the slot; when its
 * processes die they are started again the next time they are needed.
 *
 * This folder starts them (sandbox_boot), sends orders (sandbox_orders, sandbox_control) and ends
 * them (sandbox_end). It knows no commands and no protected places: both are above it. The host
 * trusts stage2 to carry out orders, but not to be well-behaved: its reports are checked like a
 * worker's replies.
 */
#ifndef KODA_HOST_SANDBOX_SANDBOX_H
#define KODA_HOST_SANDBOX_SANDBOX_H

#include "host/sandbox/state.h"

/* What a sandbox is made of. client and violations have to live as long as it. */
struct sandbox_of {
	struct koda_session *ses;
	struct koda_policy *policy;
	struct violations *violations;
	const struct sandbox_client *client;
	void *data;
	/* The id of the draft to work in, "" for a new one; NULL: in the project itself. */
	const char *draft;
};

/* Starts nothing yet. Returns NULL with *err set. */
struct sandbox *sandbox_new(const struct sandbox_of *of, struct koda_error *err);
/* After sandbox_forget(). */
void sandbox_free(struct sandbox *sb);
/* In a forked child: release it without touching the parent's processes. */
void sandbox_abandon(struct sandbox *sb);

#endif
