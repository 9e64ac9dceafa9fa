/* SPDX-License-Identifier: Apache-2.0 */
/* A client's slot in its session, which is acquired when the first call needs it. */
#ifndef KODA_MCP_CONNECTION_SLOT_H
#define KODA_MCP_CONNECTION_SLOT_H

#include "mcp/connection_state.h"

/* Returns the slot, after acquiring one if there is none; NULL with *err set on failure. While it
 * waits for one, the server serves everything else (hub->wait). */
struct koda_slot *connection_slot(struct connection *conn, struct koda_error *err);
/* Marks the slot as failed for good: a later call gets a new one. */
void connection_lost_slot(struct connection *conn);
/* Returns true if the connection has no usable slot yet and has to wait: until its own is acquired,
 * or until another connection has acquired one. */
bool connection_waits(const struct connection *conn);
/* Returns true if messages that need the slot have to wait: as above, or because a call has the
 * session for itself (review.h). */
bool connection_is_held(const struct connection *conn);

/* The koda_wait_fn of a connection's sessions, whose data it is. */
int connection_wait(void *data, struct pollfd *fds, size_t n, int timeout_ms);
/* Opens another session of the connection, without commands, in a directory of its root. Returns NULL
 * with *err set. */
struct koda_session *connection_session_at(struct connection *conn, const char *root,
    struct koda_error *err);

#endif
