/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_draft.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/approval.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/review.h"
#include "mcp/session_drafts.h"
#include "mcp/text.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"
#include "mcp/tool_decide.h"

/* A decision under way. */
struct deciding {
	char *id;
	struct koda_draft *draft; /* NULL: not open */
	struct decide_paths paths;
	struct koda_apply_options options;
	struct change_set set;
};

static void
free_deciding(void *state)
{
	struct deciding *d = state;

	koda_draft_close(d->draft);
	decide_paths_done(&d->paths);
	change_set_done(&d->set);
	free(d->id);
	free(d);
}

/* Returns the draft that the call is about, or NULL with *err set. */
static const char *
find_draft(const struct tool_call *call, struct koda_error *err)
{
	const struct connection *conn = call->conn;
	const char *id = tool_string(call, "draft");

	if (id == NULL)
		id = conn->draft;
	*err = (struct koda_error){ .code = KODA_INVALID };
	if (id == NULL)
		snprintf(err->message, sizeof(err->message), "%s",
		    conn->drafts
			? "nothing was changed in this session's draft yet"
			: "draft: this session works in the project itself, so name the draft of a command or of a child");
	else if (session_drafts_root(conn, id) == NULL)
		snprintf(err->message, sizeof(err->message),
		    "draft: this session has no draft '%.64s'; only the user decides on others",
		    id);
	else
		return id;
	return NULL;
}

/* Returns the state of the call, which waits for its turn; NULL if the call has failed. */
static struct deciding *
begin(struct tool_call *call, review_fn *fn)
{
	struct koda_error err;
	struct deciding *d;
	const char *id;

	if (!tool_check_paths(call, (const char *const[]){ "draft", NULL }))
		return NULL;
	id = find_draft(call, &err);
	if (id == NULL) {
		tool_failed(call, &err, NULL);
		return NULL;
	}
	d = memory_zero(sizeof(*d));
	d->id = memory_string(id);
	call->state = d;
	call->free_state = free_deciding;
	if (!decide_paths_take(call, &d->paths))
		return NULL;
	d->options = (struct koda_apply_options){
		.paths = d->paths.path,
		.n_paths = d->paths.n,
		.take = decide_take(call),
	};
	review_wait(call, fn);
	return d;
}

/* Opens the draft. Returns false if the call has failed. */
static bool
open_draft(struct tool_call *call, struct deciding *d)
{
	struct koda_error err;

	d->draft = review_open(call->conn, d->id, &err);
	if (d->draft != NULL)
		return true;
	session_drafts_gone(call->conn, d->id);
	tool_failed(call, &err,
	    err.code == KODA_CONFLICT ? "Another session works in it: it must end first." : NULL);
	return false;
}

/* Finds what would be applied. Returns false if the call has failed. */
static bool
plan(struct tool_call *call, struct deciding *d)
{
	struct connection *conn = call->conn;
	struct koda_error err;
	int r;

	if (review_enter(conn, &err) < 0) {
		tool_failed(call, &err, NULL);
		return false;
	}
	r = change_set_plan(&d->set, d->draft, conn->root, &d->options, &err);
	review_leave(conn);
	if (r == 0)
		return true;
	tool_failed(call, &err, NULL);
	return false;
}

/* ---- draft_diff ---- */

static void
on_diff(struct tool_call *call)
{
	struct deciding *d = call->state;
	struct text t = { 0 }, diffs = { 0 };
	struct koda_error err;
	bool whole = true;
	json_t *ret;

	if (!open_draft(call, d) || !plan(call, d))
		return;
	if (json_object_get(call->args, "diff") == NULL || tool_bool(call, "diff")) {
		if (review_enter(call->conn, &err) == 0) {
			whole = change_set_diffs(&d->set, d->draft, true, &diffs);
			review_leave(call->conn);
		}
	}
	ret = json_object();
	json_object_set_new_nocheck(ret, "draft", json_string_nocheck(d->id));
	decide_add(ret, &d->set);
	change_set_counts(&d->set, &t);
	text_printf(&t, " in draft %s\n", d->id);
	change_set_lines(&d->set, &t);
	text_add(&t, diffs.p, diffs.len);
	if (diffs.len > 0) {
		json_object_set_new_nocheck(ret, "diff", text_json_bytes(diffs.p, diffs.len));
		json_object_set_new_nocheck(ret, "diff_cut", json_boolean(!whole));
	}
	text_done(&diffs);
	tool_done(call, ret, &t);
}

void
tool_draft_diff(struct tool_call *call)
{
	begin(call, on_diff);
}

/* ---- draft_apply ---- */

static void
tell_applied(struct tool_call *call, const struct deciding *d, const char *undo)
{
	struct text t = { 0 }, counts = { 0 };
	json_t *ret = json_object();
	/* The history of a child's root is not that of this session's. */
	const char *root = session_drafts_root(call->conn, d->id);
	const bool elsewhere = root != NULL && strcmp(root, call->conn->root) != 0;
	const bool kept = !session_drafts_gone(call->conn, d->id);

	if (elsewhere)
		undo = "";
	json_object_set_new_nocheck(ret, "draft", json_string_nocheck(d->id));
	json_object_set_new_nocheck(ret, "kept", json_boolean(kept));
	if (undo[0] != '\0')
		json_object_set_new_nocheck(ret, "undo", json_string_nocheck(undo));
	decide_add(ret, &d->set);
	change_set_counts(&d->set, &counts);
	text_add(&counts, "", 1);
	text_printf(&t, "%llu of %s applied to the project%s%s; %s\n",
	    (unsigned long long)d->set.n_outcome[KODA_APPLIED], counts.p,
	    undo[0] != '\0' ? ", which undo takes back as " : "", undo,
	    kept ? "the rest stays in the draft" : "nothing is left in the draft");
	change_set_lines(&d->set, &t);
	record_draft(call->conn, d->id, "applied", counts.p);
	text_done(&counts);
	tool_done(call, ret, &t);
}

static void
apply(struct tool_call *call)
{
	struct deciding *d = call->state;
	struct connection *conn = call->conn;
	char undo[KODA_HISTORY_ID_SIZE] = "";
	struct koda_error err;
	int r;

	if (review_enter(conn, &err) < 0) {
		tool_failed(call, &err, NULL);
		return;
	}
	change_set_done(&d->set);
	d->set.root = conn->root;
	d->set.done = true;
	r = koda_draft_apply(d->draft, &d->options, change_set_add, &d->set, undo, &err);
	koda_draft_close(d->draft);
	d->draft = NULL;
	review_leave(conn);
	if (r < 0)
		tool_failed(call, &err,
		    d->set.n_outcome[KODA_APPLIED] > 0
			? "Some changes were applied; the rest stays in the draft: apply it again."
			: NULL);
	else
		tell_applied(call, d, undo);
}

static void
on_apply_answered(struct tool_call *call, bool yes)
{
	if (yes && !call->mute)
		apply(call);
	else
		decide_not_approved(call, "applied, so the project is as it was");
}

/* Shows what would be applied, with the diffs. */
static void
ask(struct tool_call *call, struct deciding *d)
{
	struct text t = { 0 }, diffs = { 0 };
	struct koda_error err;
	bool whole = false;

	if (review_enter(call->conn, &err) == 0) {
		whole = change_set_diffs(&d->set, d->draft, false, &diffs);
		review_leave(call->conn);
	}
	text_printf(&t, "apply this to '");
	text_show_string(&t, call->conn->root);
	text_printf(&t, "'%s\n",
	    d->options.take == KODA_TAKE_DRAFT ? ", also where the project changed since" : "");
	change_set_lines(&d->set, &t);
	text_add(&t, diffs.p, diffs.len);
	text_done(&diffs);
	approval_effects(call, &t, !whole, NULL, on_apply_answered);
	text_done(&t);
}

static void
on_apply(struct tool_call *call)
{
	struct deciding *d = call->state;

	if (!open_draft(call, d) || !plan(call, d))
		return;
	if (d->set.n_outcome[KODA_APPLIED] > 0 && approval_wanted(call->conn) && !call->mute)
		ask(call, d);
	else
		on_apply_answered(call, true);
}

void
tool_draft_apply(struct tool_call *call)
{
	if (decide_may_change(call))
		begin(call, on_apply);
}

/* ---- draft_discard ---- */

static void
on_discard(struct tool_call *call)
{
	struct deciding *d = call->state;
	struct connection *conn = call->conn;
	struct text t = { 0 };
	struct koda_error err;
	json_t *ret;
	bool kept;
	int r;

	if (!open_draft(call, d))
		return;
	if (review_enter(conn, &err) < 0) {
		tool_failed(call, &err, NULL);
		return;
	}
	r = koda_draft_discard(d->draft, d->options.paths, d->options.n_paths, &err);
	koda_draft_close(d->draft);
	d->draft = NULL;
	review_leave(conn);
	kept = !session_drafts_gone(conn, d->id);
	if (r < 0) {
		tool_failed(call, &err, NULL);
		return;
	}
	record_draft(conn, d->id, "discarded", d->paths.n > 0 ? "some of its changes" : NULL);
	ret = json_object();
	json_object_set_new_nocheck(ret, "draft", json_string_nocheck(d->id));
	json_object_set_new_nocheck(ret, "kept", json_boolean(kept));
	text_printf(&t, "%s; %s",
	    d->paths.n > 0 ? "these changes are discarded" : "all changes are discarded",
	    kept ? "the rest stays in the draft" : "nothing is left in the draft");
	tool_done(call, ret, &t);
}

void
tool_draft_discard(struct tool_call *call)
{
	if (decide_may_change(call))
		begin(call, on_discard);
}
