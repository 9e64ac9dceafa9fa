/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/history_entry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/message.h"

void
side_done(struct draft_side *s)
{
	free(s->target);
	*s = (struct draft_side){ 0 };
}

int
side_take(struct draft_side *to, const Koda__DraftSide *from, struct koda_error *err)
{
	side_done(to);
	if (from == NULL)
		return 0;
	if (from->has_target && from->target.len > PATH_LEN_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "the target of a link is longer than a path");
	*to = (struct draft_side){ from->type, from->dev, from->ino, from->size, from->mode,
		from->mtime_ns, from->ctime_ns, NULL };
	if (!from->has_target)
		return 0;
	to->target = from->target.len == 0
	    ? strdup("")
	    : strndup((const char *)from->target.data, from->target.len);
	return to->target != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "draft");
}

int
side_copy(struct draft_side *to, const struct draft_side *from, struct koda_error *err)
{
	char *target = from->target == NULL ? NULL : strdup(from->target);

	if (from->target != NULL && target == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	side_done(to);
	*to = *from;
	to->target = target;
	return 0;
}

Koda__DraftSide *
side_put(const struct draft_side *s, Koda__DraftSide *store)
{
	if (s->type == 0)
		return NULL;
	koda__draft_side__init(store);
	store->type = s->type;
	store->dev = s->dev;
	store->ino = s->ino;
	store->size = s->size;
	store->mode = s->mode;
	store->mtime_ns = s->mtime_ns;
	store->ctime_ns = s->ctime_ns;
	if (s->target != NULL) {
		store->has_target = true;
		store->target = message_text(s->target);
	}
	return store;
}

void
history_item_done(struct history_item *item)
{
	free(item->place);
	free(item->note);
	side_done(&item->before);
	side_done(&item->after);
	side_done(&item->here);
	side_done(&item->held);
	free(item->to);
	free(item->unkept);
}

void
history_close(struct history *h)
{
	for (size_t i = 0; i < h->n_items; i++)
		history_item_done(&h->item[i]);
	free(h->item);
	free(h->root);
	free(h->draft);
	close_at(&h->items);
	close_at(&h->fd);
	*h = HISTORY_CLOSED;
}

bool
history_closes(const struct history_item *item)
{
	return item->kind == KODA__DRAFT_KIND__DRAFT_MODE &&
	    item->before.type == KODA__FILE_TYPE__FILE_DIRECTORY && item->before.ino == 0;
}

struct history_item *
history_add(struct history *h, struct koda_error *err)
{
	if (h->n_items == HISTORY_ITEMS_MAX) {
		err_set(err, KODA_TOO_LARGE, 0, "more than %d changes: apply a part of them",
		    HISTORY_ITEMS_MAX);
		return NULL;
	}
	if (h->n_items == h->size) {
		const size_t more = h->size == 0 ? 64 : 2 * h->size;
		struct history_item *grown = reallocarray(h->item, more, sizeof(*grown));

		if (grown == NULL) {
			err_set(err, KODA_INTERNAL, ENOMEM, "history");
			return NULL;
		}
		h->item = grown;
		h->size = more;
	}
	h->item[h->n_items] = (struct history_item){ 0 };
	return &h->item[h->n_items++];
}

bool
history_is_of_files(const struct history *h)
{
	return h->draft[0] == '\0';
}

static bool
is_same(const struct draft_side *a, const struct draft_side *b)
{
	return a->type != 0 && b->type != 0 && a->dev == b->dev && a->ino == b->ino;
}

/* What has that path, or is below it, has it below the other one. */
static void
follow(char path[PATH_LEN_MAX + 1], const char *from, const char *to)
{
	char below[PATH_LEN_MAX + 1];

	if (!path_is_inside(path, from))
		return;
	snprintf(below, sizeof(below), "%s", path + strlen(from));
	snprintf(path, PATH_LEN_MAX + 1, "%s%s", to, below);
}

/* The next item in that direction that brought `was` to where item i found it knows it as `now` from
 * here on. A rename only carried it on. The place counts, too: numbers of inodes are used again. */
static void
pass_on(struct history *h, size_t i, int step, const struct draft_side *was,
    const struct draft_side *now)
{
	char path[PATH_LEN_MAX + 1];

	snprintf(path, sizeof(path), "%s", h->item[i].place);
	for (i += (size_t)step; i < h->n_items; i += (size_t)step) {
		struct history_item *item = &h->item[i];
		struct draft_side *side = item->to != NULL ? &item->held : &item->here;
		const char *from = item->to != NULL && step < 0 ? item->to : item->place;

		if (strcmp(path, from) == 0 && is_same(side, was)) {
			side->dev = now->dev;
			side->ino = now->ino;
			if (item->to == NULL)
				return;
		}
		if (item->to != NULL)
			follow(path, from, step < 0 ? item->place : item->to);
	}
}

void
history_copied(struct history *h, size_t i, const struct draft_side *was,
    const struct draft_side *now)
{
	if (was->type != 0 && now->type != 0 && !is_same(was, now))
		pass_on(h, i, -1, was, now);
}

int
history_settle(struct history *h, struct history_item *item, bool undone,
    const Koda__DraftSide *here, const Koda__DraftSide *held, struct koda_error *err)
{
	const struct draft_side old_here = item->here, old_held = item->held;
	const size_t i = (size_t)(item - h->item);
	const int back = undone ? -1 : 1;
	int r = 0;

	item->here = item->held = (struct draft_side){ 0 };
	if (item->to != NULL)
		r = side_take(&item->held, here, err);
	else if (side_take(&item->here, here, err) < 0 || side_take(&item->held, held, err) < 0)
		r = -1;
	/* A directory is not held: it is made again, and the changes after it mean that one then. */
	if (undone && item->kind == KODA__DRAFT_KIND__DRAFT_CREATED && item->held.type == 0 &&
	    old_here.type == KODA__FILE_TYPE__FILE_DIRECTORY) {
		item->held = old_here;
		item->held.target = NULL;
	}
	if (history_is_of_files(h) && item->to == NULL) {
		/* What came to the place, and what went away. */
		if (!is_same(&old_held, &item->here) && old_held.type != 0 && item->here.type != 0)
			pass_on(h, i, back, &old_held, &item->here);
		if (!is_same(&old_here, &item->held) && old_here.type != 0 && item->held.type != 0)
			pass_on(h, i, -back, &old_here, &item->held);
	}
	free(old_here.target);
	free(old_held.target);
	return r;
}
