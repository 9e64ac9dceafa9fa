/* SPDX-License-Identifier: Apache-2.0 */
#include "show/edited.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An edit copies the content, and many replacements copy it in many pieces. At this limit it takes
 * some hundredths of a second. */
#define WORK_MAX   (32u << 20)
#define PIECE_WORK 16

struct content {
	char *p;
	size_t len;
	uint64_t replacements, work;
};

static const char *
find_next(const struct content *c, const char *from, const struct koda_edit *edit)
{
	if (edit->old_len == 0)
		return NULL;
	return memmem(from, (size_t)(c->p + c->len - from), edit->old_text, edit->old_len);
}

/* Counts the places that the edit replaces. Returns false if there are too many. */
static bool
count_hits(struct content *c, const struct koda_edit *edit, size_t *ret)
{
	const char *hit = find_next(c, c->p, edit);

	*ret = 0;
	for (; hit != NULL && (edit->all || *ret == 0); ++*ret) {
		c->work += PIECE_WORK;
		if (c->work > WORK_MAX)
			return false;
		hit = find_next(c, hit + edit->old_len, edit);
	}
	return true;
}

/* Replaces the content by the result of one edit. */
static bool
apply_edit(struct content *c, const struct koda_edit *edit)
{
	const char *from = c->p;
	char *next, *to;
	size_t hits, len;

	if (!count_hits(c, edit, &hits))
		return false;
	len = c->len - hits * edit->old_len;
	if (edit->new_len > EDITED_MAX || len + hits * edit->new_len > EDITED_MAX)
		return false;
	len += hits * edit->new_len;
	c->work += c->len + len;
	next = to = c->work <= WORK_MAX ? malloc(len + 1) : NULL;
	if (next == NULL)
		return false;
	for (size_t i = 0; i < hits; i++) {
		const char *hit = find_next(c, from, edit);

		to = mempcpy(to, from, (size_t)(hit - from));
		if (edit->new_len > 0)
			to = mempcpy(to, edit->new_text, edit->new_len);
		from = hit + edit->old_len;
	}
	memcpy(to, from, (size_t)(c->p + c->len - from));
	free(c->p);
	c->p = next;
	c->len = len;
	c->replacements += hits;
	return true;
}

char *
edited_content(const void *content, size_t len, const struct koda_edit *edits, size_t n_edits,
    size_t *ret_len, uint64_t *ret_replacements)
{
	struct content c = { .p = len <= EDITED_MAX ? malloc(len + 1) : NULL, .len = len };
	bool good = c.p != NULL;

	if (good && len > 0)
		memcpy(c.p, content, len);
	for (size_t i = 0; i < n_edits && good; i++)
		good = apply_edit(&c, &edits[i]);
	if (!good) {
		free(c.p);
		return NULL;
	}
	*ret_len = c.len;
	*ret_replacements = c.replacements;
	return c.p;
}
