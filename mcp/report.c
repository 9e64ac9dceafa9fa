/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/report.h"

#include "mcp/child.h"
#include "mcp/commands.h"
#include "mcp/record.h"
#include "mcp/text.h"
#include "mcp/tool_table.h"

struct report {
	struct status_snapshot *snapshot;
	const struct connection *conn;
	uint64_t calls, queued;
};

static int
count(void *data, const struct koda_violation *violation)
{
	++*(uint64_t *)data;
	return 0;
}

static int
on_connection(void *data, const struct koda_connection *connection)
{
	const struct report *report = data;

	status_add_connection(report->snapshot, report->conn->name, connection);
	return 0;
}

static void
on_command(void *data, const char *text, double seconds)
{
	const struct report *report = data;

	status_add_command(report->snapshot, report->conn->name, text, seconds);
}

static void
on_client(void *data, const struct connection *conn)
{
	struct report *report = data;
	struct status_session session = {
		.name = conn->name,
		.root = conn->root,
		.mode = text_mode(conn->mode),
		.child = conn->child != NULL,
	};

	report->conn = conn;
	koda_session_stats(conn->ses, &session.stats);
	if (conn->slot != NULL) {
		int pid = koda_slot_pid(conn->slot);

		koda_slot_violations(conn->slot, count, &session.violations);
		koda_slot_connections(conn->slot, on_connection, report);
		if (pid > 0)
			status_add_worker(report->snapshot, conn->name, pid);
	}
	status_add_session(report->snapshot, &session);
	commands_tell(conn->commands, on_command, report);
	report->calls += conn->n_calls;
	report->queued += line_queued(&conn->queue);
}

void
report_fill(void *data, struct status_snapshot *snapshot)
{
	const struct server *server = data;
	struct report report = { .snapshot = snapshot };

	server_visit(server, on_client, &report);
	for (size_t i = 0; i < n_tools; i++) {
		const struct latency *latency = record_latency(server->hub.record, i);

		if (latency->calls > 0)
			status_add_tool(snapshot, tools[i].name, latency);
	}
	status_add_number(snapshot, "calls_under_way", report.calls);
	status_add_number(snapshot, "queued_bytes", report.queued);
	status_add_number(snapshot, "child_refusals", children_refusals(server->hub.children));
}
