/* SPDX-License-Identifier: Apache-2.0 */
#include "search/grep.h"

#include <stdlib.h>
#include <string.h>

#include "search/pattern.h"
#include "search/tell.h"
#include "search/window.h"
#include "shared/base/cleanup.h"

struct grep {
	struct pattern *pattern;
	struct window window;
	unsigned flags, before, after, max_columns;
	uint64_t max_per_file;
	struct grep_span *spans;
	size_t spans_max;
};

#define COUNTING (KODA_SEARCH_COUNT | KODA_SEARCH_COUNT_MATCHES)
#define NAMING   (KODA_SEARCH_FILES | KODA_SEARCH_FILES_WITHOUT)

/* The search of one file. */
struct grep_run {
	struct grep *grep;
	struct window *window;
	struct tell tell;
	struct grep_file *ret;
	bool tells;    /* reports lines; otherwise counts them */
	bool one;      /* one match is enough */
	bool enough;   /* the search is over */
	uint64_t upto; /* end of the searched part, if `enough` */
};

static void
grep_free_at(struct grep **grep)
{
	grep_free(*grep);
}

struct grep *
grep_new(const struct grep_options *o, struct koda_error *err)
{
	cleanup(grep_free_at) struct grep *g = calloc(1, sizeof(*g));

	if (g == NULL || window_init(&g->window, err) < 0) {
		err_set(err, KODA_INTERNAL, 0, "no memory to search");
		return NULL;
	}
	g->flags = o->flags;
	g->before = o->before;
	g->after = o->after;
	g->max_columns = o->max_columns;
	g->max_per_file = o->max_per_file > 0 ? o->max_per_file : UINT64_MAX;
	/* One more than fits, so that a match after the reported part is noticed. */
	g->spans_max = (o->max_columns < GREP_SPANS_MAX ? o->max_columns : GREP_SPANS_MAX) + 1u;
	g->spans = calloc(g->spans_max, sizeof(*g->spans));
	if (g->spans == NULL) {
		err_set(err, KODA_INTERNAL, 0, "no memory to search");
		return NULL;
	}
	g->pattern = pattern_new(o, err);
	if (g->pattern == NULL)
		return NULL;
	return take_ptr(&g);
}

void
grep_free(struct grep *g)
{
	if (g == NULL)
		return;
	pattern_free(g->pattern);
	window_done(&g->window);
	free(g->spans);
	free(g);
}

unsigned
grep_ticks(struct grep *g)
{
	return pattern_ticks(g->pattern);
}

/* ---- the lines of a piece ---- */

/* A piece being searched: positions count from its beginning. */
struct piece {
	struct grep_run *run;
	struct pattern_cursor cursor;
	size_t len; /* with the last line's end */
	bool multiline;
};

static size_t
start_of_line(const struct piece *p, size_t at)
{
	const char *newline = at > 0 ? memrchr(p->cursor.text, '\n', at) : NULL;

	return newline != NULL ? (size_t)(newline - p->cursor.text) + 1 : 0;
}

/* Returns the end of the line that contains `at`; *ret_next: after its '\n'. */
static size_t
end_of_line(const struct piece *p, size_t at, size_t *ret_next)
{
	const char *newline = at < p->len ? memchr(p->cursor.text + at, '\n', p->len - at) : NULL;

	*ret_next = newline != NULL ? (size_t)(newline - p->cursor.text) + 1 : p->len;
	return newline != NULL ? *ret_next - 1 : p->len;
}

static void
go_to_line(struct piece *p, size_t at)
{
	/* The last line has no end, or one that is outside of the cursor's text. */
	pattern_go_to(&p->cursor, at < p->len ? at : p->cursor.len + 1);
}

/* Handles a line that the search is for. Returns non-zero if the search is over. */
static int
hit(struct piece *p, size_t start, size_t end, size_t next, size_t n_spans)
{
	struct grep_run *r = p->run;
	size_t from = r->window->from;

	r->ret->matches++;
	if (r->tells &&
	    tell_match(&r->tell, r->window, from + start, from + end, from + next, r->grep->spans,
		n_spans) != 0) {
		r->ret->more = true;
		r->tell.after_left = 0;
		r->enough = true;
	}
	if (r->one || r->ret->matches == r->grep->max_per_file)
		r->enough = true;
	r->upto = r->window->base + from + next;
	return r->enough;
}

/* Adds the part of a match within the line from start to end. */
static void
add_span(const struct piece *p, const struct grep_span *match, size_t start, size_t end,
    size_t *n_spans)
{
	struct grep_span *span = &p->run->grep->spans[*n_spans];

	if (*n_spans == p->run->grep->spans_max)
		return;
	span->start = match->start > start ? match->start - start : 0;
	span->end = (match->end < end ? match->end : end) - start;
	++*n_spans;
}

/* Returns whether nothing more of this line matters. */
static bool
line_is_done(const struct piece *p, const struct grep_span *match, size_t start, size_t n_spans)
{
	const struct grep *g = p->run->grep;

	if (p->multiline || (g->flags & KODA_SEARCH_COUNT_MATCHES) != 0)
		return false;
	if (!p->run->tells || n_spans == g->spans_max)
		return true;
	return match->start - start > g->spans[0].start + g->max_columns;
}

/*
 * Handles the lines that *match touches, and the matches that begin in the last of them. Then
 * *match is the first later match. Returns 1; 0 if there is no later match or the search is over;
 * -1 with *err set.
 */
static int
go_through(struct piece *p, struct grep_span *match, struct koda_error *err)
{
	size_t start = start_of_line(p, match->start);
	bool goes_on = true;
	int found = 1;

	p->run->ret->count++;
	while (goes_on) {
		size_t next, end = end_of_line(p, start, &next), n_spans = 0;

		for (;;) {
			add_span(p, match, start, end, &n_spans);
			goes_on = match->end > next;
			if (goes_on)
				break;
			if (line_is_done(p, match, start, n_spans))
				go_to_line(p, next);
			found = pattern_next(p->run->grep->pattern, &p->cursor, match, err);
			if (found <= 0 || match->start > end)
				break;
			p->run->ret->count++;
		}
		if (found < 0 || hit(p, start, end, next, n_spans) != 0)
			return found < 0 ? -1 : 0;
		start = next;
	}
	return found;
}

static int
search_matching(struct piece *p, struct koda_error *err)
{
	struct grep_span match;
	int found = pattern_next(p->run->grep->pattern, &p->cursor, &match, err);

	while (found > 0)
		found = go_through(p, &match, err);
	return found;
}

/* Handles every line from start to before upto. Returns non-zero if the search is over. */
static int
hit_all(struct piece *p, size_t start, size_t upto)
{
	int enough = 0;

	while (enough == 0 && start < upto) {
		size_t next, end = end_of_line(p, start, &next);

		p->run->ret->count++;
		enough = hit(p, start, end, next, 0);
		start = next;
	}
	return enough;
}

static int
search_others(struct piece *p, struct koda_error *err)
{
	size_t start = 0;
	struct grep_span match;
	int found;

	while ((found = pattern_next(p->run->grep->pattern, &p->cursor, &match, err)) > 0) {
		size_t last = match.end > match.start ? match.end - 1 : match.start, next;

		if (match.start >= start && hit_all(p, start, start_of_line(p, match.start)) != 0)
			return 0;
		/* Otherwise it is in a line with an earlier match, and that line may be long. */
		if (last >= start) {
			end_of_line(p, last, &next);
			start = next;
		}
		if (!p->multiline)
			go_to_line(p, start);
	}
	if (found == 0)
		hit_all(p, start, p->len);
	return found;
}

static int
search_piece(struct grep_run *r, struct koda_error *err)
{
	const struct window *w = r->window;
	const char *text = w->buf + w->from;
	size_t len = w->to - w->from;
	struct piece p = {
		.run = r,
		.len = len,
		.multiline = pattern_is_multiline(r->grep->pattern),
	};
	int found;

	/* Without multiline the pattern does not see the last line's end. */
	if (!p.multiline && text[len - 1] == '\n')
		len--;
	pattern_begin(&p.cursor, text, len, !w->high);
	if ((r->grep->flags & KODA_SEARCH_INVERT) != 0)
		found = search_others(&p, err);
	else
		found = search_matching(&p, err);
	return found < 0 ? -1 : 0;
}

/* ---- a file ---- */

static int
search_pieces(struct grep_run *r, struct koda_error *err)
{
	struct window *w = r->window;
	size_t keep = 0;
	int got;

	while ((got = window_next(w, keep, err)) > 0) {
		/* Binary and named: only report that there is a match. */
		if (w->nul && r->tells) {
			r->tells = false;
			r->one = true;
			r->tell.after_left = 0;
		}
		if (!r->enough && search_piece(r, err) < 0)
			return -1;
		if (r->tells && tell_after(&r->tell, w, w->to) != 0) {
			r->ret->more = true;
			r->tell.after_left = 0;
			r->enough = true;
		}
		if (r->enough && r->tell.after_left == 0)
			return 0;
		keep = r->tells ? tell_keep(&r->tell, w) : w->to;
	}
	return got;
}

static void
sum_up(struct grep_run *r)
{
	const struct window *w = r->window;
	struct grep_file *ret = r->ret;

	ret->binary = w->nul;
	ret->nul_at = w->nul_at;
	ret->long_line = w->long_line;
	ret->bytes = r->enough ? r->upto : w->base + w->end;
	if (r->enough && !r->one && (!w->at_end || r->upto < w->base + w->end))
		ret->more = true;
}

int
grep_file(struct grep *g, int fd, uint64_t size, bool named, grep_line_fn *line, void *data,
    struct grep_file *ret, struct koda_error *err)
{
	struct grep_file file = { .matches = 0 };
	struct grep_run r = {
		.grep = g,
		.window = &g->window,
		.tell = { .fn = line,
		    .data = data,
		    .before = g->before,
		    .after = g->after,
		    .max_columns = g->max_columns,
		    .line = 1 },
		.ret = &file,
		.tells = (g->flags & (COUNTING | NAMING)) == 0,
		.one = (g->flags & NAMING) != 0,
	};
	bool text = (g->flags & KODA_SEARCH_TEXT) != 0;
	int failed;

	window_open(&g->window, fd, size, pattern_is_multiline(g->pattern),
	    text        ? WINDOW_NUL_KEEP
		: named ? WINDOW_NUL_NEWLINE
			: WINDOW_NUL_STOP);
	failed = search_pieces(&r, err);
	sum_up(&r);
	window_close(&g->window);
	if (failed < 0)
		return -1;
	*ret = file;
	return 0;
}
