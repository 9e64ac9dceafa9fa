/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/own.h"

#include <stdlib.h>
#include <string.h>

#include "host/draft/history.h"
#include "shared/base/cleanup.h"

struct own_file {
	char *path;
	struct draft_side side; /* without its target */
};

void
own_done(struct own *o)
{
	while (o->n > 0)
		free(o->v[--o->n].path);
	free(o->v);
	*o = (struct own){ 0 };
}

/* ---- reading ---- */

static bool
is_file(const struct draft_side *s)
{
	return s->type == KODA__FILE_TYPE__FILE_REGULAR || s->type == KODA__FILE_TYPE__FILE_SYMLINK;
}

/* Returns 1 if there is no room for it. */
static int
add(struct own *o, const struct history_item *item)
{
	o->text += strlen(item->place);
	if (o->text > HISTORY_TEXT_MAX)
		return 1;
	if (o->n == o->size) {
		const size_t more = o->size == 0 ? 64 : 2 * o->size;
		struct own_file *grown = reallocarray(o->v, more, sizeof(*grown));

		if (grown == NULL)
			return 1;
		o->v = grown;
		o->size = more;
	}
	o->v[o->n] = (struct own_file){ strdup(item->place), item->here };
	o->v[o->n].side.target = NULL;
	return o->v[o->n].path == NULL ? 1 : (o->n++, 0);
}

static int
add_entry(void *data, const struct history *h)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->n_items; i++)
		if (h->item[i].state == ITEM_DONE && is_file(&h->item[i].here))
			r = add(data, &h->item[i]);
	return r;
}

static int
by_path(const void *a, const void *b)
{
	const struct own_file *x = a, *y = b;

	return strcmp(x->path, y->path);
}

/* ---- asking ---- */

static bool
is_same(const struct draft_side *a, const struct draft_side *b)
{
	return a->type == b->type && a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	    a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* Returns the number of the first file whose path is not before that one. */
static size_t
find(const struct own *o, const char *path)
{
	size_t low = 0, high = o->n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (strcmp(o->v[mid].path, path) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool
own_has(struct own *o, const char *state, const char *root, const char *draft, const char *path,
    const struct draft_side *now)
{
	if (!is_file(now))
		return false;
	if (!o->loaded) {
		/* Of a history that cannot be read in full, a part does as well. */
		history_of_draft(state, root, draft, add_entry, o, NULL);
		if (o->n > 1)
			qsort(o->v, o->n, sizeof(*o->v), by_path);
		o->loaded = true;
	}
	for (size_t i = find(o, path); i < o->n && strcmp(o->v[i].path, path) == 0; i++)
		if (is_same(&o->v[i].side, now))
			return true;
	return false;
}
