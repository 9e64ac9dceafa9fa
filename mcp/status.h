/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server is doing, for `koda-sandbox top`: sends one JSON object to each connection of the
 * same user, then closes it. It costs nothing while no client looks, and a client that does not
 * read is cut off.
 */
#ifndef KODA_MCP_STATUS_H
#define KODA_MCP_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mcp/latency.h"
#include "mcp/runtime.h"

/* Rows per list; further ones are counted in "left_out". A person reads no more of them, and a
 * snapshot stays below STATUS_BYTES_MAX. */
#define STATUS_ROWS_MAX 64
/* Bytes per text. */
#define STATUS_TEXT_MAX 256
/* More than 5 lists of 64 rows of at most 4 texts, each byte of which needs six. */
#define STATUS_BYTES_MAX (2u << 20)
/* Clients at once: a person has a terminal or two. */
#define STATUS_CLIENTS_MAX  8
#define STATUS_READ_SECONDS 2

struct status;
struct status_snapshot;

/* Fills the snapshot with the calls below; each copies what it is given. */
typedef void status_fill_fn(void *data, struct status_snapshot *snapshot);

/* Creates the status socket. The runtime stays the caller's, and must outlive it. Returns NULL
 * with *err set on failure. */
struct status *status_new(struct runtime *rt, status_fill_fn *fill, void *data,
    struct koda_error *err);
void status_free(struct status *status);

/* status_fd() returns one descriptor for any loop: it is readable when status_dispatch() has
 * something to do. status_dispatch() never blocks. */
int status_fd(const struct status *status);
void status_dispatch(struct status *status);

struct status_session {
	const char *name, *root, *mode;
	bool child;
	struct koda_stats stats;
	uint64_t violations;
};
void status_add_session(struct status_snapshot *snapshot, const struct status_session *session);
/* The worker's memory is read from /proc. */
void status_add_worker(struct status_snapshot *snapshot, const char *session, pid_t pid);
void status_add_command(struct status_snapshot *snapshot, const char *session, const char *line,
    double seconds);
void status_add_connection(struct status_snapshot *snapshot, const char *session,
    const struct koda_connection *connection);
void status_add_tool(struct status_snapshot *snapshot, const char *name,
    const struct latency *latency);
/* Adds a number by its name: "child_refusals", "audit_lines". */
void status_add_number(struct status_snapshot *snapshot, const char *name, uint64_t value);

/* Returns what a client would get now, to be freed with free(); NULL: out of memory. */
char *status_print(status_fill_fn *fill, void *data);

#endif
