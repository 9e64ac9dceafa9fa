/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client: two descriptors, a session and a slot of its own, its calls under way and the
 * questions put to it. Lines in, messages out; methods.c knows what a message means.
 */
#ifndef KODA_MCP_CONNECTION_H
#define KODA_MCP_CONNECTION_H

#include "mcp/connection_state.h"

struct connection_options {
	const char *name;
	int in, out;      /* the caller's */
	const char *root; /* canonical */
	/* NULL: use root. Otherwise another name of the root that keeps leading there, whatever
	 * happens to root's path. */
	const char *root_by;
	enum koda_mode mode;
	const struct koda_policy *policy; /* NULL: the default of the mode */
	bool narrowed;                    /* as in struct koda_session_options */
	bool asks_hosts;
	bool drafts; /* works in a draft, unless the mode is plan */
	bool judged; /* in auto mode: commands work in drafts, which are applied when they end */
	struct child_agent *child;
	/* With child. */
	void (*acts)(struct child_agent *child);
	void (*left)(struct child_agent *child, struct connection *conn);
	const char *helper_dir;
};
/* Creates a connection with a session; the slot is acquired when it is needed. Returns NULL with
 * *err set on failure. */
struct connection *connection_new(struct hub *hub, const struct connection_options *options,
    struct koda_error *err);
/* Ends the session and everything in it, discards the answers of the calls under way, and frees
 * conn. */
void connection_free(struct connection *conn);

/* Call it when the input has ended: answers all open questions with no. */
void connection_stop_asking(struct connection *conn);
/* Cancels all calls under way. */
void connection_cancel_all(struct connection *conn);

/* ---- in and out ---- */

bool connection_wants_input(struct connection *conn);
void connection_read(struct connection *conn);
/* Processes the lines that were read, but only a few at a time, so that other clients get their
 * turn. */
void connection_process(struct connection *conn);
bool connection_has_lines(struct connection *conn);
/* Returns true if a message that was put off still has to be answered. */
bool connection_owes(const struct connection *conn);

/* Gives up on questions that were not answered in time, and reports progress. Returns when to
 * call it again, in ms of the clock; UINT64_MAX: never. */
uint64_t connection_tick(struct connection *conn, uint64_t now_ms);

#endif
