#include "mcp/command_draft.h"

#include <stdlib.h>

#include "mcp/change_set.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/review.h"
#include "mcp/session_drafts.h"
#include "mcp/tool_call.h"
#include "mcp/tool_decide.h"

struct command_draft {
	struct tool_call *call;
	struct koda_slot *slot; /* the session's, when it ends before the command */
	char *id;
	json_t *ret; /* the result so far; NULL: err is */
	struct text text;
	struct koda_error err;
	struct change_set set;
};

struct command_draft *
command_draft_new(struct tool_call *call, struct koda_error *err)
{
	const struct koda_slot_options options = { .workspace = KODA_WORKSPACE_DRAFT };
	struct connection *conn = call->conn;
	struct command_draft *d;
	struct koda_slot *slot;

	if (review_enter(conn, err) < 0)
		return NULL;
	slot = koda_slot_open(conn->ses, &options, err);
	review_leave(conn);
	if (slot == NULL)
		return NULL;
	d = memory_zero(sizeof(*d));
	*d = (struct command_draft){
		.call = call,
		.slot = slot,
		.id = memory_string(koda_slot_draft(slot)),
	};
	session_drafts_add(conn, d->id);
	return d;
}

void
command_draft_free(struct command_draft *d)
{
	if (d == NULL)
		return;
	json_decref(d->ret);
	text_done(&d->text);
	change_set_done(&d->set);
	free(d->id);
	free(d);
}

struct koda_slot *
command_draft_slot(const struct command_draft *d)
{
	return d->slot;
}

/* ---- the end ---- */

/* Lists the changes, and discards the draft if there are none. Returns -1 with *err set. */
static int
look(struct command_draft *d, struct koda_error *err)
{
	struct connection *conn = d->call->conn;
	struct koda_draft *draft;
	int r;

	if (review_enter(conn, err) < 0)
		return -1;
	draft = koda_draft_open(conn->ses, d->id, err);
	r = draft == NULL ? -1 : change_set_list(&d->set, draft, conn->root, err);
	if (r == 0 && d->set.n_all == 0 && !d->set.cut)
		r = koda_draft_discard(draft, NULL, 0, err);
	koda_draft_close(draft);
	review_leave(conn);
	return r;
}

static void
add_changes(struct command_draft *d)
{
	struct text *t = &d->text;

	decide_add(d->ret, &d->set);
	if (session_drafts_gone(d->call->conn, d->id)) {
		text_printf(t, "\n[it changed nothing]");
		return;
	}
	json_object_set_new_nocheck(d->ret, "draft", json_string_nocheck(d->id));
	text_printf(t, "\n[draft %s holds ", d->id);
	change_set_counts(&d->set, t);
	text_printf(t, " back: draft_apply applies them, draft_discard discards them]\n");
	change_set_lines(&d->set, t);
}

/* A slot cannot be released while it reports the end of its command, so this happens in the next turn
 * of the loop. */
static void
on_over(struct tool_call *call)
{
	const struct command_run *run = call->state;
	struct command_draft *d = run->draft;
	struct koda_error err;

	record_slot(call->conn, d->slot);
	koda_slot_end(d->slot, NULL);
	koda_slot_release(d->slot);
	d->slot = NULL;
	if (look(d, &err) < 0) {
		if (d->ret == NULL)
			err = d->err;
		tool_failed(call, &err, NULL);
		return;
	}
	if (d->ret == NULL) {
		session_drafts_gone(call->conn, d->id);
		tool_failed(call, &d->err, NULL);
		return;
	}
	add_changes(d);
	tool_done(call, json_incref(d->ret), &d->text);
}

void
command_draft_over(struct command_draft *d, json_t *ret, struct text *t)
{
	d->ret = ret;
	d->text = *t;
	*t = (struct text){ 0 };
	d->call->cancel = NULL;
	review_soon(d->call, on_over);
}

void
command_draft_failed(struct command_draft *d, const struct koda_error *err)
{
	d->err = *err;
	d->call->cancel = NULL;
	review_soon(d->call, on_over);
}
