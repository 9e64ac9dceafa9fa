/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/form.h"

#include <string.h>

#include "mcp/text.h"
#include "show/question.h"

json_t *
form_new(enum koda_op_kind kind, const char *covers, size_t covers_len, bool effects)
{
	const bool longer = covers != NULL || kind == KODA_OP_CONNECT;
	json_t *values = json_pack("[s]", "once"), *names = json_pack("[s]", "This once");
	struct text t = { 0 };

	if (longer) {
		if (effects)
			text_printf(&t,
			    "This session: what exactly this command does, until something else changes a file below the root");
		else
			question_show_session(kind, covers, covers_len, text_put, &t);
		json_array_append_new(values, json_string_nocheck("session"));
		json_array_append_new(names, text_json(&t));
	}
	return json_pack("{s:s, s:{s:{s:s, s:s, s:o, s:o, s:s}}}", "type", "object", "properties",
	    "scope", "type", "string", "title", "Allow", "enum", values, "enumNames", names,
	    "default", "once");
}

enum koda_scope
form_scope(const json_t *result)
{
	const json_t *action = json_object_get(result, "action"),
		     *content = json_object_get(result, "content"),
		     *scope = json_object_get(content, "scope");

	if (!json_is_string(action) || strcmp(json_string_value(action), "accept") != 0 ||
	    (content != NULL && !json_is_object(content)))
		return KODA_SCOPE_NO;
	if (scope == NULL)
		return KODA_SCOPE_ONCE;
	if (!json_is_string(scope))
		return KODA_SCOPE_NO;
	if (strcmp(json_string_value(scope), "session") == 0)
		return KODA_SCOPE_SESSION;
	return strcmp(json_string_value(scope), "once") == 0 ? KODA_SCOPE_ONCE : KODA_SCOPE_NO;
}
