/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of what was done: two lines of the audit log for each call, and how long it took. A
 * server has one record for all of its sessions. It hooks into the places where calls begin and
 * end, so that every tool is logged without knowing of it; a tool may add where the call really
 * landed.
 */
#ifndef KODA_MCP_RECORD_H
#define KODA_MCP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"
#include "mcp/latency.h"

struct tool_call;
struct connection;
struct audit_record;
struct tool;

/* tools: the table, whose calls are timed; it must outlive the record. */
struct audit_record *record_new(const struct tool *tools, size_t n_tools);
/* Closes the log. record may be NULL. */
void record_free(struct audit_record *record);

/* Opens the log: from here on nothing is done without a line in the log first. Returns -1 with
 * *err set: for example, the file must not be below a place that the session may write. */
int record_open(struct audit_record *record, const char *path, const struct connection *conn,
    struct koda_error *err);

/* Returns whether a log is kept. If so, reading a file for the digest that the log would have is
 * worth it. */
bool record_is_kept(const struct audit_record *record);

/*
 * Call it before the call does anything. what is the name of the tool or the method, and must be
 * static. path NULL: take the path from the call's arguments. Returns -1 with *err set: then the
 * call must not be done.
 */
int record_begin(struct tool_call *call, const char *what, const char *path,
    struct koda_error *err);
/* Adds what the library returned: where the call landed, and the digests. */
void record_result(struct tool_call *call, const struct koda_result *result);
/* Adds how the user approved the call: "once", "session", or "kept" if an earlier answer covers
 * it. how must be static. */
void record_approved(struct tool_call *call, const char *how);
/* Adds the status of its command. */
void record_status(struct tool_call *call, int status);
/* Add the outcome; the last call counts. Without either, the outcome is logged as unknown. */
void record_allowed(struct tool_call *call);
void record_failed(struct tool_call *call, const struct koda_error *err);
/* Logs the outcome and ends the record of the call. */
void record_end(struct tool_call *call);

/* Returns the seq of the call's intent, 0 without a log: for events that follow after the call
 * has ended. */
uint64_t record_intent(const struct tool_call *call);
/* Logs that a background command has ended. */
struct record_command {
	uint64_t intent; /* of the call that began it */
	const char *text;
	const char *failed; /* why there is no status; NULL: there is one */
	int status;
	uint64_t duration_us;
};
void record_command_over(struct connection *conn, const struct record_command *c);
/* Logs that a child's client has come or left. verdict must be static. */
void record_client(struct connection *conn, const char *verdict);
/* Logs all that happened in a slot of the client that is not its own one, and is about to end. */
void record_slot(struct connection *conn, struct koda_slot *slot);
/* Logs what became of a draft of the client: "kept" or "discarded", which must be static. */
void record_draft(struct connection *conn, const char *id, const char *verdict, const char *detail);
/* Logs what the client's commands reached, and what they were refused, since the last time. */
void record_news(struct connection *conn);
/* Like record_news(), for the last time: also asks the proxy for what it has not reported yet,
 * and logs the number of events that were left out. */
void record_last_news(struct connection *conn);

/* Returns the latencies of tools[i]. */
const struct latency *record_latency(const struct audit_record *record, size_t i);

#endif
