/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child agents: narrower sessions in this process, each with its own client, which connects at the
 * endpoint. They form a tree: a child may open children, and ends with its parent. A child shares
 * only the project with its parent: consents, the record of what was read, and command ids belong
 * to each connection.
 */
#ifndef KODA_MCP_CHILD_H
#define KODA_MCP_CHILD_H

#include "mcp/child_policy.h"
#include "mcp/endpoint.h"
#include "mcp/server.h"

/* Levels of agents that open agents: a tree that a person can still follow. */
#define CHILD_DEPTH_MAX 3
/* Per server: each is a sandbox of several processes. */
#define CHILDREN_MAX 16
/* CONNECTION_NAME_SIZE has room for CHILD_DEPTH_MAX names of this length. */
#define CHILD_NAME_MAX 32

struct child_agent;
struct children;

/* Creates the place where children of this server connect. The runtime stays the caller's.
 * Returns NULL with *err set on failure. */
struct children *children_new(struct server *server, struct runtime *rt, const char *helper_dir,
    struct koda_error *err);
/* Call it after the server's clients are gone. children may be NULL. */
void children_free(struct children *children);

/* Returns the connection's own child of that name, or NULL. */
struct child_agent *child_find(const struct connection *parent, const char *name);
/* Ends the child and all its descendants. closed is called once when all of them are gone, maybe
 * before this returns. */
typedef void child_closed_fn(void *data);
void child_close(struct child_agent *child, child_closed_fn *closed, void *data);
/* Forgets the closed callback of child_close(). */
void child_closed_unheard(struct child_agent *child);

/* The connection's own children, in no particular order. */
struct child_state {
	const char *name, *root;
	enum koda_mode mode;
	enum koda_workspace workspace;
	bool connected;    /* false: its token waits for a client */
	const char *draft; /* NULL: it has changed nothing yet */
};

/* Opens a child of the parent's connection, and returns the token that its client connects with
 * in ret, and what it is in *state, which points into the child. Returns 0, or -1 with *err set. */
int child_open(struct connection *parent, const struct child_wish *wish,
    char ret[ENDPOINT_TOKEN_SIZE], struct child_state *state, struct koda_error *err);

typedef void child_fn(void *data, const struct child_state *state);
void child_visit(const struct connection *parent, child_fn *fn, void *data);

/* Does a child of this server work in that draft? */
bool child_works_in(const struct connection *conn, const char *draft);

uint64_t children_refusals(const struct children *children);

#endif
