/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mcp/approval.h"
#include "mcp/memory.h"
#include "mcp/review.h"
#include "mcp/text.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"
#include "mcp/tool_decide.h"

#define LISTED_DEFAULT 20

/* ---- history ---- */

struct history_page {
	json_t *rows; /* the newest ones, oldest first */
	size_t limit, n;
};

static json_t *
time_json(double when)
{
	time_t seconds = (time_t)when;
	char text[32];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) == NULL ||
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return json_null();
	return json_string_nocheck(text);
}

static int
on_entry(void *data, const struct koda_history_entry *e)
{
	struct history_page *l = data;
	json_t *row = json_object();

	json_object_set_new_nocheck(row, "id", json_string_nocheck(e->id));
	json_object_set_new_nocheck(row, "time", time_json(e->begun));
	json_object_set_new_nocheck(row, "changes", json_integer((json_int_t)e->changes));
	json_object_set_new_nocheck(row, "undone", json_integer((json_int_t)e->undone));
	if (e->draft[0] != '\0')
		json_object_set_new_nocheck(row, "draft", text_json_string(e->draft));
	if (e->unfinished)
		json_object_set_new_nocheck(row, "unfinished", json_true());
	json_array_append_new(l->rows, row);
	l->n++;
	if (json_array_size(l->rows) > l->limit)
		json_array_remove(l->rows, 0);
	return 0;
}

static void
print_entry(struct text *t, const json_t *row)
{
	const char *when = json_string_value(json_object_get(row, "time"));
	const json_int_t changes = json_integer_value(json_object_get(row, "changes"));
	const json_int_t undone = json_integer_value(json_object_get(row, "undone"));

	text_printf(t, "%s %s %lld change%s", json_string_value(json_object_get(row, "id")),
	    when != NULL ? when : "?", (long long)changes, changes == 1 ? "" : "s");
	if (undone > 0)
		text_printf(t, ", %lld of them taken back", (long long)undone);
	text_printf(t, "\n");
}

void
tool_history(struct tool_call *call)
{
	const size_t limit = (size_t)tool_number(call, "limit", LISTED_DEFAULT);
	struct history_page l = { .rows = json_array(), .limit = limit };
	json_t *ret = json_object(), *newest_first = json_array();
	struct text t = { 0 };
	struct koda_error err;

	if (koda_history_visit(call->conn->root, on_entry, &l, &err) < 0) {
		tool_failed(call, &err, NULL);
		json_decref(l.rows);
		json_decref(newest_first);
		json_decref(ret);
		return;
	}
	for (size_t i = json_array_size(l.rows); i > 0; i--) {
		json_array_append(newest_first, json_array_get(l.rows, i - 1));
		print_entry(&t, json_array_get(l.rows, i - 1));
	}
	if (l.n == 0)
		text_printf(&t, "nothing was changed in this project yet");
	json_object_set_new_nocheck(ret, "entries", newest_first);
	json_object_set_new_nocheck(ret, "total", json_integer((json_int_t)l.n));
	json_decref(l.rows);
	tool_done(call, ret, &t);
}

/* ---- undo ---- */

struct undo_call {
	char id[KODA_HISTORY_ID_SIZE];
	struct decide_paths paths;
	struct koda_undo_options options;
	struct change_set set;
};

static void
free_undoing(void *state)
{
	struct undo_call *u = state;

	decide_paths_done(&u->paths);
	change_set_done(&u->set);
	free(u);
}

/* Finds the newest entry in which there is something to do. */
static int
find_last(void *data, const struct koda_history_entry *e)
{
	struct undo_call *u = data;

	if (u->options.redo ? e->undone > 0 : e->undone < e->changes)
		snprintf(u->id, sizeof(u->id), "%s", e->id);
	return 0;
}

/* Reports what would be done, or does it. Returns false if the call has failed. */
static bool
turn(struct tool_call *call, bool dry)
{
	struct undo_call *u = call->state;
	struct connection *conn = call->conn;
	struct koda_error err;
	int r;

	if (review_enter(conn, &err) < 0) {
		tool_failed(call, &err, NULL);
		return false;
	}
	change_set_done(&u->set);
	u->set.root = conn->root;
	u->set.done = !dry;
	u->options.dry_run = dry;
	r = koda_history_undo(conn->ses, u->id, &u->options, change_set_add, &u->set, &err);
	review_leave(conn);
	if (r < 0)
		tool_failed(call, &err, NULL);
	return r >= 0;
}

static void
on_answered(struct tool_call *call, bool yes)
{
	struct undo_call *u = call->state;
	const char *what = u->options.redo ? "done again" : "taken back";
	struct text t = { 0 };
	json_t *ret;

	if (!yes || call->mute) {
		decide_not_approved(call, what);
		return;
	}
	if (!turn(call, false))
		return;
	ret = json_object();
	json_object_set_new_nocheck(ret, "id", json_string_nocheck(u->id));
	decide_add(ret, &u->set);
	text_printf(&t, "%llu of ", (unsigned long long)u->set.n_outcome[KODA_APPLIED]);
	change_set_counts(&u->set, &t);
	text_printf(&t, " of %s %s\n", u->id, what);
	change_set_lines(&u->set, &t);
	tool_done(call, ret, &t);
}

static void
on_turn(struct tool_call *call)
{
	struct undo_call *u = call->state;
	struct text t = { 0 };

	if (!approval_wanted(call->conn) || call->mute) {
		on_answered(call, true);
		return;
	}
	if (!turn(call, true))
		return;
	if (u->set.n_outcome[KODA_APPLIED] == 0) {
		on_answered(call, true);
		return;
	}
	text_printf(&t, "%s in '", u->options.redo ? "do again" : "take back");
	text_show_string(&t, call->conn->root);
	text_printf(&t, "' what %s has changed%s\n", u->id,
	    u->options.take == KODA_TAKE_DRAFT ? ", also where the project changed since" : "");
	change_set_lines(&u->set, &t);
	approval_effects(call, &t, u->set.n_all > u->set.n, NULL, on_answered);
	text_done(&t);
}

void
tool_undo(struct tool_call *call)
{
	const char *id = tool_string(call, "id");
	struct koda_error err;
	struct undo_call *u;

	if (!decide_may_change(call) ||
	    !tool_check_paths(call, (const char *const[]){ "id", NULL }))
		return;
	u = memory_zero(sizeof(*u));
	call->state = u;
	call->free_state = free_undoing;
	if (!decide_paths_take(call, &u->paths))
		return;
	u->options = (struct koda_undo_options){
		.paths = u->paths.path,
		.n_paths = u->paths.n,
		.redo = tool_bool(call, "redo"),
		.take = tool_bool(call, "force") ? KODA_TAKE_DRAFT : KODA_TAKE_NONE,
	};
	if (id != NULL && strlen(id) < sizeof(u->id))
		snprintf(u->id, sizeof(u->id), "%s", id);
	else if (id != NULL)
		u->id[0] = '\0';
	else if (koda_history_visit(call->conn->root, find_last, u, &err) < 0) {
		tool_failed(call, &err, NULL);
		return;
	}
	if (u->id[0] == '\0')
		tool_fail(call, KODA_INVALID,
		    id != NULL ? "id: history has no such entry"
			       : "there is nothing to take back or to do again");
	else
		review_wait(call, on_turn);
}
