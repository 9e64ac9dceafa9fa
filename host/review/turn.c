/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/draft/history_file.h"
#include "host/review/git_part.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/message.h"

/* A git directory whose refs and index are applied together. */
struct git_dir {
	const char *path; /* of an item */
	size_t len;
	bool blocked; /* something that they need, or one of them, was not applied */
};

struct swap_batch {
	struct turn *turn;
	struct history_item *item[SWAP_ITEMS_MAX];
	size_t n, bytes;
	bool state; /* the items are refs and indexes */
	struct git_dir *git;
	size_t n_git;
	int stopped;
	bool elsewhere; /* the history is on another file system */
	size_t made;    /* the number of the last item that find_made() has found, or of all */
};

static void
batch_done(struct swap_batch *b)
{
	free(b->git);
}

/* ---- git directories ---- */

/* Returns the number of the git directory that the item is in; 0: it is in none. -1 with *err set. */
static int
find_git(struct swap_batch *b, const struct history_item *item, enum git_part *ret_part,
    struct koda_error *err)
{
	struct git_dir *grown;
	size_t len = 0;

	*ret_part = git_part_of(item->place, &len);
	if (*ret_part == GIT_PART_NONE)
		return 0;
	for (size_t i = 0; i < b->n_git; i++)
		if (b->git[i].len == len && memcmp(b->git[i].path, item->place, len) == 0)
			return (int)i + 1;
	grown = reallocarray(b->git, b->n_git + 1, sizeof(*grown));
	if (grown == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "apply");
	b->git = grown;
	b->git[b->n_git++] = (struct git_dir){ item->place, len, false };
	return (int)b->n_git;
}

/* Returns the path of the item's git directory, the caller's; NULL: there is no memory. */
static char *
git_path(const struct history_item *item)
{
	size_t len = 0;

	return git_part_of(item->place, &len) != GIT_PART_NONE ? strndup(item->place, len) : NULL;
}

static bool
is_deleted(const struct history_item *item)
{
	return item->kind == KODA__DRAFT_KIND__DRAFT_DELETED;
}

/* Only a draft brings what belongs together. */
static bool
is_of_draft(const struct swap_batch *b)
{
	return !history_is_of_files(b->turn->history);
}

/* Refs and index stay as they are if one of them, or an object, could not be applied. An object that
 * the project already has (a conflict) is there. Objects are taken back when the rest has been. */
static int
note_failed(struct swap_batch *b, const struct history_item *item, bool conflict,
    struct koda_error *err)
{
	enum git_part part;
	const int git = is_of_draft(b) ? find_git(b, item, &part, err) : 0;

	if (git > 0 &&
	    (part == GIT_PART_STATE ||
		(part == GIT_PART_OBJECT && !b->turn->undo && !is_deleted(item) && !conflict)))
		b->git[git - 1].blocked = true;
	return git < 0 ? -1 : 0;
}

/* ---- what is asked ---- */

/* The messages that one item consists of. */
struct swap_asked {
	Koda__SwapItem item;
	Koda__Identity here, held;
};

/* How to find out whether it was changed since. */
enum unchanged {
	NOT_ASKED,
	BY_CTIME,
	/*
	 * For file operations: the same file can be in several changes of one entry, and moving it for
	 * the last one changes its ctime. A change that keeps size, permissions and mtime is not
	 * noticed; it is not lost either, because whatever is at the place is held.
	 */
	BY_MTIME,
};

static Koda__Identity *
identity(const struct draft_side *s, enum unchanged how, Koda__Identity *ret)
{
	if (s->type == 0)
		return NULL;
	koda__identity__init(ret);
	ret->type = s->type;
	ret->dev = s->dev;
	ret->ino = s->ino;
	ret->has_ctime_ns = how == BY_CTIME;
	ret->ctime_ns = s->ctime_ns;
	ret->has_mtime_ns = ret->has_size = ret->has_mode = how == BY_MTIME;
	ret->mtime_ns = s->mtime_ns;
	ret->size = s->size;
	ret->mode = s->mode;
	return ret;
}

static bool
is_directory(const struct draft_side *s)
{
	return s->type == KODA__FILE_TYPE__FILE_DIRECTORY;
}

/* Returns the item that made the directory which this one closes, or NULL. Those that close come in the
 * opposite order of those that make. */
static const struct history_item *
find_made(struct swap_batch *b, const struct history_item *item)
{
	const struct history *h = b->turn->history;

	for (size_t i = 0; i < h->n_items; i++) {
		b->made = b->made == 0 ? h->n_items - 1 : b->made - 1;
		if (h->item[b->made].kind == KODA__DRAFT_KIND__DRAFT_CREATED &&
		    strcmp(h->item[b->made].place, item->place) == 0)
			return &h->item[b->made];
	}
	return NULL;
}

static void
ask(struct swap_batch *b, const struct history_item *item, int together, struct swap_asked *ret)
{
	const bool undo = b->turn->undo, of_files = history_is_of_files(b->turn->history);
	const struct history_item *made = !undo && history_closes(item) ? find_made(b, item) : NULL;
	/* Until it was done for the first time, what comes to the place is in the draft. */
	const bool first = item->state == ITEM_PENDING;
	const struct draft_side *here = first ? &item->before : &item->here;
	const struct draft_side *held = first ? &item->after : &item->held;
	Koda__SwapItem *m = &ret->item;

	koda__swap_item__init(m);
	m->name = message_text(item->name);
	m->place = message_text(item->place);
	m->has_layer = first;
	m->layer = item->layer;
	m->has_take = m->take = item->take;
	m->has_together = together > 0;
	m->together = (uint32_t)together;
	m->here = identity(here, of_files ? BY_MTIME : BY_CTIME, &ret->here);
	switch (item->kind) {
	case KODA__DRAFT_KIND__DRAFT_MODE:
		if (made != NULL && made->here.type != 0)
			m->here = identity(&made->here, NOT_ASKED, &ret->here);
		m->has_mode = true;
		m->mode = undo ? item->before.mode : item->after.mode;
		m->has_mode_here = true;
		m->mode_here = here->mode;
		return;
	case KODA__DRAFT_KIND__DRAFT_CREATED:
		if (is_directory(&item->after)) {
			m->has_directory = true;
			m->directory = item->after.mode;
			if (!undo)
				m->here = NULL;
			return;
		}
		if (first)
			m->here = NULL;
		break;
	case KODA__DRAFT_KIND__DRAFT_RENAMED:
		m->has_from = true;
		m->from = message_text(undo ? item->to : item->place);
		m->place = message_text(undo ? item->place : item->to);
		m->here = NULL;
		break;
	case KODA__DRAFT_KIND__DRAFT_CHANGED:
	case KODA__DRAFT_KIND__DRAFT_DELETED:
	case _KODA__DRAFT_KIND_IS_INT_SIZE:
		break;
	}
	/* Commands may have gone on in the draft after the list was made. */
	m->held = identity(held, first ? BY_CTIME : NOT_ASKED, &ret->held);
}

/* ---- what is answered ---- */

static enum koda_apply_outcome
outcome_of(const Koda__SwapResult *r)
{
	switch (r->outcome) {
	case KODA__SWAP_OUTCOME__SWAP_DONE:
	case KODA__SWAP_OUTCOME__SWAP_WAS_DONE:
		return KODA_APPLIED;
	case KODA__SWAP_OUTCOME__SWAP_REFUSED:
		return KODA_APPLY_REFUSED;
	case KODA__SWAP_OUTCOME__SWAP_CONFLICT:
	case KODA__SWAP_OUTCOME__SWAP_GONE:
		return KODA_APPLY_CONFLICT;
	case KODA__SWAP_OUTCOME__SWAP_FAILED:
	case _KODA__SWAP_OUTCOME_IS_INT_SIZE:
		break;
	}
	return KODA_APPLY_FAILED;
}

static char *
text_of(bool has, const ProtobufCBinaryData *b)
{
	return has && b->len > 0 && memchr(b->data, '\0', b->len) == NULL
	    ? strndup((const char *)b->data, b->len)
	    : NULL;
}

static int
tell(struct swap_batch *b, const struct history_item *item, enum koda_apply_outcome outcome,
    const char *rule, const char *reason, const char *together)
{
	const bool applied = outcome == KODA_APPLIED && !b->turn->undo;
	const struct koda_applied one = { item->place, (enum koda_change_kind)item->kind, outcome,
		rule, reason, applied ? item->note : NULL, together, applied && item->merged };
	int r;

	/* It is a part of making the directory. */
	if (b->turn->fn == NULL || (history_closes(item) && outcome == KODA_APPLIED))
		return 0;
	/* What was done is reported, also after fn wanted to stop. */
	r = b->turn->fn(b->turn->data, &one);
	b->stopped = b->stopped != 0 ? b->stopped : r;
	return 0;
}

static int
take_result(struct swap_batch *b, struct history_item *item, const Koda__SwapResult *r,
    struct koda_error *err)
{
	const enum koda_apply_outcome outcome = outcome_of(r);
	cleanup_free char *rule = text_of(r->has_rule, &r->rule),
			  *reason = text_of(r->has_reason, &r->reason), *together = NULL;

	if (outcome == KODA_APPLIED) {
		item->state = b->turn->undo ? ITEM_UNDONE : ITEM_DONE;
		if (history_settle(b->turn->history, item, b->turn->undo, r->here, r->held, err) <
		    0)
			return -1;
		return tell(b, item, outcome, NULL, NULL, NULL);
	}
	if (item->state == ITEM_PENDING)
		item->state = ITEM_NOT_DONE;
	if (note_failed(b, item, outcome == KODA_APPLY_CONFLICT, err) < 0)
		return -1;
	if (reason == NULL)
		reason = strdup(r->has_errnum            ? strerror((int)r->errnum)
			: outcome == KODA_APPLY_CONFLICT ? "it was changed in the project meanwhile"
							 : "it could not be done");
	together = b->state && outcome == KODA_APPLY_CONFLICT ? git_path(item) : NULL;
	return tell(b, item, outcome, rule, reason == NULL ? "" : reason, together);
}

static int
take_reply(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct swap_batch *b = data;

	if (reply->result_case != KODA__REPLY__RESULT_SWAP || reply->swap->n_result != b->n)
		return err_set(err, KODA_PROTOCOL, 0,
		    "the worker's reply: not a result for each change");
	for (size_t i = 0; i < b->n; i++)
		if (take_result(b, b->item[i], reply->swap->result[i], err) < 0)
			return -1;
	return 0;
}

/* ---- on disk ---- */

static int
not_synced(const char *what, struct koda_error *err)
{
	return err_set(err, KODA_IO, errno, "%s", what);
}

/*
 * The overlay is mounted volatile: an fsync of a command in the draft did nothing. So what is brought
 * is written to disk before it takes the place of anything: otherwise a power failure could leave an
 * empty file where a whole one was. The history is on the file system that the drafts are on.
 */
static int
sync_sources(const struct turn *t, struct koda_error *err)
{
	return syncfs(t->history->fd) == 0
	    ? 0
	    : not_synced("nothing was changed, because the draft's files could not be written to "
			 "disk",
		  err);
}

/* The root's file system, or all, if there are places outside the root. */
static int
sync_places(const struct turn *t, struct koda_error *err)
{
	const struct history *h = t->history;
	cleanup_close int fd = open(h->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool outside = fd < 0;

	for (size_t i = 0; i < t->n && !outside; i++)
		outside = !path_is_inside(h->item[t->order[i]].place, h->root);
	if (outside) {
		sync();
		return 0;
	}
	return syncfs(fd) == 0
	    ? 0
	    : not_synced(
		  "the changes were made, but a power failure may undo them, because syncing "
		  "failed",
		  err);
}

/* Would results be on disk before the changes, if they were written at once? On one file system they
 * are written in order. */
static bool
is_elsewhere(const struct turn *t)
{
	struct stat history, root;

	return fstat(t->history->fd, &history) < 0 || stat(t->history->root, &root) < 0 ||
	    history.st_dev != root.st_dev;
}

/* ---- batches ---- */

static int
send(struct swap_batch *b, struct koda_error *err)
{
	cleanup_free struct swap_asked *asked = calloc(b->n, sizeof(*asked));
	Koda__SwapItem *list[SWAP_ITEMS_MAX];
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Swap msg = KODA__SWAP__INIT;

	if (asked == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "apply");
	for (size_t i = 0; i < b->n; i++) {
		enum git_part part;
		const int git = b->state ? find_git(b, b->item[i], &part, err) : 0;

		if (git < 0)
			return -1;
		ask(b, b->item[i], git, &asked[i]);
		list[i] = &asked[i].item;
	}
	msg.item = list;
	msg.n_item = b->n;
	req.op_case = KODA__REQUEST__OP_SWAP;
	req.swap = &msg;
	if (held_ask(b->turn->held, &req, take_reply, b, err) < 0 ||
	    (b->elsewhere && sync_places(b->turn, err) < 0))
		return -1;
	return history_results(b->turn->history, b->item, b->n, err);
}

/* Bytes of one item's messages, generously. */
static size_t
bytes_of_item(const struct history_item *item)
{
	return strlen(item->place) + (item->to == NULL ? 0 : strlen(item->to)) + 256;
}

/* Does the item concern a name that one of the batch does? Then it may depend on its result. */
static bool
depends(const struct swap_batch *b, const struct history_item *item)
{
	/* It needs the result of the one that made its directory. */
	if (!b->turn->undo && history_closes(item) && b->n > 0 && !history_closes(b->item[0]))
		return true;
	for (size_t i = 0; i < b->n && history_is_of_files(b->turn->history); i++) {
		const struct history_item *other = b->item[i];

		if (item->to != NULL || other->to != NULL || strcmp(item->place, other->place) == 0)
			return true;
	}
	return false;
}

static int
flush(struct swap_batch *b, struct koda_error *err)
{
	if (b->n > 0 && b->stopped == 0 && send(b, err) < 0)
		return -1;
	b->n = b->bytes = 0;
	return 0;
}

/* The item is not done, because something that it belongs together with was not. */
static int
leave_out(struct swap_batch *b, struct history_item *item)
{
	cleanup_free char *path = git_path(item);

	if (item->state == ITEM_PENDING)
		item->state = ITEM_NOT_DONE;
	return tell(b, item, KODA_APPLY_CONFLICT, NULL,
	    b->turn->undo ? git_part_taken_back : git_part_together, path);
}

/* Adds an item to the batch, after what it needs has been answered. */
static int
add(struct swap_batch *b, struct history_item *item, struct koda_error *err)
{
	enum git_part part = GIT_PART_NONE;
	const int git = is_of_draft(b) ? find_git(b, item, &part, err) : 0;
	const bool state = git > 0 && part == GIT_PART_STATE && !is_directory(&item->after);
	const bool bound =
	    state || (git > 0 && part == GIT_PART_OBJECT && !b->turn->undo && is_deleted(item));

	if (git < 0)
		return -1;
	if ((state != b->state || b->n == SWAP_ITEMS_MAX || b->bytes >= PAGE_MAX ||
		depends(b, item)) &&
	    flush(b, err) < 0)
		return -1;
	if (b->stopped != 0)
		return 0;
	b->state = state;
	if (bound && b->git[git - 1].blocked)
		return leave_out(b, item);
	b->item[b->n++] = item;
	b->bytes += bytes_of_item(item);
	return 0;
}

/* What a host that was killed did not get done blocks, too. */
static int
note_earlier(struct swap_batch *b, struct koda_error *err)
{
	const struct history *h = b->turn->history;

	for (size_t i = 0; i < h->n_items && !b->turn->undo; i++)
		if (h->item[i].state == ITEM_NOT_DONE &&
		    note_failed(b, &h->item[i], false, err) < 0)
			return -1;
	return 0;
}

int
turn_run(struct turn *t, struct koda_error *err)
{
	cleanup(batch_done) struct swap_batch b = { .turn = t, .elsewhere = is_elsewhere(t) };

	if (note_earlier(&b, err) < 0 || (t->n > 0 && sync_sources(t, err) < 0))
		return -1;
	for (size_t i = 0; i < t->n && b.stopped == 0; i++)
		if (add(&b, &t->history->item[t->order[i]], err) < 0)
			return -1;
	/* An entry that is finished is not looked at again after a power failure. */
	if (flush(&b, err) < 0 || (!b.elsewhere && sync_places(t, err) < 0))
		return -1;
	return history_finish(t->history, err) < 0 ? -1 : b.stopped;
}
