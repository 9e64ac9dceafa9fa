/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_args.h"

const char *
tool_string(const struct tool_call *call, const char *key)
{
	return json_string_value(json_object_get(call->args, key));
}

bool
tool_bool(const struct tool_call *call, const char *key)
{
	return json_is_true(json_object_get(call->args, key));
}

uint64_t
tool_number(const struct tool_call *call, const char *key, uint64_t otherwise)
{
	const json_t *value = json_object_get(call->args, key);

	return value != NULL ? (uint64_t)json_integer_value(value) : otherwise;
}
