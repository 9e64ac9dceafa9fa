/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drafts that the clients of a server have made: a client decides only on its own ones and on
 * those of its children, not on whatever the user keeps. At a client's end its drafts are kept, and
 * the user gets their ids; those without changes are discarded.
 */
#ifndef KODA_MCP_SESSION_DRAFTS_H
#define KODA_MCP_SESSION_DRAFTS_H

#include "mcp/connection_state.h"

void session_drafts_add(struct connection *conn, const char *id);
/* Adds one of another root, which a client of that name has left. */
void session_drafts_add_of(struct hub *hub, const char *client, const char *id, const char *root);
/* Returns the root of a draft that the connection, or a child of it, made; NULL: it made none with
 * that id. A child's root may be a directory of the connection's. */
const char *session_drafts_root(const struct connection *conn, const char *id);
/* Forgets the draft if it is gone: applied as a whole, or discarded. Returns whether it is. */
bool session_drafts_gone(struct connection *conn, const char *id);

/* Calls fn for each draft of the connection's children, and of theirs, oldest first. child: the name
 * of the child, or "child/its child". */
typedef void session_draft_fn(void *data, const char *child, const char *id);
void session_drafts_of_children(const struct connection *conn, session_draft_fn *fn, void *data);

/* Opens a session to look at the client's drafts after its own session is closed. Returns NULL if
 * there are none, or without one. */
struct koda_session *session_drafts_reopen(const struct connection *conn);
/* Discards those of the client's drafts that have no changes, and reports the others. Takes
 * ownership of the session. */
void session_drafts_end(struct connection *conn, struct koda_session *ses);

void session_drafts_free(struct hub *hub);

#endif
