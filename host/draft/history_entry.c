#include "host/draft/history_entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	*to = (struct draft_side){ from->type, from->dev, from->ino, from->size, from->mode,
		from->mtime_ns, from->ctime_ns, NULL };
	if (!from->has_target)
		return 0;
	to->target = strndup((const char *)from->target.data, from->target.len);
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

static void
item_done(struct history_item *item)
{
	free(item->place);
	side_done(&item->before);
	side_done(&item->after);
	side_done(&item->here);
	side_done(&item->held);
}

void
history_close(struct history *h)
{
	for (size_t i = 0; i < h->n_items; i++)
		item_done(&h->item[i]);
	free(h->item);
	free(h->root);
	free(h->draft);
	close_at(&h->items);
	close_at(&h->fd);
	*h = HISTORY_CLOSED;
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

uint64_t
history_bytes(const struct history *h)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < h->n_items; i++)
		bytes += h->item[i].held.type != 0 ? h->item[i].held.size : 0;
	return bytes;
}
