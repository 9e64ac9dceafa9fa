/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/command_draft.h"

#include <stdlib.h>

#include "mcp/approval.h"
#include "mcp/change_set.h"
#include "mcp/commands.h"
#include "mcp/fault.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/review.h"
#include "mcp/session_drafts.h"
#include "mcp/tool_args.h"
#include "mcp/tool_call.h"
#include "mcp/tool_decide.h"
#include "show/diff.h"

struct command_draft {
	struct tool_call *call;
	struct koda_slot *slot; /* the session's, when it ends before the command */
	char *id;
	json_t *ret; /* the result so far; NULL: err is */
	struct text text;
	struct koda_error err;
	struct change_set set;
	enum draft_end end;
	struct koda_draft *draft; /* until it is applied or discarded */
	struct text covers;
};

/* Returns what narrows the session's policy for a command that was not approved: no host is open to
 * it, so that each is asked for, and the caches that it writes are not the user's own. Everything else
 * is allowed, because the session's policy restricts the rest. */
static struct koda_policy *
unapproved_policy(struct koda_error *err)
{
	struct koda_policy *ret = koda_policy_new();
	int r = 0;

	if (ret == NULL) {
		fault_set(err, KODA_INTERNAL, 0, "out of memory");
		return NULL;
	}
	for (int flag = 0; r == 0 && flag < KODA_N_FLAGS; flag++)
		r = koda_policy_set_flag(ret, (enum koda_flag)flag,
		    flag != KODA_ANY_DOMAIN && flag != KODA_SHARE_CACHES, err);
	if (r == 0 && koda_policy_add_none(ret, KODA_ALLOWED_DOMAINS, err) == 0 &&
	    koda_policy_freeze(ret, err) == 0)
		return ret;
	koda_policy_free(ret);
	return NULL;
}

static struct koda_slot *
open_slot(struct connection *conn, bool unapproved, struct koda_error *err)
{
	struct koda_slot_options options = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_policy *policy = NULL;
	struct koda_slot *slot = NULL;

	if (unapproved) {
		policy = unapproved_policy(err);
		if (policy == NULL)
			return NULL;
		options.policy = policy;
	}
	if (review_enter(conn, err) == 0) {
		slot = koda_slot_open(conn->ses, &options, err);
		review_leave(conn);
	}
	koda_policy_free(policy);
	return slot;
}

struct command_draft *
command_draft_new(struct tool_call *call, enum draft_end end, struct koda_error *err)
{
	struct koda_slot *slot = open_slot(call->conn, end == DRAFT_ASKED, err);
	struct command_draft *d;

	if (slot == NULL)
		return NULL;
	d = memory_zero(sizeof(*d));
	*d = (struct command_draft){
		.call = call,
		.slot = slot,
		.id = memory_string(koda_slot_draft(slot)),
		/* If the client wants the draft itself, draft_apply asks. */
		.end = tool_bool(call, "draft") ? DRAFT_KEPT : end,
	};
	session_drafts_add(call->conn, d->id);
	return d;
}

void
command_draft_free(struct command_draft *d)
{
	if (d == NULL)
		return;
	koda_draft_close(d->draft);
	json_decref(d->ret);
	text_done(&d->text);
	text_done(&d->covers);
	change_set_done(&d->set);
	free(d->id);
	free(d);
}

struct koda_slot *
command_draft_slot(const struct command_draft *d)
{
	return d->slot;
}

/* ---- what it changed ---- */

/* Lists the changes, and discards the draft if there are none. Otherwise the draft stays open unless
 * it is kept. Returns -1 with *err set. */
static int
look(struct command_draft *d, struct koda_error *err)
{
	const struct koda_apply_options all = { 0 };
	struct connection *conn = d->call->conn;
	struct koda_draft *draft;
	int r;

	if (review_enter(conn, err) < 0)
		return -1;
	draft = koda_draft_open(conn->ses, d->id, err);
	if (draft == NULL)
		r = -1;
	else if (d->end == DRAFT_ASKED)
		r = change_set_plan(&d->set, draft, conn->root, &all, err);
	else
		r = change_set_list(&d->set, draft, conn->root, err);
	if (r == 0 && d->set.n_all == 0 && !d->set.cut)
		r = koda_draft_discard(draft, NULL, 0, err);
	else if (r == 0 && d->end != DRAFT_KEPT) {
		d->draft = draft;
		draft = NULL;
	}
	koda_draft_close(draft);
	review_leave(conn);
	return r;
}

/* Ends the call with the result and a sentence about the draft. */
static void
tell(struct command_draft *d, struct text *sentence)
{
	const bool kept = !session_drafts_gone(d->call->conn, d->id);

	decide_add(d->ret, &d->set);
	if (kept)
		json_object_set_new_nocheck(d->ret, "draft", json_string_nocheck(d->id));
	text_printf(&d->text, "\n[");
	text_add(&d->text, sentence->p, sentence->len);
	text_printf(&d->text, "]\n");
	text_done(sentence);
	change_set_lines(&d->set, &d->text);
	tool_done(d->call, json_incref(d->ret), &d->text);
}

static void
tell_kept(struct command_draft *d)
{
	struct text t = { 0 };

	koda_draft_close(d->draft);
	d->draft = NULL;
	text_printf(&t, "draft %s holds ", d->id);
	change_set_counts(&d->set, &t);
	text_printf(&t, " back: draft_apply applies them, draft_discard discards them");
	tell(d, &t);
}

/* ---- apply and discard ---- */

static void
discard(struct command_draft *d, const char *why)
{
	struct connection *conn = d->call->conn;
	struct text t = { 0 };
	struct koda_error err;
	int r = review_enter(conn, &err);

	if (r == 0) {
		r = koda_draft_discard(d->draft, NULL, 0, &err);
		koda_draft_close(d->draft);
		d->draft = NULL;
		review_leave(conn);
	}
	json_object_set_new_nocheck(d->ret, "discarded", json_true());
	if (r == 0)
		record_draft(conn, d->id, "discarded", why);
	text_printf(&t, "the project is as it was before: ");
	change_set_counts(&d->set, &t);
	text_printf(&t, " of this command %s, because %s", r == 0 ? "discarded" : "not applied",
	    why);
	tell(d, &t);
}

/* What the policy refuses can never be applied. A conflict may be decided on later. */
static void
drop_refused(struct command_draft *d)
{
	struct koda_error err;

	if (!d->set.cut &&
	    d->set.n_outcome[KODA_APPLY_CONFLICT] + d->set.n_outcome[KODA_APPLY_FAILED] +
		    d->set.n_outcome[KODA_APPLY_SKIPPED] ==
		0)
		koda_draft_discard(d->draft, NULL, 0, &err);
}

static void
apply(struct command_draft *d)
{
	struct connection *conn = d->call->conn;
	const struct koda_apply_options all = { 0 };
	const bool held = approval_effects_begin(conn, &d->covers);
	char undo[KODA_HISTORY_ID_SIZE] = "";
	struct text t = { 0 };
	struct koda_error err;
	int r = review_enter(conn, &err);

	if (r < 0) {
		tool_failed(d->call, &err, NULL);
		return;
	}
	change_set_done(&d->set);
	d->set.root = conn->root;
	d->set.done = true;
	r = koda_draft_apply(d->draft, &all, change_set_add, &d->set, undo, &err);
	if (r == 0)
		drop_refused(d);
	koda_draft_close(d->draft);
	d->draft = NULL;
	review_leave(conn);
	approval_effects_end(conn, &d->covers, held);
	if (undo[0] != '\0')
		json_object_set_new_nocheck(d->ret, "undo", json_string_nocheck(undo));
	text_printf(&t, "%llu of ", (unsigned long long)d->set.n_outcome[KODA_APPLIED]);
	change_set_counts(&d->set, &t);
	text_printf(&t, " applied to the project%s%s",
	    undo[0] != '\0' ? "; undo takes them back as " : "", undo);
	record_draft(conn, d->id, "applied", NULL);
	if (r < 0) {
		text_printf(&t, ", then: ");
		text_show_string(&t, err.message);
	}
	tell(d, &t);
}

/* ---- Safe: the user decides ---- */

static void
on_answered(struct tool_call *call, bool yes)
{
	const struct command_run *run = call->state;

	if (yes && !call->mute)
		apply(run->draft);
	else
		discard(run->draft,
		    call->mute          ? "the call was cancelled"
			: call->can_ask ? "the user did not approve it"
					: "this client cannot ask the user");
}

/* Writes the command as a question shows it. Returns false if not all of it is shown. */
static bool
show_command(struct text *t, const char *command, const char *cwd)
{
	struct page page = { .medium.style = PAGE_MESSAGE };
	char *text = NULL;
	size_t len = 0;
	bool whole;

	page.f = open_memstream(&text, &len);
	if (page.f == NULL)
		return false;
	page_print(&page, "apply what this command has changed in the project? It ran in ");
	page_name(&page, cwd);
	page_print(&page, "\nsh -c\n");
	diff_script(&page, command);
	page_print(&page, "and did this:\n");
	whole = fclose(page.f) == 0 && !page.failed && !page.cut;
	text_add(t, text, len);
	free(text);
	return whole;
}

static void
ask(struct command_draft *d)
{
	const struct command_run *run = d->call->state;
	struct connection *conn = d->call->conn;
	const char *command = tool_string(d->call, "command"),
		   *cwd = run->cwd != NULL ? run->cwd : conn->root;
	const char *const argv[] = { "sh", "-c", command, NULL };
	struct text t = { 0 }, diffs = { 0 };
	struct koda_error err;
	bool whole = show_command(&t, command, cwd);

	if (review_enter(conn, &err) == 0) {
		whole = change_set_diffs(&d->set, d->draft, false, &diffs) && whole;
		review_leave(conn);
	} else {
		whole = false;
	}
	change_set_lines(&d->set, &t);
	text_add(&t, diffs.p, diffs.len);
	text_done(&diffs);
	approval_cover_effects(&d->covers, argv, cwd);
	/* A running command may change a file between the look at the tree and the end. */
	if (commands_run())
		approval_lapse(conn);
	approval_effects(d->call, &t, !whole, &d->covers, on_answered);
	text_done(&t);
}

/* ---- the end ---- */

static void
end_slot(struct command_draft *d)
{
	record_slot(d->call->conn, d->slot);
	koda_slot_end(d->slot, NULL);
	koda_slot_release(d->slot);
	d->slot = NULL;
}

/* A slot cannot be released while it reports the end of its command, so this happens in the next turn
 * of the loop. */
static void
on_over(struct tool_call *call)
{
	const struct command_run *run = call->state;
	struct command_draft *d = run->draft;
	struct koda_error err;

	end_slot(d);
	if (d->ret == NULL)
		d->end = DRAFT_KEPT;
	if (look(d, &err) < 0 || d->ret == NULL) {
		session_drafts_gone(call->conn, d->id);
		tool_failed(call, d->ret == NULL ? &d->err : &err, NULL);
	} else if (d->set.n_all == 0 && !d->set.cut) {
		struct text t = { 0 };

		text_printf(&t, "it changed nothing in the project");
		tell(d, &t);
	} else if (d->end == DRAFT_KEPT ||
	    (d->end == DRAFT_ASKED && d->set.n_outcome[KODA_APPLIED] == 0 && d->set.cut)) {
		tell_kept(d);
	} else if (d->end == DRAFT_JUDGED) {
		apply(d);
	} else if (d->set.n_outcome[KODA_APPLIED] == 0) {
		discard(d, "none of it can be applied");
	} else {
		ask(d);
	}
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
