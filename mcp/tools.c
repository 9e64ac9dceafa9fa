/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/approval.h"
#include "mcp/ask.h"
#include "mcp/call.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/schema.h"
#include "mcp/text.h"
#include "mcp/tool_call.h"

/* Tools per page of tools/list: as many as most clients take at once, but a limit. */
#define PAGE 32

static struct {
	json_t *input, *output;
} * schemas; /* one per row */

static const json_t *
parse(const char *text)
{
	json_error_t err;
	json_t *schema = json_loads(text, JSON_REJECT_DUPLICATES, &err);

	if (schema == NULL) {
		fprintf(stderr, "koda-sandbox: a schema of ours: %s: %s\n", err.text, text);
		abort();
	}
	return schema;
}

/* Called when the first client needs the schemas: earlier they would only make the start slower. */
static void
load_schemas(void)
{
	if (schemas != NULL)
		return;
	schemas = memory_zero(n_tools * sizeof(*schemas));
	for (size_t i = 0; i < n_tools; i++) {
		schemas[i].input = (json_t *)parse(tools[i].input);
		schemas[i].output = (json_t *)parse(tools[i].output);
	}
}

const json_t *
tools_input(size_t i)
{
	load_schemas();
	return schemas[i].input;
}

const json_t *
tools_output(size_t i)
{
	load_schemas();
	return schemas[i].output;
}

/* ---- the list ---- */

static json_t *
describe(const struct connection *conn, const struct tool *tool)
{
	struct text t = { 0 };
	const bool mutates = tool->flags & TOOL_MUTATES;

	if (mutates && conn->mode == KODA_PLAN)
		text_printf(&t, "Unavailable in plan mode, where nothing is changed. ");
	text_printf(&t, "%s", tool->description);
	if (tool->flags & TOOL_RUNS && conn->mode == KODA_PLAN)
		text_printf(&t, " In plan mode it can read, but change nothing and reach no host.");
	if (tool->flags & TOOL_RUNS && approval_is_of_effects(conn))
		text_printf(&t,
		    " The user is shown what it changed, and it is applied or discarded; in the background, the user is asked first.");
	else if (tool->flags & (TOOL_MUTATES | TOOL_RUNS) && conn->mode == KODA_SAFE)
		text_printf(&t, " The user is asked first.");
	if (tool->flags & TOOL_RUNS && conn->judged)
		text_printf(&t,
		    " What it changed is applied to the project when it ends, as far as the policy allows; in the background, at once.");
	return text_json(&t);
}

static json_t *
annotate(const struct tool *tool)
{
	return json_pack("{s:s, s:b, s:b, s:b, s:b}", "title", tool->title, "readOnlyHint",
	    (tool->flags & TOOL_READ_ONLY) != 0, "destructiveHint",
	    (tool->flags & TOOL_DESTRUCTIVE) != 0, "idempotentHint",
	    (tool->flags & TOOL_IDEMPOTENT) != 0, "openWorldHint",
	    (tool->flags & TOOL_OPEN_WORLD) != 0);
}

static json_t *
list_one(const struct connection *conn, size_t i)
{
	const struct tool *tool = &tools[i];
	json_t *ret = json_object();

	json_object_set_new_nocheck(ret, "name", json_string_nocheck(tool->name));
	json_object_set_new_nocheck(ret, "description", describe(conn, tool));
	json_object_set_new_nocheck(ret, "inputSchema", json_incref((json_t *)tools_input(i)));
	if (conn->version->structured) {
		json_object_set_new_nocheck(ret, "title", json_string_nocheck(tool->title));
		json_object_set_new_nocheck(ret, "outputSchema",
		    json_incref((json_t *)tools_output(i)));
	}
	if (conn->version->annotations)
		json_object_set_new_nocheck(ret, "annotations", annotate(tool));
	if (conn->mode == KODA_PLAN && tool->flags & TOOL_MUTATES)
		json_object_set_new_nocheck(ret, "_meta",
		    json_pack("{s:b}", "koda-sandbox/available", 0));
	return ret;
}

json_t *
tools_list(struct connection *conn, const json_t *cursor, const char **why)
{
	json_t *list, *ret;
	size_t from = 0;
	char next[24];

	/* A cursor is the name of the first tool of its page, so it stays valid when the table
	 * grows. */
	if (cursor != NULL) {
		const char *name = json_string_value(cursor);

		while (from < n_tools && (name == NULL || strcmp(tools[from].name, name) != 0))
			from++;
		if (from == n_tools) {
			*why = "cursor is not one that a list returned";
			return NULL;
		}
	}
	list = json_array();
	for (size_t i = from; i < n_tools && i < from + PAGE; i++)
		json_array_append_new(list, list_one(conn, i));
	ret = json_object();
	json_object_set_new_nocheck(ret, "tools", list);
	if (from + PAGE < n_tools) {
		snprintf(next, sizeof(next), "%s", tools[from + PAGE].name);
		json_object_set_new_nocheck(ret, "nextCursor", json_string_nocheck(next));
	}
	return ret;
}

/* ---- calls ---- */

/* Returns roughly how many bytes a value holds: only its strings can be large. */
static size_t
bytes_of(const json_t *value)
{
	size_t ret = json_string_length(value), i;
	const char *key;
	json_t *member;

	json_array_foreach(value, i, member)
	{
		ret += bytes_of(member);
	}
	json_object_foreach((json_t *)value, key, member)
	{
		ret += bytes_of(member);
	}
	return ret;
}

const char *
tools_call(struct connection *conn, struct batch *batch, const struct rpc *rpc)
{
	const json_t *name = json_object_get(rpc->params, "name");
	json_t *args = json_object_get(rpc->params, "arguments");
	static char why[SCHEMA_WHY_MAX + 32];
	struct koda_error err;
	struct tool_call *call;
	size_t i = 0;

	if (!json_is_string(name))
		return "name is not a string";
	while (i < n_tools && strcmp(tools[i].name, json_string_value(name)) != 0)
		i++;
	if (i == n_tools)
		return "there is no such tool";
	if (args != NULL && !json_is_object(args))
		return "arguments is not an object";
	args = args != NULL ? json_incref(args) : json_object();
	if (!schema_holds(tools_input(i), args, why) && !conn->version->arguments_told) {
		json_decref(args);
		return why;
	}
	if (conn->version->rounds && json_object_get(rpc->params, "requestState") != NULL) {
		const char *wrong = connection_called_again(conn, rpc, &tools[i], args);

		json_decref(args);
		return wrong;
	}
	call = call_new(conn, batch, rpc->id, rpc->params, tools[i].owed);
	call->tool = &tools[i];
	call->args = args;
	call->held = bytes_of(args);
	conn->held += call->held;
	if (why[0] != '\0')
		tool_fail(call, KODA_INVALID, "%s", why);
	else if (conn->n_calls > CONNECTION_CALLS_MAX)
		tool_fail(call, KODA_INTERNAL,
		    "%d calls are under way, which is the maximum: wait for one of them",
		    CONNECTION_CALLS_MAX);
	else if (conn->held > CONNECTION_HELD_BYTES)
		tool_fail(call, KODA_TOO_LARGE,
		    "the arguments of the calls under way have more than %u bytes: wait for one of them",
		    CONNECTION_HELD_BYTES);
	else if (record_begin(call, tools[i].name, NULL, &err) < 0)
		tool_failed(call, &err, "Nothing is done that cannot be logged in the audit log.");
	else
		tools[i].run(call);
	return NULL;
}
