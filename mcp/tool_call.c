/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/call.h"
#include "mcp/connection_slot.h"
#include "mcp/record.h"
#include "mcp/text.h"
#include "mcp/tool.h"
#include "mcp/tool_args.h"

static json_t *
text_content(struct text *text)
{
	return json_pack("[{s:s, s:o}]", "type", "text", "text", text_json(text));
}

void
tool_done_content(struct tool_call *call, json_t *structured, json_t *content)
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
tool_done(struct tool_call *call, json_t *structured, struct text *text)
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
usual_remedy(const struct tool_call *call, enum koda_code code)
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
tool_failed(struct tool_call *call, const struct koda_error *err, const char *remedy)
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
tool_fail(struct tool_call *call, enum koda_code code, const char *fmt, ...)
{
	struct koda_error err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.message, sizeof(err.message), fmt, ap);
	va_end(ap);
	tool_failed(call, &err, NULL);
}

bool
tool_check_paths(struct tool_call *call, const char *const *keys)
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
tool_submit(struct tool_call *call, const struct koda_op *op, koda_done_fn *done)
{
	struct koda_error err;
	struct koda_slot *slot = connection_slot(call->conn, &err);

	if (slot == NULL || koda_call_async(slot, op, done, call, &err) < 0)
		tool_failed(call, &err, NULL);
}
