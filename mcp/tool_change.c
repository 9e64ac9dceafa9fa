/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/approval.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/remember.h"
#include "mcp/server.h"
#include "mcp/text.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"

struct change {
	struct koda_op op; /* points into the call's arguments and this struct */
	struct koda_edit *edits;
	uint8_t guard[KODA_DIGEST_BYTES];
	bool guard_asked; /* the guard is the caller's own, not the remembered digest */
};

static void
free_change(void *state)
{
	struct change *change = state;

	free(change->edits);
	free(change);
}

static struct change *
change_new(struct tool_call *call, enum koda_op_kind kind, unsigned flags)
{
	struct change *change = memory_zero(sizeof(*change));

	change->op.kind = kind;
	change->op.flags = flags;
	change->op.path = tool_string(call, kind == KODA_OP_RENAME ? "from" : "path");
	call->state = change;
	call->free_state = free_change;
	return change;
}

/* Returns false if the call has failed. */
static bool
take_guard(struct tool_call *call, struct change *change)
{
	const char *digest = tool_string(call, "if_digest");

	if (digest == NULL)
		return true;
	if (!text_parse_digest(digest, change->guard)) {
		tool_fail(call, KODA_INVALID,
		    "if_digest: is not 64 hexadecimal digits, as read_file returns them");
		return false;
	}
	change->op.if_digest = change->guard;
	change->guard_asked = true;
	return true;
}

static void
remember_guard(struct change *change, const uint8_t *digest)
{
	if (digest == NULL)
		return;
	memcpy(change->guard, digest, sizeof(change->guard));
	change->op.if_digest = change->guard;
}

/* ---- the end ---- */

static void
add_recovered(json_t *ret, const struct koda_result *result)
{
	if (result->recovered)
		json_object_set_new_nocheck(ret, "recovered", json_true());
}

static void
tell_content(struct tool_call *call, const struct koda_result *result)
{
	const struct change *change = call->state;
	const bool edit = change->op.kind == KODA_OP_EDIT;
	char digest[TEXT_DIGEST_SIZE];
	json_t *ret = json_object();
	struct text t = { 0 };

	json_object_set_new_nocheck(ret, "path", text_json_string(result->path));
	json_object_set_new_nocheck(ret, "created", json_boolean(result->created));
	json_object_set_new_nocheck(ret, "size", json_integer((json_int_t)result->size));
	if (result->has_digest) {
		text_digest(digest, result->digest);
		json_object_set_new_nocheck(ret, "digest", json_string_nocheck(digest));
		remember_seen(call->conn->remembered, change->op.path, result->path,
		    result->digest);
	} else {
		remember_forget(call->conn->remembered, result->path);
	}
	if (edit)
		json_object_set_new_nocheck(ret, "replacements",
		    json_integer((json_int_t)result->replacements));
	add_recovered(ret, result);
	text_printf(&t, "%s ", edit ? "edited" : result->created ? "created" : "wrote");
	text_show_string(&t, result->path);
	if (edit)
		text_printf(&t, ": %llu replacement%s", (unsigned long long)result->replacements,
		    result->replacements == 1 ? "" : "s");
	text_printf(&t, ", now %llu byte%s", (unsigned long long)result->size,
	    result->size == 1 ? "" : "s");
	tool_done(call, ret, &t);
}

static void
tell_move(struct tool_call *call, const struct koda_result *result)
{
	json_t *ret = json_object();
	struct text t = { 0 };

	remember_forget(call->conn->remembered, result->path);
	remember_forget(call->conn->remembered, result->to);
	json_object_set_new_nocheck(ret, "path", text_json_string(result->path));
	json_object_set_new_nocheck(ret, "to", text_json_string(result->to));
	json_object_set_new_nocheck(ret, "type", json_string_nocheck(text_file_type(result->type)));
	add_recovered(ret, result);
	text_printf(&t, "moved ");
	text_show_string(&t, result->path);
	text_printf(&t, " to ");
	text_show_string(&t, result->to);
	tool_done(call, ret, &t);
}

static void
tell_removal(struct tool_call *call, const struct koda_result *result)
{
	json_t *ret = json_object();
	struct text t = { 0 };

	remember_forget(call->conn->remembered, result->path);
	json_object_set_new_nocheck(ret, "path", text_json_string(result->path));
	json_object_set_new_nocheck(ret, "type", json_string_nocheck(text_file_type(result->type)));
	json_object_set_new_nocheck(ret, "removed", json_integer((json_int_t)result->removed));
	add_recovered(ret, result);
	text_printf(&t, "removed ");
	text_show_string(&t, result->path);
	if (result->type == KODA_FILE_DIRECTORY)
		text_printf(&t, ", %llu name%s", (unsigned long long)result->removed,
		    result->removed == 1 ? "" : "s");
	tool_done(call, ret, &t);
}

static void on_changed(void *data, const struct koda_result *result, const struct koda_error *err);

/* Tries again if the client itself has changed the file meanwhile by another call: then that
 * content is what it has last seen. */
static bool
go_on_from_own(struct tool_call *call, struct change *change, const struct koda_error *err)
{
	const uint8_t *now;

	if (err->code != KODA_CONFLICT || change->guard_asked || change->op.if_digest == NULL ||
	    call->mute)
		return false;
	now = remember_find(call->conn->remembered, err->path);
	if (now == NULL || memcmp(now, change->guard, sizeof(change->guard)) == 0)
		return false;
	remember_guard(change, now);
	approval_submit(call, &change->op, on_changed);
	return true;
}

static const char *
remedy_of(const struct change *change, const struct koda_error *err)
{
	if (err->code == KODA_IO && err->errnum == ENOTEMPTY && change->op.kind == KODA_OP_REMOVE)
		return "Set recursive to remove everything below it.";
	if (err->code == KODA_CONFLICT && err->errnum == EEXIST &&
	    change->op.kind == KODA_OP_RENAME)
		return "Set overwrite to replace what is there.";
	if (err->code != KODA_CONFLICT)
		return NULL;
	/* If old occurs several times, a changed file is the least likely reason. */
	if (strcmp(err->rule, "old_repeated") == 0)
		return "Make old longer so that it occurs once, or set all.";
	if (strcmp(err->rule, "old_missing") == 0)
		return "Read the file again: old must be in it exactly, with its spaces and line ends.";
	return change->op.if_digest != NULL && !change->guard_asked
	    ? "It may have changed since you read it: read it again."
	    : NULL;
}

static void
on_changed(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct change *change = call->state;

	if (err != NULL && go_on_from_own(call, change, err))
		return;
	if (err != NULL) {
		tool_failed(call, err, remedy_of(change, err));
		return;
	}
	record_result(call, result);
	if (change->op.kind == KODA_OP_RENAME)
		tell_move(call, result);
	else if (change->op.kind == KODA_OP_REMOVE)
		tell_removal(call, result);
	else
		tell_content(call, result);
}

/* ---- the beginning ---- */

static void
on_before(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct change *change = call->state;

	/* Guards the change with this digest, so that the log's "before" is what was replaced,
	 * or nothing is replaced. */
	if (err == NULL && result->has_digest)
		remember_guard(change, result->digest);
	approval_submit(call, &change->op, on_changed);
}

/* The audit log has the digest from before the change: an edit returns it anyway, and a guarded
 * change has it already. */
static void
submit(struct tool_call *call, struct change *change)
{
	const struct koda_op look = {
		.kind = KODA_OP_STAT,
		.flags = KODA_DIGEST,
		.path = change->op.path,
	};
	const bool says = change->op.if_digest != NULL || change->op.if_absent ||
	    change->op.kind == KODA_OP_EDIT || change->op.kind == KODA_OP_RENAME;

	if (!says && record_is_kept(call->conn->hub->record))
		tool_submit(call, &look, on_before);
	else
		approval_submit(call, &change->op, on_changed);
}

static void
on_place(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct change *change = call->state;

	/* The change itself reports best what is wrong with the path. */
	if (err == NULL)
		remember_guard(change, remember_find(call->conn->remembered, result->path));
	submit(call, change);
}

/* A file that was read is changed only if it is still as it was read. It may have been read by
 * another name. */
static void
guard_and_submit(struct tool_call *call, struct change *change)
{
	const struct koda_op where = {
		.kind = KODA_OP_EXPLAIN,
		.path = change->op.path,
		.access = KODA_WRITE_ACCESS,
	};
	const struct remembered *r = call->conn->remembered;

	if (change->op.if_digest == NULL && !change->op.if_absent) {
		remember_guard(change, remember_find_asked(r, change->op.path));
		if (change->op.if_digest == NULL && !remember_is_empty(r)) {
			tool_submit(call, &where, on_place);
			return;
		}
	}
	submit(call, change);
}

void
tool_write_file(struct tool_call *call)
{
	const json_t *content = json_object_get(call->args, "content");
	struct change *change = change_new(call, KODA_OP_WRITE, KODA_DIGEST);

	if (!tool_check_paths(call, (const char *const[]){ "path", "if_digest", NULL }) ||
	    !take_guard(call, change))
		return;
	change->op.data = json_string_value(content);
	change->op.len = json_string_length(content);
	change->op.if_absent = tool_bool(call, "if_absent");
	guard_and_submit(call, change);
}

void
tool_edit_file(struct tool_call *call)
{
	const json_t *edits = json_object_get(call->args, "edits"), *edit;
	struct change *change = change_new(call, KODA_OP_EDIT, KODA_DIGEST);
	size_t i;

	if (!tool_check_paths(call, (const char *const[]){ "path", "if_digest", NULL }) ||
	    !take_guard(call, change))
		return;
	change->edits = memory_zero(json_array_size(edits) * sizeof(*change->edits));
	json_array_foreach(edits, i, edit)
	{
		const json_t *old = json_object_get(edit, "old"),
			     *new = json_object_get(edit, "new");

		change->edits[i] = (struct koda_edit){
			.old_text = json_string_value(old),
			.old_len = json_string_length(old),
			.new_text = json_string_value(new),
			.new_len = json_string_length(new),
			.all = json_is_true(json_object_get(edit, "all")),
		};
	}
	change->op.edits = change->edits;
	change->op.n_edits = json_array_size(edits);
	guard_and_submit(call, change);
}

void
tool_move(struct tool_call *call)
{
	struct change *change =
	    change_new(call, KODA_OP_RENAME, tool_bool(call, "overwrite") ? KODA_OVERWRITE : 0);

	change->op.to = tool_string(call, "to");
	if (tool_check_paths(call, (const char *const[]){ "from", "to", NULL }))
		submit(call, change);
}

void
tool_remove(struct tool_call *call)
{
	struct change *change =
	    change_new(call, KODA_OP_REMOVE, tool_bool(call, "recursive") ? KODA_RECURSIVE : 0);

	if (tool_check_paths(call, (const char *const[]){ "path", "if_digest", NULL }) &&
	    take_guard(call, change))
		submit(call, change);
}
