/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_command.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/approval.h"
#include "mcp/command_draft.h"
#include "mcp/commands.h"
#include "mcp/connection_slot.h"
#include "mcp/memory.h"
#include "mcp/printed.h"
#include "mcp/record.h"
#include "mcp/text.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"
#include "shared/base/clock.h"
#include "show/told.h"

/* The largest number of seconds whose milliseconds fit. The library has a tighter limit for
 * commands that are waited for, and the policy may have one. */
#define TIMEOUT_SECS_MAX (UINT_MAX / 1000)
/* With its NUL, the longest argument of a program that the kernel accepts (MAX_ARG_STRLEN, with
 * pages of 4 KiB). */
#define COMMAND_TEXT_MAX ((128u << 10) - 1)
/* Bytes of a command in a list or a sentence: enough to recognise it. */
#define SHOWN_MAX 200

static void
free_run(void *state)
{
	struct command_run *run = state;

	command_draft_free(run->draft);
	free(run->cwd);
	free(run);
}

/* ---- results ---- */

static void
show_command(struct text *t, const char *command)
{
	size_t len = strlen(command);

	text_show(t, command, len < SHOWN_MAX ? len : SHOWN_MAX, false);
	if (len > SHOWN_MAX)
		text_printf(t, "...");
}

static uint64_t
duration_ms(const struct command *c)
{
	if (c->over && !c->failed)
		return c->result.wall_us / 1000;
	return (c->over ? c->ended_ms : monotonic_ms()) - c->began_ms;
}

static json_t *
violations_json(const struct koda_command_result *r)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < r->n_violations; i++) {
		const struct koda_violation *v = &r->violations[i];
		json_t *one = json_object();

		json_object_set_new_nocheck(one, "kind",
		    json_string_nocheck(koda_violation_kind_name(v->kind)));
		json_object_set_new_nocheck(one, "target", text_json_string(v->target));
		json_object_set_new_nocheck(one, "rule", text_json_string(v->rule));
		json_object_set_new_nocheck(one, "detail", text_json_string(v->detail));
		json_object_set_new_nocheck(one, "certain", json_boolean(v->certain));
		json_array_append_new(ret, one);
	}
	return ret;
}

/* Adds what is known of the command's end, or that it is still running. */
static void
add_state(json_t *ret, const struct command *c)
{
	const struct koda_command_result *r = &c->result;

	json_object_set_new_nocheck(ret, "running", json_boolean(!c->over));
	json_object_set_new_nocheck(ret, "duration_ms", json_integer((json_int_t)duration_ms(c)));
	if (c->failed) {
		json_object_set_new_nocheck(ret, "error", text_json_string(c->err.message));
		json_object_set_new_nocheck(ret, "code",
		    json_string_nocheck(koda_code_name(c->err.code)));
	} else if (c->over) {
		json_object_set_new_nocheck(ret, "exit_code", json_integer(r->status));
		if (r->signal != 0)
			json_object_set_new_nocheck(ret, "signal", json_integer(r->signal));
		if (r->hit != KODA_HIT_NONE)
			json_object_set_new_nocheck(ret, "limit",
			    json_string_nocheck(koda_limit_hit_name(r->hit)));
		if (r->left_behind > 0)
			json_object_set_new_nocheck(ret, "left_behind",
			    json_integer((json_int_t)r->left_behind));
	}
}

static void
print_state(struct text *t, const struct command *c)
{
	const struct koda_command_result *r = &c->result;

	if (!c->over)
		text_printf(t, "[running");
	else if (c->failed)
		text_printf(t, "[%s", c->err.message);
	else if (r->signal != 0)
		text_printf(t, "[ended by signal %d", r->signal);
	else
		text_printf(t, "[exit code %d", r->status);
	/* Output that was left out is reported where it is missing. */
	if (r->hit != KODA_HIT_NONE && r->hit != KODA_HIT_OUTPUT)
		text_printf(t, ", limit %s", koda_limit_hit_name(r->hit));
	if (r->left_behind > 0)
		text_printf(t, ", %llu process%s left behind and ended",
		    (unsigned long long)r->left_behind, r->left_behind == 1 ? "" : "es");
	text_printf(t, ", %.1f s]", (double)duration_ms(c) / 1000);
}

static void
print_stream(struct text *t, const char *head, const struct printed *p)
{
	size_t before = t->len;

	if (p->head_len + p->tail_len + p->left_out == 0)
		return;
	text_printf(t, "%s", head);
	printed_text(t, p);
	if (t->len > before && t->p[t->len - 1] != '\n')
		text_printf(t, "\n");
}

/* Prints the same sentences as the command line: the rule, the mode, and what to do. */
static void
print_sentences(struct text *t, const struct command *c)
{
	const struct koda_command_result *r = &c->result;
	struct told *told = memory_zero((r->n_violations + 1) * sizeof(*told));

	for (size_t i = 0; i < r->n_violations; i++)
		told[i] = (struct told){ r->violations[i].target, r->violations[i].detail };
	told_sentences(told, r->n_violations, text_put, t);
	text_add(t, c->failures.p, c->failures.len);
	free(told);
}

/* Adds the output and the state of the command to a result and its text. */
static void
fill(json_t *ret, struct text *t, const struct command *c, const struct printed *out,
    const struct printed *err)
{
	const struct koda_command_result *r = &c->result;
	char *rendered = koda_violations_render(r->violations, r->n_violations);

	add_state(ret, c);
	if (r->n_violations > 0)
		json_object_set_new_nocheck(ret, "violations", violations_json(r));
	print_stream(t, "", out);
	print_stream(t, "[stderr]\n", err);
	if (rendered != NULL)
		text_printf(t, "%s", rendered);
	free(rendered);
	print_sentences(t, c);
	print_state(t, c);
}

/* Ends the call with the output and the state of the command. ret is stolen. */
static void
tell(struct tool_call *call, const struct command *c, json_t *ret, const struct printed *out,
    const struct printed *err)
{
	struct text t = { 0 };

	fill(ret, &t, c, out, err);
	tool_done(call, ret, &t);
}

/* ---- run_command ---- */

static void
on_run_over(struct tool_call *call, const struct command *c)
{
	struct command_run *run = call->state;
	struct koda_output out, err;
	struct printed some_out, some_err;
	struct text t = { 0 };
	json_t *ret;

	if (c->failed) {
		if (run->draft != NULL)
			command_draft_failed(run->draft, &c->err);
		else
			tool_failed(call, &c->err, NULL);
		return;
	}
	record_status(call, c->result.status);
	commands_output(c, &out, &err);
	printed_take(&out, 0, SIZE_MAX, true, &some_out);
	printed_take(&err, 0, SIZE_MAX, true, &some_err);
	ret = json_object();
	json_object_set_new_nocheck(ret, "stdout", printed_json(&some_out));
	json_object_set_new_nocheck(ret, "stderr", printed_json(&some_err));
	fill(ret, &t, c, &some_out, &some_err);
	if (run->draft != NULL)
		command_draft_over(run->draft, ret, &t);
	else
		tool_done(call, ret, &t);
}

static void
tell_begun(struct tool_call *call, const struct command *c)
{
	struct text t = { 0 };
	json_t *ret = json_object();

	json_object_set_new_nocheck(ret, "id", json_string_nocheck(c->id));
	add_state(ret, c);
	text_printf(&t, "It runs in the background as %s: use command_output and command_stop.",
	    c->id);
	tool_done(call, ret, &t);
}

static void
on_cancel(struct tool_call *call)
{
	struct command_run *run = call->state;

	commands_end(run->command);
}

static void ask_and_start(struct tool_call *call);

static void
start(struct tool_call *call)
{
	struct command_run *run = call->state;
	const uint64_t secs = tool_number(call, "timeout", 0);
	struct command_request request = {
		.text = tool_string(call, "command"),
		.cwd = run->cwd,
		.timeout_ms = 1000 * (unsigned)(secs < TIMEOUT_SECS_MAX ? secs : TIMEOUT_SECS_MAX),
		.background = tool_bool(call, "background"),
		.intent = record_intent(call),
	};
	struct koda_error err;

	if (!request.background &&
	    (run->effects || call->conn->judged || tool_bool(call, "draft"))) {
		run->draft = command_draft_new(call,
		    run->effects             ? DRAFT_ASKED
			: call->conn->judged ? DRAFT_JUDGED
					     : DRAFT_KEPT,
		    &err);
		if (run->draft == NULL && run->effects && err.code == KODA_UNSUPPORTED) {
			call->conn->no_effects = true;
			run->effects = false;
			ask_and_start(call);
			return;
		}
		if (run->draft == NULL) {
			tool_failed(call, &err, NULL);
			return;
		}
		request.slot = command_draft_slot(run->draft);
	}
	run->command = commands_start(call->conn->commands, &request, &err);
	if (run->command == NULL && run->draft != NULL) {
		command_draft_failed(run->draft, &err);
	} else if (run->command == NULL) {
		tool_failed(call, &err, NULL);
	} else if (request.background) {
		tell_begun(call, run->command);
	} else {
		call->cancel = on_cancel;
		commands_wait(run->command, call, on_run_over);
	}
}

static void
on_answered(struct tool_call *call, bool yes)
{
	struct text t = { 0 };

	if (yes && !call->mute) {
		start(call);
		return;
	}
	show_command(&t, tool_string(call, "command"));
	tool_fail(call, KODA_NOT_APPROVED,
	    "'%.*s' was not run: Safe mode asks the user before each command, and %s", (int)t.len,
	    t.p, call->can_ask ? "the user did not approve it" : "the user could not be asked");
	text_done(&t);
}

static void
ask_and_start(struct tool_call *call)
{
	const char *const argv[] = { "sh", "-c", tool_string(call, "command"), NULL };
	struct connection *conn = call->conn;
	struct command_run *run = call->state;
	const char *cwd = run->cwd != NULL ? run->cwd : conn->root, *rule;
	struct koda_slot *slot;
	struct koda_error err;
	bool allowed;

	if (call->mute) {
		tool_fail(call, KODA_NOT_APPROVED, "cancelled");
		return;
	}
	run->effects = approval_is_of_effects(conn) && !tool_bool(call, "background");
	if (run->effects || !approval_wanted(conn)) {
		start(call);
		return;
	}
	/* The user is not asked about a command that cannot run here anyway. */
	slot = connection_slot(conn, &err);
	if (slot == NULL ||
	    koda_slot_explain_command(slot, KODA_READ_ACCESS, cwd, &allowed, &rule, &err) < 0) {
		tool_failed(call, &err, NULL);
		return;
	}
	/* A running command may change a file between the look at the tree and the start. */
	if (commands_run())
		approval_lapse(conn);
	approval_command(call, argv, cwd, NULL, tool_bool(call, "background"), on_answered);
}

static bool
is_below(const char *path, const char *root)
{
	size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

	return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static void
on_directory(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct command_run *run = call->state;

	if (err != NULL) {
		tool_failed(call, err, NULL);
	} else if (!is_below(result->path, call->conn->root)) {
		tool_fail(call, KODA_INVALID, "cwd: is not below the root");
	} else {
		record_result(call, result);
		run->cwd = memory_string(result->path);
		ask_and_start(call);
	}
}

void
tool_run_command(struct tool_call *call)
{
	const bool background = tool_bool(call, "background");
	const char *why = commands_refuse(call->conn->commands, call, background);
	const struct koda_op where = {
		.kind = KODA_OP_EXPLAIN,
		.path = tool_string(call, "cwd"),
		.access = KODA_READ_ACCESS,
	};

	call->state = memory_zero(sizeof(struct command_run));
	call->free_state = free_run;
	if (!tool_check_paths(call, (const char *const[]){ "command", "cwd", NULL }))
		return;
	if (strlen(tool_string(call, "command")) > COMMAND_TEXT_MAX)
		tool_fail(call, KODA_TOO_LARGE,
		    "command: has more than the %u bytes that a program can be given; write it to a file and run that",
		    COMMAND_TEXT_MAX);
	else if (tool_bool(call, "draft") &&
	    (background || call->conn->drafts || call->conn->mode == KODA_PLAN))
		tool_fail(call, KODA_INVALID, "draft: %s",
		    background               ? "a command in the background has none of its own"
			: call->conn->drafts ? "the whole session works in a draft already"
					     : "a command in plan mode changes nothing");
	else if (why != NULL)
		tool_fail(call, KODA_INTERNAL, "%s", why);
	else if (where.path != NULL)
		/* The path as it will be shown and remembered: without links. */
		tool_submit(call, &where, on_directory);
	else
		ask_and_start(call);
}

/* ---- background commands ---- */

/* Returns NULL if the call has failed. */
static struct command *
find(struct tool_call *call)
{
	const json_t *id = json_object_get(call->args, "id");
	struct command *c = commands_find(call->conn->commands, json_string_value(id));

	if (c == NULL)
		tool_fail(call, KODA_INVALID,
		    "id: no background command has this id; command_list lists them");
	return c;
}

static json_t *
stream_json(const struct printed *p)
{
	json_t *ret = printed_json(p);

	json_object_set_new_nocheck(ret, "next_offset", json_integer((json_int_t)p->next));
	json_object_set_new_nocheck(ret, "more", json_boolean(p->more));
	return ret;
}

/* Starts where the caller says, or where the last call ended. */
static void
tell_output(struct tool_call *call, struct command *c)
{
	const uint64_t from_out = tool_number(call, "stdout_offset", c->shown_out),
		       from_err = tool_number(call, "stderr_offset", c->shown_err);
	struct koda_output out, err;
	struct printed some_out, some_err;
	json_t *ret = json_object();

	commands_output(c, &out, &err);
	printed_take(&out, from_out, COMMAND_OUTPUT_MAX, c->over, &some_out);
	printed_take(&err, from_err, COMMAND_OUTPUT_MAX, c->over, &some_err);
	c->shown_out = some_out.next;
	c->shown_err = some_err.next;
	json_object_set_new_nocheck(ret, "id", json_string_nocheck(c->id));
	json_object_set_new_nocheck(ret, "stdout", stream_json(&some_out));
	json_object_set_new_nocheck(ret, "stderr", stream_json(&some_err));
	tell(call, c, ret, &some_out, &some_err);
}

void
tool_command_output(struct tool_call *call)
{
	struct command *c = find(call);

	if (c != NULL)
		tell_output(call, c);
}

static void
on_stopped(struct tool_call *call, const struct command *c)
{
	tell_output(call, commands_find(c->all, c->id));
}

void
tool_command_stop(struct tool_call *call)
{
	struct command *c = find(call);

	if (c == NULL)
		return;
	if (c->over) {
		tell_output(call, c);
		return;
	}
	commands_wait(c, call, on_stopped);
	commands_end(c);
}

void
tool_command_list(struct tool_call *call)
{
	const struct command *c = NULL;
	json_t *ret = json_object(), *list = json_array();
	struct text t = { 0 };

	while ((c = commands_next(call->conn->commands, c)) != NULL) {
		struct text command = { 0 };
		json_t *one = json_object();

		if (!c->background) {
			json_decref(one);
			continue;
		}
		show_command(&command, c->text);
		text_printf(&t, "%s %.*s ", c->id, (int)command.len, command.p);
		print_state(&t, c);
		text_printf(&t, "\n");
		json_object_set_new_nocheck(one, "id", json_string_nocheck(c->id));
		json_object_set_new_nocheck(one, "command", text_json(&command));
		add_state(one, c);
		json_array_append_new(list, one);
	}
	if (t.len == 0)
		text_printf(&t, "no command runs in the background");
	json_object_set_new_nocheck(ret, "commands", list);
	tool_done(call, ret, &t);
}
