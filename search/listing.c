/* SPDX-License-Identifier: Apache-2.0 */
#include "search/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/worker.pb-c.h"

#define NONE SIZE_MAX

void
listing_init(struct tree_listing *l, unsigned max_depth, uint64_t limit)
{
	*l = (struct tree_listing){ .max_depth = max_depth, .limit = limit };
}

void
listing_done(struct tree_listing *l)
{
	free(l->v);
	free(l->text);
	free(l->open);
	*l = (struct tree_listing){ 0 };
}

/* Makes room for `more` elements of size `each`, at least doubling the array. Returns 0, or -1
 * if memory is short. */
static int
grow(void *array, size_t *size, size_t n, size_t each, size_t more)
{
	void **v = array;
	size_t want = *size == 0 ? 256 : *size * 2;
	void *bigger;

	if (n + more <= *size)
		return 0;
	while (want < n + more)
		want *= 2;
	bigger = realloc(*v, want * each);
	if (bigger == NULL)
		return -1;
	*v = bigger;
	*size = want;
	return 0;
}

/* Adds an entry. *ret: its index, NONE if it is too deep or over the limit. Returns 0, or -1 if
 * memory is short. */
static int
add(struct tree_listing *l, const char *path, size_t len, uint32_t depth, uint32_t type,
    size_t *ret)
{
	*ret = NONE;
	if (l->max_depth != 0 && depth > l->max_depth)
		return 0;
	if (l->n >= l->limit) {
		l->more = true;
		return 0;
	}
	if (grow(&l->v, &l->size, l->n, sizeof(*l->v), 1) < 0 ||
	    grow(&l->text, &l->text_size, l->text_len, 1, len + 1) < 0)
		return -1;
	if (len > 0)
		memcpy(l->text + l->text_len, path, len);
	l->v[l->n] =
	    (struct listing_entry){ .name = l->text_len, .len = len, .depth = depth, .type = type };
	l->text_len += len;
	*ret = l->n++;
	return 0;
}

int
listing_enter(struct tree_listing *l, const char *path, size_t len, uint32_t depth,
    struct koda_error *err)
{
	size_t at;

	if (add(l, path, len, depth, KODA__FILE_TYPE__FILE_DIRECTORY, &at) < 0 ||
	    grow(&l->open, &l->open_size, l->n_open, sizeof(*l->open), 1) < 0)
		return err_set(err, KODA_INTERNAL, ENOMEM, "tree");
	l->open[l->n_open++] = at;
	return 0;
}

void
listing_leave(struct tree_listing *l)
{
	size_t at = l->open[--l->n_open];
	uint64_t files, size;

	if (at == NONE)
		return;
	files = l->v[at].files;
	size = l->v[at].size;
	/* The sums count for every reported directory above; the nearest passes them on when it
	 * is left. */
	for (size_t i = l->n_open; i-- > 0;) {
		if (l->open[i] == NONE)
			continue;
		l->v[l->open[i]].files += files;
		l->v[l->open[i]].size += size;
		break;
	}
}

int
listing_file(struct tree_listing *l, const char *path, size_t len, uint32_t depth, uint32_t type,
    uint64_t size, struct koda_error *err)
{
	size_t at;

	if (add(l, path, len, depth, type, &at) < 0)
		return err_set(err, KODA_INTERNAL, ENOMEM, "tree");
	if (at != NONE)
		l->v[at].size = size;
	for (size_t i = l->n_open; i-- > 0;) {
		if (l->open[i] == NONE)
			continue;
		l->v[l->open[i]].files++;
		l->v[l->open[i]].size += size;
		break;
	}
	l->files++;
	l->bytes += size;
	return 0;
}
