/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/call_question.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "host/slot/request.h"

void
call_question_refuse(void *about, const char *why)
{
	struct call *c = about;
	char shown[384];

	bytes_show(shown, sizeof(shown), c->result.path, strlen(c->result.path));
	err_set(&c->err, KODA_NOT_APPROVED, 0,
	    "'%s' was not changed: in %s mode each change needs the user's approval, and %s", shown,
	    asked_mode_name(c->slot->ses->mode), why);
}

void
call_question_done(struct call *c)
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
call_question_ask(struct call *c, const struct asked_ops *ops)
{
	const struct koda_session *ses = c->slot->ses;
	struct asked *a;

	if (ses->approve == NULL) {
		asked_refuse(ops, c, ASKED_NOBODY);
		return;
	}
	a = asked_new(ops, c, &c->asked, c->done == NULL);
	if (a == NULL || fill_question(a, c) < 0) {
		call_question_done(c);
		asked_refuse(ops, c, ASKED_NO_ROOM);
		return;
	}
	asked_put(a, ses->approve, ses->data);
}
