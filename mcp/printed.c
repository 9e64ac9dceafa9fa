/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/printed.h"

#include <string.h>

#include "shared/base/utf8.h"

/* Returns how many bytes at the end are an incomplete character. */
static size_t
begun(const char *p, size_t len)
{
	for (size_t n = 1; n < PRINTED_MIN && n <= len; n++) {
		unsigned char c = (unsigned char)p[len - n];

		if ((c & 0xc0) != 0x80)
			return utf8_length(c) > n ? n : 0;
	}
	return 0;
}

static size_t
least(uint64_t a, size_t b)
{
	return a < b ? (size_t)a : b;
}

void
printed_take(const struct koda_output *all, uint64_t from, size_t max, bool over,
    struct printed *ret)
{
	const uint64_t tail_at = all->total - all->tail_len;
	size_t *last, cut = 0;

	*ret = (struct printed){ 0 };
	from = from < all->total ? from : all->total;
	if (from < all->head_len) {
		ret->head = all->head + from;
		ret->head_len = least(all->head_len - from, max);
		max -= ret->head_len;
		from += ret->head_len;
	}
	/* The gap is reported together with what follows it. */
	if (from >= all->head_len && max > 0) {
		if (from < tail_at) {
			ret->left_out = tail_at - from;
			from = tail_at;
		}
		if (from < all->total)
			ret->tail = all->tail + (from - tail_at);
		ret->tail_len = least(all->total - from, max);
		from += ret->tail_len;
	}
	last = ret->tail_len > 0 ? &ret->tail_len : &ret->head_len;
	if (*last > 0 && (!over || from < all->total))
		cut = begun(ret->tail_len > 0 ? ret->tail : ret->head, *last);
	*last -= cut;
	ret->next = from - cut;
	ret->more = from < all->total;
}

static void
add_clean(struct text *t, const char *p, size_t len)
{
	while (len > 0) {
		const char *nul = memchr(p, '\0', len);
		size_t n = nul != NULL ? (size_t)(nul - p) : len;

		text_add(t, p, n);
		if (nul == NULL)
			return;
		text_add(t, "\xef\xbf\xbd", 3);
		p += n + 1;
		len -= n + 1;
	}
}

static void
show_lines(struct text *t, const char *p, size_t len)
{
	while (len > 0) {
		const char *newline = memchr(p, '\n', len);
		size_t n = newline != NULL ? (size_t)(newline - p) : len;

		text_show(t, p, n, true);
		if (newline == NULL)
			return;
		text_add(t, "\n", 1);
		p += n + 1;
		len -= n + 1;
	}
}

static void
add(struct text *t, const struct printed *p, void (*add_one)(struct text *, const char *, size_t))
{
	add_one(t, p->head, p->head_len);
	if (p->left_out > 0)
		text_printf(t, "\n[%llu bytes left out]\n", (unsigned long long)p->left_out);
	add_one(t, p->tail, p->tail_len);
}

void
printed_text(struct text *t, const struct printed *p)
{
	add(t, p, add_clean);
}

void
printed_show(struct text *t, const struct printed *p)
{
	add(t, p, show_lines);
}

json_t *
printed_json(const struct printed *p)
{
	json_t *ret = json_object();
	struct text t = { 0 };

	add_clean(&t, p->head, p->head_len);
	/* One piece, which may have a character across the seam. */
	if (p->left_out == 0)
		add_clean(&t, p->tail, p->tail_len);
	json_object_set_new_nocheck(ret, "text", text_json(&t));
	if (p->left_out == 0)
		return ret;
	add_clean(&t, p->tail, p->tail_len);
	json_object_set_new_nocheck(ret, "left_out", json_integer((json_int_t)p->left_out));
	json_object_set_new_nocheck(ret, "tail", text_json(&t));
	return ret;
}
