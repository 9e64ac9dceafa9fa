/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_child.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcp/approval.h"
#include "mcp/child.h"
#include "mcp/child_copy.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/review.h"
#include "mcp/session_drafts.h"
#include "mcp/text.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"
#include "mcp/tool_decide.h"
#include "show/asked.h"

/* ---- open_child ---- */

/* Returns false if the call has failed. */
static bool
take_rules(struct tool_call *call, const char *key, struct child_rules *ret)
{
	const json_t *rules = json_object_get(call->args, key), *rule;
	size_t i;

	json_array_foreach(rules, i, rule)
	{
		const char *text = json_string_value(rule);

		if (strlen(text) != json_string_length(rule)) {
			tool_fail(call, KODA_INVALID, "%s[%zu]: contains a NUL", key, i);
			return false;
		}
		ret->rule[ret->n++] = text; /* the schema limits their number */
	}
	return true;
}

static enum koda_mode
wanted_mode(const struct tool_call *call)
{
	const char *mode = tool_string(call, "mode");

	if (mode == NULL)
		return call->conn->mode;
	for (enum koda_mode m = KODA_PLAN; m < KODA_AUTO; m++) {
		if (strcmp(mode, text_mode(m)) == 0)
			return m;
	}
	return KODA_AUTO;
}

/* Uses the path of the running program, so that the child's client does not find another one by
 * chance. */
static json_t *
command_line(const char *token, json_t **ret_words)
{
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	const char *words[] = { program, "mcp", "--child", token };
	struct text t = { 0 };

	snprintf(program + (n > 0 ? n : 0), sizeof(program) - (size_t)(n > 0 ? n : 0), "%s",
	    n > 0 ? "" : "koda-sandbox");
	*ret_words = json_array();
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		json_array_append_new(*ret_words, text_json_string(words[i]));
		text_add(&t, " ", i > 0);
		asked_word(words[i], text_put, &t);
	}
	return text_json(&t);
}

/* By enum koda_workspace. */
static const char *const workspaces[] = { "project", "draft", "worktree", "clone" };
static const char *const what_is_left[] = {
	NULL,
	"Its changes are held back in a draft. When it has ended, close_child or list_children name the draft, and draft_diff, draft_apply and draft_discard decide on it.",
	"It works in a git worktree, on a branch of its own. When it has ended, what it did is committed on that branch, and close_child or list_children say how to review, merge and discard it.",
	"It works in a copy of the project. When it has ended, close_child or list_children name the draft that holds its changes, and draft_diff, draft_apply and draft_discard decide on it.",
};

static void
tell_opened(struct tool_call *call, const struct child_state *child, const char *token)
{
	json_t *ret = json_object(), *words, *line = command_line(token, &words);
	struct text t = { 0 };

	json_object_set_new_nocheck(ret, "name", json_string_nocheck(child->name));
	json_object_set_new_nocheck(ret, "mode", json_string_nocheck(text_mode(child->mode)));
	json_object_set_new_nocheck(ret, "root", text_json_string(child->root));
	json_object_set_new_nocheck(ret, "workspace",
	    json_string_nocheck(workspaces[child->workspace]));
	text_printf(&t,
	    "The child '%s' is open. Its agent's MCP client connects once, within %d seconds, with: ",
	    child->name, TOKEN_SECONDS);
	text_add(&t, json_string_value(line), json_string_length(line));
	if (what_is_left[child->workspace] != NULL)
		text_printf(&t, "\n%s", what_is_left[child->workspace]);
	json_object_set_new_nocheck(ret, "command", words);
	json_object_set_new_nocheck(ret, "command_line", line);
	json_object_set_new_nocheck(ret, "seconds", json_integer(TOKEN_SECONDS));
	tool_done(call, ret, &t);
}

static enum koda_workspace
wanted_workspace(const struct tool_call *call)
{
	const char *name = tool_string(call, "workspace");

	for (int w = KODA_WORKSPACE_DRAFT; name != NULL && w <= KODA_WORKSPACE_CLONE; w++)
		if (strcmp(name, workspaces[w]) == 0)
			return (enum koda_workspace)w;
	return KODA_WORKSPACE_DIRECT;
}

static void
open_now(struct tool_call *call, const char *root)
{
	struct child_wish wish = {
		.name = tool_string(call, "name"),
		.mode = wanted_mode(call),
		.root = root,
		.has_domains = json_object_get(call->args, "domains") != NULL,
		.network = !json_is_false(json_object_get(call->args, "network")),
		.workspace = wanted_workspace(call),
	};
	char token[ENDPOINT_TOKEN_SIZE];
	struct child_state child;
	struct koda_error err = { 0 };

	if (!take_rules(call, "deny_read", &wish.deny_read) ||
	    !take_rules(call, "deny_write", &wish.deny_write) ||
	    !take_rules(call, "domains", &wish.domains))
		return;
	if (child_open(call->conn, &wish, token, &child, &err) < 0)
		tool_failed(call, &err, NULL);
	else
		tell_opened(call, &child, token);
	explicit_bzero(token, sizeof(token));
}

/* The root of a child, found by the call. */
struct opening {
	char *root;
	size_t len;   /* of the path of the directory being probed */
	size_t probe; /* index of the name probed in it */
};

static void
on_turn(struct tool_call *call)
{
	const struct opening *o = call->state;

	/* The token would reach no client. */
	if (call->mute)
		tool_fail(call, KODA_NOT_APPROVED, "cancelled");
	else
		open_now(call, o != NULL ? o->root : call->conn->root);
}

static void
on_worktree_answered(struct tool_call *call, bool yes)
{
	call->cancel = NULL;
	if (yes)
		review_soon(call, on_turn);
	else
		decide_not_approved(call, "opened, and no branch was made");
}

/* Its branch is in the project. */
static void
ask_for_worktree(struct tool_call *call, const char *root)
{
	struct text t = { 0 };

	text_printf(&t, "make a branch in the git repository of '");
	text_show_string(&t, root);
	text_printf(&t, "', with a worktree for the agent '");
	text_show_string(&t, tool_string(call, "name"));
	text_printf(&t, "', and commit there what that agent did when it has ended\n");
	approval_effects(call, &t, false, NULL, on_worktree_answered);
	text_done(&t);
}

/* A copy is made when no session is starting its sandbox. */
static void
open_at(struct tool_call *call, const char *root)
{
	const enum koda_workspace workspace = wanted_workspace(call);

	if (workspace == KODA_WORKSPACE_WORKTREE && approval_wanted(call->conn))
		ask_for_worktree(call, root);
	else if (workspace >= KODA_WORKSPACE_WORKTREE)
		review_soon(call, on_turn);
	else
		open_now(call, root);
}

/*
 * Some places are protected because of the directories around them: the configuration of a git
 * directory, for example. A session whose root is inside does not see those directories, so it
 * would not protect the place. So the parent's session is asked what would be protected in each
 * directory from the subdirectory up to the root.
 */
static void
free_opening(void *state)
{
	struct opening *o = state;

	free(o->root);
	free(o);
}

static void look_around(struct tool_call *call);

static void
on_around(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct opening *o = call->state;

	if (err != NULL)
		tool_failed(call, err, NULL);
	else if (!result->allowed &&
	    (strcmp(result->rule, "git_config") == 0 || strcmp(result->rule, "koda_place") == 0))
		tool_fail(call, KODA_POLICY_DENIED,
		    "subdirectory: '%.400s' is protected with everything below it (rule %s)",
		    o->root, result->rule);
	else
		look_around(call);
}

static void
look_around(struct tool_call *call)
{
	static const char *const probes[] = { "/config", "/agents" };
	struct opening *o = call->state;
	struct koda_op op = { .kind = KODA_OP_EXPLAIN, .access = KODA_WRITE_ACCESS };
	struct text path = { 0 };

	if (o->probe == sizeof(probes) / sizeof(probes[0])) {
		o->probe = 0;
		while (o->len > 0 && o->root[o->len - 1] != '/')
			o->len--;
		o->len -= o->len > 0;
	}
	/* The token would reach no client. */
	if (call->mute) {
		tool_fail(call, KODA_NOT_APPROVED, "cancelled");
		return;
	}
	if (o->len < strlen(call->conn->root)) {
		open_at(call, o->root);
		return;
	}
	text_add(&path, o->root, o->len);
	text_add(&path, probes[o->probe], strlen(probes[o->probe]) + 1);
	o->probe++;
	op.path = path.p;
	tool_submit(call, &op, on_around);
	text_done(&path);
}

static void
on_subdirectory(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct tool_call *call = data;
	struct opening *o;

	if (err != NULL) {
		tool_failed(call, err, NULL);
		return;
	}
	record_result(call, result);
	o = memory_zero(sizeof(*o));
	o->root = memory_string(result->path);
	o->len = strlen(o->root);
	call->state = o;
	call->free_state = free_opening;
	look_around(call);
}

void
tool_open_child(struct tool_call *call)
{
	/* Listing it shows that it is a directory, and which one the path leads to. */
	const struct koda_op op = {
		.kind = KODA_OP_LIST,
		.path = tool_string(call, "subdirectory"),
	};

	if (!tool_check_paths(call, (const char *const[]){ "name", "subdirectory", NULL }))
		return;
	if (op.path != NULL)
		tool_submit(call, &op, on_subdirectory);
	else
		open_at(call, call->conn->root);
}

/* ---- close_child ---- */

/* The others are listed when these have been decided on. */
#define LEFT_SHOWN 100

/* What one child, or any (name NULL), has left. */
struct left_behind {
	const struct connection *conn;
	const char *name;
	json_t *drafts, *copies;
};

/* child: "a", or "a/its child". */
static bool
is_of(const struct left_behind *left, const char *child)
{
	const size_t len = left->name != NULL ? strlen(left->name) : 0;

	return left->name == NULL ||
	    (strncmp(child, left->name, len) == 0 && (child[len] == '\0' || child[len] == '/'));
}

static void
add_draft(void *data, const char *child, const char *id)
{
	const struct left_behind *left = data;
	json_t *row;

	if (!is_of(left, child) || json_array_size(left->drafts) == LEFT_SHOWN ||
	    child_works_in(left->conn, id))
		return;
	row = json_object();
	json_object_set_new_nocheck(row, "draft", json_string_nocheck(id));
	json_object_set_new_nocheck(row, "child", json_string_nocheck(child));
	json_array_append_new(left->drafts, row);
}

static void
add_copy(void *data, const char *child, const struct kept_copy *kept)
{
	const struct left_behind *left = data;
	json_t *row;

	if (!is_of(left, child) || json_array_size(left->copies) == LEFT_SHOWN)
		return;
	row = json_object();
	json_object_set_new_nocheck(row, "id", json_string_nocheck(kept->id));
	json_object_set_new_nocheck(row, "child", json_string_nocheck(child));
	json_object_set_new_nocheck(row, "path", text_json_string(kept->path));
	json_object_set_new_nocheck(row, "branch", json_string_nocheck(kept->branch));
	json_object_set_new_nocheck(row, "reason", text_json_string(kept->reason));
	json_object_set_new_nocheck(row, "hint", text_json_string(kept->hint));
	json_array_append_new(left->copies, row);
}

static void
add_left(const struct tool_call *call, const char *name, json_t *ret)
{
	struct left_behind left = { call->conn, name, json_array(), json_array() };

	session_drafts_of_children(call->conn, add_draft, &left);
	child_copies_kept(call->conn, add_copy, &left);
	json_object_set_new_nocheck(ret, "drafts", left.drafts);
	json_object_set_new_nocheck(ret, "copies", left.copies);
}

static void
on_closed(void *data)
{
	struct tool_call *call = data;
	const char *name = tool_string(call, "name");
	json_t *ret = json_pack("{s:s}", "name", name);

	call->state = NULL;
	add_left(call, name, ret);
	tool_done(call, ret, NULL);
}

static void
free_closing(void *state)
{
	if (state != NULL)
		child_closed_unheard(state);
}

void
tool_close_child(struct tool_call *call)
{
	struct child_agent *child;

	if (!tool_check_paths(call, (const char *const[]){ "name", NULL }))
		return;
	child = child_find(call->conn, tool_string(call, "name"));
	if (child == NULL) {
		tool_fail(call, KODA_INVALID,
		    "there is no child of that name: list_children lists them");
		return;
	}
	call->state = child;
	call->free_state = free_closing;
	child_close(child, on_closed, call);
}

/* ---- list_children ---- */

static void
add_child(void *data, const struct child_state *state)
{
	json_t *row = json_object();

	json_object_set_new_nocheck(row, "name", json_string_nocheck(state->name));
	json_object_set_new_nocheck(row, "mode", json_string_nocheck(text_mode(state->mode)));
	json_object_set_new_nocheck(row, "root", text_json_string(state->root));
	json_object_set_new_nocheck(row, "workspace",
	    json_string_nocheck(workspaces[state->workspace]));
	json_object_set_new_nocheck(row, "connected", json_boolean(state->connected));
	if (state->draft != NULL)
		json_object_set_new_nocheck(row, "draft", json_string_nocheck(state->draft));
	json_array_append_new(data, row);
}

void
tool_list_children(struct tool_call *call)
{
	json_t *rows = json_array(), *ret = json_pack("{s:o}", "children", rows);

	child_visit(call->conn, add_child, rows);
	add_left(call, NULL, ret);
	tool_done(call, ret, NULL);
}
