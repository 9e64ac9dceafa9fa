/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_decide.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/memory.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"

bool
decide_paths_take(struct tool_call *call, struct decide_paths *ret)
{
	const json_t *paths = json_object_get(call->args, "paths"), *path;
	size_t i;

	*ret = (struct decide_paths){ 0 };
	ret->path = memory_zero((json_array_size(paths) + 1) * sizeof(*ret->path));
	json_array_foreach(paths, i, path)
	{
		const char *text = json_string_value(path);

		if (strlen(text) != json_string_length(path)) {
			tool_fail(call, KODA_INVALID, "paths[%zu]: contains a NUL", i);
			return false;
		}
		ret->path[ret->n++] = text;
	}
	return true;
}

void
decide_paths_done(struct decide_paths *paths)
{
	free(paths->path);
	*paths = (struct decide_paths){ 0 };
}

enum koda_take
decide_take(const struct tool_call *call)
{
	const char *take = tool_string(call, "take");

	if (take == NULL)
		return KODA_TAKE_NONE;
	return strcmp(take, "draft") == 0 ? KODA_TAKE_DRAFT
	    : strcmp(take, "merge") == 0  ? KODA_TAKE_MERGE
					  : KODA_TAKE_PROJECT;
}

bool
decide_may_change(struct tool_call *call)
{
	if (call->conn->mode != KODA_PLAN)
		return true;
	tool_fail(call, KODA_POLICY_DENIED, "plan mode changes nothing");
	return false;
}

void
decide_not_approved(struct tool_call *call, const char *what)
{
	tool_fail(call, KODA_NOT_APPROVED,
	    "nothing was %s: Safe mode asks the user before each change, and %s", what,
	    call->mute          ? "the call was cancelled"
		: call->can_ask ? "the user did not approve it"
				: "the user could not be asked");
}

void
decide_add(json_t *ret, const struct change_set *set)
{
	json_object_set_new_nocheck(ret, "changes", change_set_json(set));
	if (set->n_notes > 0)
		json_object_set_new_nocheck(ret, "notes", change_set_notes(set));
	json_object_set_new_nocheck(ret, "total", json_integer((json_int_t)set->n_all));
	json_object_set_new_nocheck(ret, "applied",
	    json_integer(set->done ? (json_int_t)set->n_outcome[KODA_APPLIED] : 0));
	json_object_set_new_nocheck(ret, "refused",
	    json_integer((json_int_t)set->n_outcome[KODA_APPLY_REFUSED]));
	json_object_set_new_nocheck(ret, "conflicts",
	    json_integer((json_int_t)set->n_outcome[KODA_APPLY_CONFLICT]));
	json_object_set_new_nocheck(ret, "unlisted", json_boolean(set->cut));
}
