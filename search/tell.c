/* SPDX-License-Identifier: Apache-2.0 */
#include "search/tell.h"

#include <string.h>

#include "search/sweep.h"

static bool
continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Returns the part of a line to report: around the first match, in whole characters. */
static struct grep_span
part_of(const char *text, size_t len, size_t max, const struct grep_span *first)
{
	struct grep_span part = { 0, len };

	if (len <= max)
		return part;
	if (first != NULL && first->end > max) {
		size_t room =
		    first->end - first->start < max ? max - (first->end - first->start) : 0;

		part.start = first->start - (first->start < room / 2 ? first->start : room / 2);
		if (part.start > len - max)
			part.start = len - max;
	}
	part.end = part.start + max;
	/* At most three: a longer sequence is not UTF-8. */
	for (int i = 0;
	     i < 3 && part.start > 0 && part.start < part.end && continues(text[part.start]); i++)
		part.start++;
	for (int i = 0;
	     i < 3 && part.end < len && part.end > part.start && continues(text[part.end]); i++)
		part.end--;
	return part;
}

/* Makes the spans relative to the part and drops what is outside of it. Returns how many are
 * left. */
static size_t
clip(struct grep_span *spans, size_t n, struct grep_span part)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct grep_span s = spans[i];
		bool empty = s.start == s.end;

		if (s.start < part.start)
			s.start = part.start;
		if (s.end > part.end)
			s.end = part.end;
		if (s.start > s.end || (s.start == s.end && !empty))
			continue;
		spans[kept].start = s.start - part.start;
		spans[kept++].end = s.end - part.start;
	}
	return kept;
}

static void
count_to(struct tell *t, const struct window *w, size_t at)
{
	size_t from = (size_t)(t->counted - w->base);

	t->line += sweep_count(w->buf + from, at - from, '\n');
	t->counted = w->base + at;
}

static int
tell_line(struct tell *t, const struct window *w, size_t start, size_t end, bool is_match,
    struct grep_span *spans, size_t n_spans)
{
	const char *text = w->buf + start;
	struct grep_span part =
	    part_of(text, end - start, t->max_columns, n_spans > 0 ? spans : NULL);
	struct grep_line line = {
		.is_match = is_match,
		.offset = w->base + start,
		.text = text + part.start,
		.len = part.end - part.start,
		.cut_before = part.start,
		.cut_after = end - start - part.end,
		.spans = spans,
		.n_spans = clip(spans, n_spans, part),
	};

	count_to(t, w, start);
	line.line = t->line;
	return t->fn(t->data, &line);
}

/* Reports the lines from `at` to before `upto` as context, at most *left. */
static int
tell_context(struct tell *t, const struct window *w, size_t at, size_t upto, uint64_t *left)
{
	int r = 0;

	while (r == 0 && at<upto && * left> 0) {
		const char *end = memchr(w->buf + at, '\n', upto - at);
		size_t line_end = end != NULL ? (size_t)(end - w->buf) : upto;

		r = tell_line(t, w, at, line_end, false, NULL, 0);
		at = end != NULL ? line_end + 1 : upto;
		t->done = w->base + at;
		--*left;
	}
	return r;
}

int
tell_after(struct tell *t, const struct window *w, size_t upto)
{
	if (t->after_left == 0)
		return 0;
	return tell_context(t, w, (size_t)(t->done - w->base), upto, &t->after_left);
}

/* Returns where the context before `at` begins. */
static size_t
before(const struct tell *t, const struct window *w, size_t at)
{
	size_t floor = t->done > w->base ? (size_t)(t->done - w->base) : 0;

	for (unsigned i = 0; i < t->before && at > floor; i++) {
		const char *newline = memrchr(w->buf + floor, '\n', at - 1 - floor);

		at = newline != NULL ? (size_t)(newline - w->buf) + 1 : floor;
	}
	return at;
}

int
tell_match(struct tell *t, const struct window *w, size_t start, size_t end, size_t next,
    struct grep_span *spans, size_t n_spans)
{
	uint64_t all = UINT64_MAX;
	int r = tell_after(t, w, start);

	if (r == 0)
		r = tell_context(t, w, before(t, w, start), start, &all);
	if (r == 0)
		r = tell_line(t, w, start, end, true, spans, n_spans);
	t->done = w->base + next;
	t->after_left = t->after;
	return r;
}

size_t
tell_keep(struct tell *t, const struct window *w)
{
	size_t keep = before(t, w, w->to);

	if (w->to - keep > GREP_BEFORE_BYTES_MAX) {
		size_t least = w->to - GREP_BEFORE_BYTES_MAX;
		const char *newline = memchr(w->buf + least, '\n', w->to - least);

		keep = newline != NULL ? (size_t)(newline - w->buf) + 1 : w->to;
	}
	count_to(t, w, keep);
	return keep;
}
