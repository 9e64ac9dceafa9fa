/*
 * What a server is doing, for `koda-sandbox top`: one JSON object to whoever of the same user connects, then the end. It
 * costs nothing while nobody looks, and who looks and does not read is cut off.
 */
#ifndef KODA_MCP_STATUS_H
#define KODA_MCP_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mcp/latency.h"
#include "mcp/runtime.h"

/* Of each list; what is more is counted in "left_out". A person sees no more of them, and a snapshot stays below
 * STATUS_BYTES_MAX. */
#define STATUS_ROWS_MAX 64
/* Of each text, in bytes. */
#define STATUS_TEXT_MAX 256
/* Above 5 lists of 64 rows of at most 4 texts, each byte of which needs six. */
#define STATUS_BYTES_MAX (2u << 20)
/* Who looks at once: a person has a terminal or two. */
#define STATUS_CLIENTS_MAX  8
#define STATUS_READ_SECONDS 2

struct status;
struct status_snapshot;

/* Fill the snapshot by the calls below; each copies what it is given. */
typedef void status_fill_fn(void *data, struct status_snapshot *snapshot);

/* The runtime stays the caller's, and outlives it. NULL with *err set. */
struct status *status_new(struct runtime *rt, status_fill_fn *fill, void *data,
    struct koda_error *err);
void status_free(struct status *status);

/* One descriptor for any loop: readable when status_dispatch() has something to do, which never blocks. */
int status_fd(const struct status *status);
void status_dispatch(struct status *status);

struct status_session {
	const char *name, *root, *mode;
	bool child;
	struct koda_stats stats;
	uint64_t violations;
};
void status_add_session(struct status_snapshot *snapshot, const struct status_session *session);
/* How much memory it has is read from /proc. */
void status_add_worker(struct status_snapshot *snapshot, const char *session, pid_t pid);
void status_add_command(struct status_snapshot *snapshot, const char *session, const char *line,
    double seconds);
void status_add_connection(struct status_snapshot *snapshot, const char *session,
    const struct koda_connection *connection);
void status_add_tool(struct status_snapshot *snapshot, const char *name,
    const struct latency *latency);
/* A number by its name: "child_refusals", "audit_lines". */
void status_add_number(struct status_snapshot *snapshot, const char *name, uint64_t value);

/* What a client would get, now; free() it. NULL: out of memory. */
char *status_print(status_fill_fn *fill, void *data);

#endif
