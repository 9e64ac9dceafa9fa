#include "mcp/tools.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/schema.h"
#include "mcp/text.h"

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
	if (tool->flags & (TOOL_MUTATES | TOOL_RUNS) && conn->mode == KODA_SAFE)
		text_printf(&t, " The user is asked first.");
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
	struct call *call;
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

static json_t *
text_content(struct text *text)
{
	return json_pack("[{s:s, s:o}]", "type", "text", "text", text_json(text));
}

void
tool_done_content(struct call *call, json_t *structured, json_t *content)
{
	json_t *result = json_object();

	record_allowed(call);
	json_object_set_new_nocheck(result, "content", content);
	if (call->conn->version->structured)
		json_object_set_new_nocheck(result, "structuredContent", structured);
	else
		json_decref(structured);
	call_answer(call, result);
}

void
tool_done(struct call *call, json_t *structured, struct text *text)
{
	struct text own = { 0 };

	if (text == NULL) {
		char *line = json_dumps(structured, JSON_COMPACT);

		text_add(&own, line, strlen(line));
		free(line);
		text = &own;
	}
	tool_done_content(call, structured, text_content(text));
}

static const char *
usual_remedy(const struct call *call, enum koda_code code)
{
	switch (code) {
	case KODA_POLICY_DENIED:
		return call->conn->mode == KODA_PLAN
		    ? "Only the user can start the server in another mode."
		    : "Do not try another way around it; tell the user if it is needed.";
	case KODA_CONFLICT:
		/* There is nothing to read again if it is not a file. */
		return tool_string(call, "path") != NULL ? "Read the file again." : NULL;
	case KODA_UNKNOWN:
		return "Check what is there now.";
	case KODA_NOT_APPROVED:
		return call->can_ask
		    ? "Ask the user what to do instead."
		    : "This client cannot ask the user (it has no elicitation): only the user can allow it, with a client that can ask, or by starting the server with --mode auto.";
	case KODA_UNSUPPORTED:
		return "'koda-sandbox doctor' shows what is missing.";
	case KODA_OK:
	case KODA_INVALID:
	case KODA_IO:
	case KODA_TOO_LARGE:
	case KODA_TIMEOUT:
	case KODA_WORKER:
	case KODA_PROTOCOL:
	case KODA_INTERNAL:
		break;
	}
	return NULL;
}

void
tool_failed(struct call *call, const struct koda_error *err, const char *remedy)
{
	json_t *result = json_object(), *about = json_object(), *meta = json_object();
	struct text t = { 0 };

	record_failed(call, err);
	remedy = remedy != NULL ? remedy : usual_remedy(call, err->code);
	text_add(&t, err->message, strlen(err->message));
	if (remedy != NULL)
		text_printf(&t, ". %s", remedy);
	json_object_set_new_nocheck(about, "code", json_string_nocheck(koda_code_name(err->code)));
	if (err->rule[0] != '\0')
		json_object_set_new_nocheck(about, "rule", text_json_string(err->rule));
	if (err->path[0] != '\0')
		json_object_set_new_nocheck(about, "path", text_json_string(err->path));
	json_object_set_new_nocheck(meta, "koda-sandbox/error", about);
	json_object_set_new_nocheck(result, "content", text_content(&t));
	json_object_set_new_nocheck(result, "isError", json_true());
	json_object_set_new_nocheck(result, "_meta", meta);
	/* A slot that failed for good is not used again: a later call gets a new one. */
	if (err->code == KODA_WORKER && (call->tool->flags & TOOL_APART) == 0)
		connection_lost_slot(call->conn);
	call_answer(call, result);
}

void
tool_fail(struct call *call, enum koda_code code, const char *fmt, ...)
{
	struct koda_error err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.message, sizeof(err.message), fmt, ap);
	va_end(ap);
	tool_failed(call, &err, NULL);
}

const char *
tool_string(const struct call *call, const char *key)
{
	return json_string_value(json_object_get(call->args, key));
}

bool
tool_bool(const struct call *call, const char *key)
{
	return json_is_true(json_object_get(call->args, key));
}

uint64_t
tool_number(const struct call *call, const char *key, uint64_t otherwise)
{
	const json_t *value = json_object_get(call->args, key);

	return value != NULL ? (uint64_t)json_integer_value(value) : otherwise;
}

bool
tool_check_paths(struct call *call, const char *const *keys)
{
	for (; *keys != NULL; keys++) {
		const json_t *value = json_object_get(call->args, *keys);

		if (value == NULL || strlen(json_string_value(value)) == json_string_length(value))
			continue;
		tool_fail(call, KODA_INVALID, "%s: contains a NUL", *keys);
		return false;
	}
	return true;
}

void
tool_submit(struct call *call, const struct koda_op *op, koda_done_fn *done)
{
	struct koda_error err;
	struct koda_slot *slot = connection_slot(call->conn, &err);

	if (slot == NULL || koda_call_async(slot, op, done, call, &err) < 0)
		tool_failed(call, &err, NULL);
}
