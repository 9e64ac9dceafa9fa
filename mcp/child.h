/*
 * Child agents: narrower sessions in this process, each with a client of its own that comes in at the endpoint. A tree: a
 * child may open children, and ends with who opened it. What a child shares with its parent is the project, and nothing
 * else: consents, what was read, ids of commands are the connection's own.
 */
#ifndef KODA_MCP_CHILD_H
#define KODA_MCP_CHILD_H

#include "mcp/child_policy.h"
#include "mcp/endpoint.h"
#include "mcp/server.h"

/* Agents that open agents that open agents: a tree that a person can still follow. */
#define CHILD_DEPTH_MAX 3
/* Of one server: each is a sandbox of several processes. */
#define CHILDREN_MAX 16
/* CONNECTION_NAME_SIZE has room for CHILD_DEPTH_MAX of them. */
#define CHILD_NAME_MAX 32

struct child;
struct children;

/* Where children of this server come in. The runtime stays the caller's. NULL with *err set. */
struct children *children_new(struct server *server, struct runtime *rt, const char *helper_dir,
    struct koda_error *err);
/* After the server's clients have gone. NULL is fine. */
void children_free(struct children *children);

/* One for the parent's connection, and the token that its client comes with. 0, or -1 with *err set. */
int child_open(struct connection *parent, const struct child_wish *wish,
    char ret[ENDPOINT_TOKEN_SIZE], struct koda_error *err);

/* Its client wants something done: from here on its token has been used. A client that goes before that has only looked
 * what the server is, as some do, and may come again. */
void child_acts(struct child *child);

/* The connection's own child of that name, or NULL. */
struct child *child_find(const struct connection *parent, const char *name);
/* End it and all below it. closed is called once when all of it has gone, maybe before this returns. */
typedef void child_closed_fn(void *data);
void child_close(struct child *child, child_closed_fn *closed, void *data);
/* Nobody waits for that any more. */
void child_closed_unheard(struct child *child);

/* The connection's own, in no order. */
struct child_state {
	const char *name, *root;
	enum koda_mode mode;
	bool connected; /* else its token waits */
};
typedef void child_fn(void *data, const struct child_state *state);
void child_visit(const struct connection *parent, child_fn *fn, void *data);

uint64_t children_refusals(const struct children *children);

#endif
