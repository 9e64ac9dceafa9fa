/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "worker/draft/draft_walk.h"
#include "worker/files/change.h"
#include "worker/ops/op.h"
#include "worker/say.h"

/* The longest entry: a path, the targets of a link, a refusal, a note, and tags and numbers. */
#define ENTRY_MAX (3 * (size_t)PATH_LEN_MAX + KODA_MESSAGE_MAX + DRAFT_NOTE_SIZE + 512)
/* Memory for the parts of a page is allocated in pieces of this size. */
#define PIECE (128u << 10)

struct changes_page {
	struct session *ses;
	Koda__ChangesReply msg;
	uint8_t *piece;
	size_t left;  /* in the piece */
	size_t room;  /* entries */
	size_t bytes; /* packed */
};

/* An entry and what it points to. */
struct listed {
	Koda__DraftEntry entry;
	Koda__DraftSide before, after;
};

static void *
page_alloc(struct changes_page *page, size_t size, struct koda_error *err)
{
	const size_t rounded = (size + 15) & ~(size_t)15;
	void *p;

	if (rounded > page->left) {
		page->piece = session_alloc(page->ses, PIECE, err);
		page->left = page->piece == NULL ? 0 : PIECE;
		if (page->piece == NULL)
			return NULL;
	}
	p = page->piece;
	page->piece += rounded;
	page->left -= rounded;
	return p;
}

static int
keep_text(struct changes_page *page, const char *text, ProtobufCBinaryData *ret,
    struct koda_error *err)
{
	const size_t n = strlen(text);
	uint8_t *p = page_alloc(page, n + 1, err);

	if (p == NULL)
		return -1;
	memcpy(p, text, n);
	*ret = bytes_of(p, n);
	return 0;
}

static int64_t
ns_of(struct timespec t)
{
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int
keep_side(struct changes_page *page, const struct stat *st, const char *target,
    Koda__DraftSide *ret, struct koda_error *err)
{
	koda__draft_side__init(ret);
	ret->type = file_type_of(st->st_mode);
	ret->dev = st->st_dev;
	ret->ino = st->st_ino;
	/* A directory's own size says nothing about what is in it. */
	ret->size = S_ISREG(st->st_mode) || S_ISLNK(st->st_mode) ? (uint64_t)st->st_size : 0;
	ret->mode = st->st_mode & 07777;
	ret->mtime_ns = ns_of(st->st_mtim);
	ret->ctime_ns = ns_of(st->st_ctim);
	ret->has_target = S_ISLNK(st->st_mode);
	return ret->has_target ? keep_text(page, target, &ret->target, err) : 0;
}

static int
add_entry(struct changes_page *page, const struct draft_walk *w, const struct draft_change *c,
    struct koda_error *err)
{
	struct listed *l = page_alloc(page, sizeof(*l), err);
	Koda__DraftEntry *e;

	if (l == NULL)
		return -1;
	e = &l->entry;
	koda__draft_entry__init(e);
	e->layer = (uint32_t)w->layer;
	e->kind = c->kind;
	e->has_conflict = e->conflict = c->conflict;
	e->has_entries = c->kind == KODA__DRAFT_KIND__DRAFT_DELETED && !c->is_refused &&
	    S_ISDIR(w->name.low.st.st_mode);
	e->entries = c->entries;
	e->has_rule = e->has_reason = c->is_refused;
	if (keep_text(page, w->path, &e->path, err) < 0 ||
	    (c->is_refused &&
		(keep_text(page, c->refusal.rule, &e->rule, err) < 0 ||
		    keep_text(page, c->refusal.reason, &e->reason, err) < 0)))
		return -1;
	e->has_note = c->note[0] != '\0';
	if (e->has_note && keep_text(page, c->note, &e->note, err) < 0)
		return -1;
	if (c->has_before) {
		e->before = &l->before;
		if (keep_side(page, &w->name.low.st, w->target_before, &l->before, err) < 0)
			return -1;
	}
	if (c->has_after) {
		e->after = &l->after;
		if (keep_side(page, &w->name.up.st, w->target_after, &l->after, err) < 0)
			return -1;
	}
	if (page->msg.n_entry == page->room)
		return err_set(err, KODA_INTERNAL, 0, "a page of changes is too long");
	page->msg.entry[page->msg.n_entry++] = e;
	/* Its length precedes it. */
	page->bytes += koda__draft_entry__get_packed_size(e) + 4;
	return 0;
}

static int
fill_page(struct changes_page *page, struct draft_walk *w, struct koda_error *err)
{
	int r = w->n_changes > 0 ? 1 : draft_walk_next(w, err);

	while (r > 0) {
		for (size_t i = 0; i < w->n_changes; i++)
			if (add_entry(page, w, &w->change[i], err) < 0)
				return -1;
		memcpy(w->last, w->path, strlen(w->path) + 1);
		w->last_kind = w->change[w->n_changes - 1].kind;
		w->n_changes = 0;
		/* All changes of a name are on one page. */
		if (page->bytes + 2 * ENTRY_MAX > PAGE_MAX || page->msg.n_entry + 2 > page->room) {
			page->msg.has_more = page->msg.more = true;
			return 0;
		}
		r = draft_walk_next(w, err);
	}
	return r;
}

/* Is this the page after the last one? */
static bool
goes_on(const struct draft_walk *w, const Koda__Changes *ask)
{
	return w != NULL && w->layer == ask->layer && ask->has_after && w->last[0] != '\0' &&
	    w->last_kind == ask->after_kind && strlen(w->last) == ask->after.len &&
	    memcmp(w->last, ask->after.data, ask->after.len) == 0;
}

/* Sets ses->walk to where the page begins. */
static int
find_beginning(struct session *ses, const Koda__Changes *ask, struct koda_error *err)
{
	char path[PATH_LEN_MAX + 1];
	int fd;

	if (goes_on(ses->walk, ask)) {
		fd = draft_open_project(ses, ask->layer, err);
		if (fd >= 0)
			close(fd);
		return fd < 0 ? -1 : 0;
	}
	draft_walk_free(ses->walk);
	ses->walk = draft_walk_new(ses, ask->layer, err);
	if (ses->walk == NULL)
		return -1;
	if (!ask->has_after)
		return 0;
	memcpy(path, ask->after.data, ask->after.len);
	path[ask->after.len] = '\0';
	return draft_walk_seek(ses->walk, path, ask->after_kind, err);
}

int
op_changes(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Changes *ask = req->changes;
	struct changes_page *page = session_alloc(ses, sizeof(*page), err);
	int r;

	if (page == NULL)
		return -1;
	if (ask->layer >= ses->n_layers)
		return err_set(err, KODA_INVALID, 0, "the draft has no layer %u", ask->layer);
	page->ses = ses;
	koda__changes_reply__init(&page->msg);
	page->room = PAGE_MAX / 64;
	page->msg.entry = session_alloc(ses, page->room * sizeof(*page->msg.entry), err);
	r = page->msg.entry == NULL ? -1 : find_beginning(ses, ask, err);
	if (r == 0)
		r = fill_page(page, ses->walk, err);
	if (r == 0)
		page->msg.has_cut = page->msg.cut = ses->walk->cut;
	if (r < 0 || !page->msg.has_more) {
		draft_walk_free(ses->walk);
		ses->walk = NULL;
	}
	rep->result_case = KODA__REPLY__RESULT_CHANGES;
	rep->changes = &page->msg;
	return r;
}
