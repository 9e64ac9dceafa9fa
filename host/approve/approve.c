/*
 * Asks the embedder for approval of changes and commands. The worker has resolved and judged a
 * change as a dry run. The question shows what it found, and the change is bound to what was shown:
 * canonical path and content go back to the worker as its guard. A command is shown as it will be
 * executed.
 *
 * The functions are declared in host/session/session.h.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "host/approve/asked.h"
#include "host/command/command.h"
#include "host/session/session.h"

static const char *const mode_names[] = {
	[KODA_PLAN] = "Plan",
	[KODA_SAFE] = "Safe",
	[KODA_AUTO] = "Auto",
};

#define NOBODY  "there is nobody to ask"
#define NO_ROOM "memory is too short to ask"

/* ---- changes ---- */

static void
refuse_call(void *about, const char *why)
{
	struct call *c = about;
	char shown[384];

	bytes_show(shown, sizeof(shown), c->result.path, strlen(c->result.path));
	err_set(&c->err, KODA_NOT_APPROVED, 0,
	    "'%s': the %s mode's policy wants each change approved, and %s", shown,
	    mode_names[c->slot->ses->mode], why);
}

static bool
answer_call(void *about, enum koda_scope scope, bool late)
{
	struct call *c = about;
	struct koda_slot *slot = c->slot;
	struct koda_session *ses = slot->ses;

	if (*ses->here != 1)
		return false; /* the parent's question */
	slot_answer(c, scope != KODA_SCOPE_NO);
	if (!late)
		return true; /* the loop goes on with the slot */
	session_enter(ses);
	slot_advance(slot);
	session_rearm(ses, slot);
	session_leave(ses);
	return true;
}

static const struct asked_ops call_ops = { refuse_call, answer_call };

void
approve_done(struct call *c)
{
	struct asked *kept = asked_end(&c->asked);

	if (kept == NULL)
		return;
	/* The embedder may still read the question, which points into the result. */
	kept->seen = c->result;
	c->result = (struct koda_result){ .fd = -1 };
}

static int
fill_edits(struct koda_question *q, const Koda__Edit *m, struct arena *arena)
{
	struct koda_edit *edits = arena_alloc(arena, m->n_replacement * sizeof(*edits));

	if (edits == NULL)
		return -1;
	for (size_t i = 0; i < m->n_replacement; i++) {
		const Koda__Replacement *r = m->replacement[i];

		edits[i] = (struct koda_edit){ r->old.data, r->old.len, r->new_.data, r->new_.len,
			r->has_all && r->all };
	}
	q->edits = edits;
	q->n_edits = m->n_replacement;
	return 0;
}

static int
map_content(struct asked *a, int fd)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_size == 0)
		return 0;
	/* The memfd is sealed, so no process can change what is shown. */
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	a->content = p;
	a->content_len = (size_t)st.st_size;
	a->question.data = p;
	a->question.len = a->content_len;
	return 0;
}

static int
fill_question(struct asked *a, const struct call *c)
{
	Koda__Request *req = request_unpack(&c->request, &a->arena);

	if (req == NULL)
		return -1;
	a->question = (struct koda_question){
		.kind = c->kind,
		.mode = c->slot->ses->mode,
		.path = c->result.path,
		.to = c->result.to,
		.type = c->result.type,
		.size_before = c->result.size_before,
		.size_after = c->result.size,
		.lines = c->result.lines,
		.replacements = c->result.replacements,
		.entries = c->result.removed,
	};
	if (req->op_case == KODA__REQUEST__OP_WRITE && req->write->has_content) {
		a->question.data = req->write->content.data;
		a->question.len = req->write->content.len;
	}
	if (c->fd >= 0 && map_content(a, c->fd) < 0)
		return -1;
	if (req->op_case == KODA__REQUEST__OP_EDIT) {
		if (c->result.n_lines != req->edit->n_replacement)
			a->question.lines = NULL;
		return fill_edits(&a->question, req->edit, &a->arena);
	}
	return 0;
}

void
approve_ask(struct koda_session *ses, struct call *c)
{
	struct asked *a;

	if (ses->approve == NULL) {
		asked_refuse(&call_ops, c, NOBODY);
		return;
	}
	c->approval_done = approve_done;
	a = asked_new(&call_ops, c, &c->asked, c->done == NULL);
	if (a == NULL || fill_question(a, c) < 0) {
		approve_done(c);
		asked_refuse(&call_ops, c, NO_ROOM);
		return;
	}
	asked_put(a, ses->approve, ses->data);
}

/* ---- commands ---- */

static void
refuse_command(void *about, const char *why)
{
	struct koda_command *c = about;
	char shown[384];

	bytes_show(shown, sizeof(shown), c->name, strlen(c->name));
	err_set(&c->error, KODA_NOT_APPROVED, 0,
	    "'%s' was not run: the %s mode's policy wants each command approved, and %s", shown,
	    mode_names[c->slot->ses->mode], why);
}

static bool
answer_command(void *about, enum koda_scope scope, bool late)
{
	struct koda_command *c = about;
	struct koda_session *ses = c->slot->ses;

	if (*ses->here != 1)
		return false; /* the parent's question */
	session_enter(ses);
	command_answer(c, scope != KODA_SCOPE_NO);
	session_leave(ses);
	return true;
}

static const struct asked_ops command_ops = { refuse_command, answer_command };

void
approve_command_done(struct koda_command *c)
{
	asked_end(&c->asked);
}

void
approve_ask_command(struct koda_session *ses, struct koda_command *c)
{
	struct asked *a;

	if (ses->approve == NULL) {
		asked_refuse(&command_ops, c, NOBODY);
		return;
	}
	a = asked_new(&command_ops, c, &c->asked, c->sync);
	if (a == NULL) {
		asked_refuse(&command_ops, c, NO_ROOM);
		return;
	}
	a->question = (struct koda_question){
		.kind = KODA_OP_RUN,
		.mode = ses->mode,
		.path = c->cwd,
		.argv = (const char *const *)c->argv,
		.cwd = c->cwd,
		.env = (const char *const *)c->added,
	};
	asked_put(a, ses->approve, ses->data);
}
