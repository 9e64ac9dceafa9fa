/* SPDX-License-Identifier: Apache-2.0 */
#include "search/newest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
newest_init(struct newest *newest, uint64_t limit)
{
	*newest = (struct newest){ .limit = limit < NEWEST_MAX ? (size_t)limit : NEWEST_MAX };
}

void
newest_done(struct newest *newest)
{
	for (size_t i = 0; i < newest->n; i++)
		free(newest->v[i].path);
	free(newest->v);
	*newest = (struct newest){ 0 };
}

static int
compare(const void *a_, const void *b_)
{
	const struct newest_file *a = a_, *b = b_;

	if (a->mtime_ns != b->mtime_ns)
		return a->mtime_ns > b->mtime_ns ? -1 : 1;
	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	return strcmp(a->path, b->path);
}

void
newest_sort(struct newest *newest)
{
	if (newest->n > 0)
		qsort(newest->v, newest->n, sizeof(*newest->v), compare);
	while (newest->n > newest->limit) {
		free(newest->v[--newest->n].path);
		newest->more = true;
	}
}

int
newest_add(struct newest *newest, const char *path, size_t len, uint32_t place, int64_t mtime_ns,
    struct koda_error *err)
{
	struct newest_file file = { .len = len, .place = place, .mtime_ns = mtime_ns };

	if (newest->n == 2 * newest->limit && newest->n > 0)
		newest_sort(newest);
	if (newest->n == newest->size) {
		size_t size = newest->size == 0 ? 64 : 2 * newest->size;
		struct newest_file *v = realloc(newest->v, size * sizeof(*v));

		if (v == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "newest files");
		newest->v = v;
		newest->size = size;
	}
	file.path = strndup(path, len);
	if (file.path == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "newest files");
	newest->v[newest->n++] = file;
	return 0;
}
