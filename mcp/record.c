/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/record.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcp/audit.h"
#include "mcp/audit_places.h"
#include "mcp/connection_out.h"
#include "mcp/memory.h"
#include "mcp/text.h"
#include "mcp/tool.h"
#include "mcp/tool_args.h"
#include "shared/base/clock.h"

/* Commands in a loop must not fill the disk: this many lines per client at once, and then this
 * many per second. */
#define EVENTS_AT_ONCE    500
#define EVENTS_PER_SECOND 10
#define MISSED_EVERY_MS   10000 /* how often the number of omitted events is logged regardless */
/* Bytes of the command in an event: its intent has all of it. */
#define EVENT_COMMAND_MAX 120

struct audit_record {
	struct audit *audit; /* NULL: no log is kept */
	bool failing;        /* a failed write has been reported */
	const struct tool *tools;
	struct latency *latencies; /* one per tool */
};

/* The record of a call under way. */
struct recorded {
	uint64_t id; /* seq of the intent */
	uint64_t began_us;
	const char *what; /* static */
	char *path, *to, *command;
	const char *verdict, *approved;
	char rule[64];
	bool has_before, has_after, has_status;
	int status;
	uint8_t before[KODA_DIGEST_BYTES], after[KODA_DIGEST_BYTES];
};

struct audit_record *
record_new(const struct tool *tools, size_t n_tools)
{
	struct audit_record *record = memory_zero(sizeof(*record));

	record->tools = tools;
	record->latencies = memory_zero(n_tools * sizeof(*record->latencies));
	return record;
}

void
record_free(struct audit_record *record)
{
	if (record == NULL)
		return;
	audit_close(record->audit);
	free(record->latencies);
	free(record);
}

int
record_open(struct audit_record *record, const char *path, const struct connection *conn,
    struct koda_error *err)
{
	struct audit_places places;
	char command[32];
	const struct audit_action start = {
		.session = conn->name,
		.tool = "mcp",
		.path = conn->root,
		.command = command,
	};

	snprintf(command, sizeof(command), "--mode %s", text_mode(conn->mode));
	if (audit_places_find(conn->root, conn->mode, koda_session_policy(conn->ses), &places,
		err) < 0)
		return -1;
	record->audit = audit_open(path, (const char *const *)places.path, places.n, &start, err);
	audit_places_done(&places);
	return record->audit != NULL ? 0 : -1;
}

bool
record_is_kept(const struct audit_record *record)
{
	return record->audit != NULL;
}

/* ---- the beginning ---- */

/* Returns where a call wants to act, taken from the arguments that name a place; for a command
 * without one, the root. */
static const char *
path_of(const struct tool_call *call)
{
	static const char *const keys[] = { "path", "from", "subdirectory", "cwd" };
	const char *path = NULL;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && path == NULL; i++)
		path = tool_string(call, keys[i]);
	if (path == NULL && call->tool != NULL && (call->tool->flags & TOOL_RUNS) != 0)
		path = call->conn->root;
	return path;
}

/* Returns the command; for calls about neither a command nor a file, all of their arguments. The
 * caller frees it. */
static char *
command_of(const struct tool_call *call)
{
	const json_t *command = json_object_get(call->args, "command");
	const bool is_file = json_object_get(call->args, "path") != NULL ||
	    json_object_get(call->args, "from") != NULL;

	if (json_is_string(command))
		return memory_string(json_string_value(command));
	if (command == NULL && (is_file || json_object_size(call->args) == 0))
		return NULL;
	return json_dumps(command != NULL ? command : call->args, JSON_COMPACT | JSON_ENCODE_ANY);
}

static char *
copy(const char *text)
{
	return text != NULL ? memory_string(text) : NULL;
}

static struct audit_action
action_of(const struct tool_call *call)
{
	const struct recorded *r = call->recorded;

	return (struct audit_action){
		.session = call->conn->name,
		.tool = r->what,
		.path = r->path,
		.to = r->to,
		.command = r->command,
	};
}

static void
forget(struct tool_call *call)
{
	struct recorded *r = call->recorded;

	free(r->path);
	free(r->to);
	free(r->command);
	free(r);
	call->recorded = NULL;
}

int
record_begin(struct tool_call *call, const char *what, const char *path, struct koda_error *err)
{
	struct audit_record *record = call->conn->hub->record;
	struct recorded *r = memory_zero(sizeof(*r));
	struct audit_action action;

	call->recorded = r;
	r->what = what;
	r->verdict = "unknown";
	r->began_us = monotonic_us();
	if (record->audit == NULL)
		return 0;
	r->path = copy(path != NULL ? path : path_of(call));
	r->to = copy(tool_string(call, "to"));
	r->command = command_of(call);
	action = action_of(call);
	if (audit_intent(record->audit, &action, &r->id, err) == 0) {
		record->failing = false;
		return 0;
	}
	forget(call);
	return -1;
}

/* ---- the end ---- */

static void
replace(char **at, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	free(*at);
	*at = memory_string(text);
}

void
record_result(struct tool_call *call, const struct koda_result *result)
{
	struct recorded *r = call->recorded;
	/* A call that only reads has a digest of the old content, and none of a new one. */
	const bool reads = call->tool == NULL || (call->tool->flags & TOOL_READ_ONLY) != 0;

	if (r == NULL || call->conn->hub->record->audit == NULL)
		return;
	replace(&r->path, result->path);
	replace(&r->to, result->to);
	r->has_before = reads ? result->has_digest : result->has_digest_before;
	r->has_after = !reads && result->has_digest;
	if (r->has_before)
		memcpy(r->before, reads ? result->digest : result->digest_before,
		    sizeof(r->before));
	if (r->has_after)
		memcpy(r->after, result->digest, sizeof(r->after));
}

void
record_approved(struct tool_call *call, const char *how)
{
	if (call->recorded != NULL)
		call->recorded->approved = how;
}

void
record_status(struct tool_call *call, int status)
{
	if (call->recorded == NULL)
		return;
	call->recorded->has_status = true;
	call->recorded->status = status;
}

void
record_allowed(struct tool_call *call)
{
	if (call->recorded != NULL)
		call->recorded->verdict = "allowed";
}

void
record_failed(struct tool_call *call, const struct koda_error *err)
{
	struct recorded *r = call->recorded;

	if (r == NULL)
		return;
	r->verdict = "failed";
	if (err->code == KODA_POLICY_DENIED || err->code == KODA_NOT_APPROVED)
		r->verdict = "refused";
	/* The process that did it was lost while the call was under way. */
	if (err->code == KODA_UNKNOWN || err->code == KODA_WORKER || err->code == KODA_PROTOCOL)
		r->verdict = "unknown";
	snprintf(r->rule, sizeof(r->rule), "%s", err->rule);
	if (r->to == NULL)
		replace(&r->path, err->path);
}

/* Reports the failure, once until a line can be written again. If standard error is not being
 * read, it is skipped rather than waited for. */
static void
tell_lost(struct connection *conn, const struct koda_error *err, const char *what)
{
	struct pollfd pfd = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct audit_record *record = conn->hub->record;
	char text[KODA_MESSAGE_MAX + 192];

	if (record->failing)
		return;
	record->failing = true;
	snprintf(text, sizeof(text), "a line about %s could not be written to the audit log: %s",
	    what, err->message);
	if (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLOUT) != 0)
		dprintf(STDERR_FILENO, "koda-sandbox: warning: %s\n", text);
	connection_log(conn, LEVEL_ERROR, text);
}

void
record_end(struct tool_call *call)
{
	struct audit_record *record = call->conn->hub->record;
	const struct recorded *r = call->recorded;
	struct audit_action action;
	struct koda_error err;
	uint64_t us;

	if (r == NULL)
		return;
	us = monotonic_us() - r->began_us;
	if (call->tool != NULL)
		latency_add(&record->latencies[call->tool - record->tools], us);
	if (record->audit != NULL) {
		action = action_of(call);
		action.verdict = r->verdict;
		action.rule = r->rule[0] != '\0' ? r->rule : NULL;
		action.before = r->has_before ? r->before : NULL;
		action.after = r->has_after ? r->after : NULL;
		action.duration_us = us;
		action.approved = r->approved;
		action.status = r->has_status ? &r->status : NULL;
		if (audit_outcome(record->audit, r->id, &action, &err) < 0)
			tell_lost(call->conn, &err, r->what);
	}
	forget(call);
}

/* ---- what commands do ---- */

uint64_t
record_intent(const struct tool_call *call)
{
	return call->recorded != NULL ? call->recorded->id : 0;
}

void
record_command_over(struct connection *conn, const struct record_command *c)
{
	const struct audit_record *record = conn->hub->record;
	const struct audit_action action = {
		.session = conn->name,
		.tool = "run_command",
		.command = c->text,
		.verdict = c->failed != NULL ? "unknown" : "ended",
		.detail = c->failed,
		.status = c->failed != NULL ? NULL : &c->status,
		.duration_us = c->duration_us,
	};
	struct koda_error err;

	if (record->audit != NULL && audit_event(record->audit, c->intent, &action, &err) < 0)
		tell_lost(conn, &err, "a command in the background");
}

/* Logs an event of that client. */
static void
tell_event(struct connection *conn, struct audit_action *action)
{
	struct koda_error err;

	action->session = conn->name;
	if (audit_event(conn->hub->record->audit, 0, action, &err) < 0)
		tell_lost(conn, &err, "an event of a command");
}

/* Returns whether the budget has room for one more event, and takes it. */
static bool
has_room(struct event_budget *budget)
{
	const uint64_t now = monotonic_ms(),
		       back = (now - budget->at_ms) * EVENTS_PER_SECOND / 1000;

	if (back > 0) {
		budget->used -= budget->used < back ? budget->used : (unsigned)back;
		budget->at_ms = now;
	}
	if (budget->used >= EVENTS_AT_ONCE)
		return false;
	budget->used++;
	return true;
}

static void
tell_if_room(struct connection *conn, struct audit_action *action)
{
	if (has_room(&conn->events))
		tell_event(conn, action);
	else
		conn->events.missed++;
}

void
record_client(struct connection *conn, const char *verdict)
{
	struct audit_action action = { .tool = "client", .path = conn->root, .verdict = verdict };

	if (conn->hub->record->audit != NULL)
		tell_event(conn, &action);
}

void
record_draft(struct connection *conn, const char *id, const char *verdict, const char *detail)
{
	struct audit_action action = {
		.tool = "draft",
		.path = conn->root,
		.command = id,
		.verdict = verdict,
		.detail = detail,
	};

	if (conn->hub->record->audit != NULL)
		tell_event(conn, &action);
}

static const char *
unless_empty(const char *text)
{
	return text[0] != '\0' ? text : NULL;
}

static int
on_violation(void *data, const struct koda_violation *v)
{
	const bool noted = v->kind == KODA_VIOLATION_NOTE;
	const bool is_file =
	    noted || v->kind == KODA_VIOLATION_FILE_READ || v->kind == KODA_VIOLATION_FILE_WRITE;
	char command[EVENT_COMMAND_MAX + sizeof("...")];
	struct audit_action action = {
		.tool = koda_violation_kind_name(v->kind),
		.path = is_file ? unless_empty(v->target) : NULL,
		.to = is_file ? NULL : unless_empty(v->target),
		.verdict = noted ? "noted"
		    : v->certain ? "violation"
				 : "suspected",
		.rule = unless_empty(v->rule),
		.detail = unless_empty(v->detail),
	};

	snprintf(command, sizeof(command), "%.*s%s", EVENT_COMMAND_MAX, v->command,
	    strlen(v->command) > EVENT_COMMAND_MAX ? "..." : "");
	action.command = unless_empty(command);
	tell_if_room(data, &action);
	return 0;
}

static int
on_connection(void *data, const struct koda_connection *c)
{
	char to[512];
	struct audit_action action = {
		.tool = c->protocol,
		.to = to,
		.verdict = koda_connection_outcome_name(c->outcome),
		.rule = unless_empty(c->rule),
		.detail = unless_empty(c->detail),
	};

	snprintf(to, sizeof(to), "%s:%u", c->host, c->port);
	tell_if_room(data, &action);
	return 0;
}

static void
tell_missed(struct connection *conn)
{
	char detail[96];
	struct audit_action action = { .tool = "events", .verdict = "missed", .detail = detail };

	snprintf(detail, sizeof(detail), "%llu more, too many to log one by one",
	    (unsigned long long)conn->events.missed);
	conn->events.missed = 0;
	conn->events.said_ms = monotonic_ms();
	tell_event(conn, &action);
}

static void
take_news(struct connection *conn)
{
	uint64_t connections, violations;

	koda_slot_new_connections(conn->slot, &conn->seen_connections, &connections, on_connection,
	    conn);
	koda_slot_new_violations(conn->slot, &conn->seen_violations, &violations, on_violation,
	    conn);
	conn->events.missed += connections + violations;
}

void
record_news(struct connection *conn)
{
	if (conn->hub->record->audit == NULL || conn->slot == NULL)
		return;
	take_news(conn);
	if (conn->events.missed > 0 &&
	    (has_room(&conn->events) || monotonic_ms() - conn->events.said_ms > MISSED_EVERY_MS))
		tell_missed(conn);
}

static int
ignore(void *data, const struct koda_connection *c)
{
	return 1;
}

void
record_slot(struct connection *conn, struct koda_slot *slot)
{
	uint64_t seen_connections = 0, seen_violations = 0, connections, violations;

	if (conn->hub->record->audit == NULL)
		return;
	koda_slot_connections(slot, ignore, NULL); /* makes the library ask the proxy */
	koda_slot_new_connections(slot, &seen_connections, &connections, on_connection, conn);
	koda_slot_new_violations(slot, &seen_violations, &violations, on_violation, conn);
	conn->events.missed += connections + violations;
}

void
record_last_news(struct connection *conn)
{
	if (conn->hub->record->audit == NULL)
		return;
	if (conn->slot != NULL) {
		koda_slot_connections(conn->slot, ignore,
		    NULL); /* makes the library ask the proxy */
		take_news(conn);
	}
	if (conn->events.missed > 0)
		tell_missed(conn);
}

const struct latency *
record_latency(const struct audit_record *record, size_t i)
{
	return &record->latencies[i];
}
