/* SPDX-License-Identifier: Apache-2.0 */
#include "search/pattern.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "search/decode.h"
#include "search/plan.h"
#include "search/sweep.h"
#include "shared/base/cleanup.h"

/* A longer line that is not UTF-8 is matched as bytes, if the pattern has only ASCII. */
#define BROKEN_MAX (64u << 10)

struct pattern {
	struct grep_plan plan;
	volatile sig_atomic_t matching; /* PCRE2 is running */
	volatile sig_atomic_t ticks;
};

static void
pattern_free_at(struct pattern **pattern)
{
	pattern_free(*pattern);
}

struct pattern *
pattern_new(const struct grep_options *options, struct koda_error *err)
{
	cleanup(pattern_free_at) struct pattern *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		err_set(err, KODA_INTERNAL, 0, "no memory to compile the pattern");
		return NULL;
	}
	if (plan_init(&p->plan, options, err) < 0)
		return NULL;
	return take_ptr(&p);
}

void
pattern_free(struct pattern *p)
{
	if (p == NULL)
		return;
	plan_done(&p->plan);
	free(p);
}

bool
pattern_is_multiline(const struct pattern *p)
{
	return p->plan.way == PLAN_WHOLE;
}

/* Matches in the part of the text that was taken, as if it were the whole text. */
static int
run(struct pattern *p, struct pattern_cursor *c, struct grep_span *ret, struct koda_error *err)
{
	size_t from = c->at > c->part ? c->at - c->part : 0;
	const size_t len = c->part_end - c->part;
	/* In a text that is not UTF-8, PCRE2 checks the whole rest for each match. */
	const bool as_bytes =
	    c->kind == PROGRAM_BROKEN && len > BROKEN_MAX && p->plan.program[PROGRAM_ASCII] != NULL;
	struct program *program = p->plan.program[as_bytes ? PROGRAM_ASCII : c->kind];
	int r;

	/* Not reset for each match: each may be quick, but PCRE2 may check the whole part again
	 * for each of them. */
	if (!c->tried)
		p->ticks = 0;
	c->tried = true;
	p->matching = 1;
	r = program_match(program != NULL ? program : p->plan.program[PROGRAM_UTF8],
	    c->text + c->part, len, from, &ret->start, &ret->end, err);
	p->matching = 0;
	if (r <= 0)
		return r;
	/* \K can move the start to anywhere; matches must not overlap. */
	if (ret->start < from)
		ret->start = from;
	ret->start += c->part;
	ret->end += c->part;
	return 1;
}

unsigned
pattern_ticks(struct pattern *p)
{
	if (!p->matching)
		return 0;
	p->ticks = p->ticks + 1;
	return (unsigned)p->ticks;
}

static size_t
line_start(const struct pattern_cursor *c, size_t at)
{
	const char *before = at > 0 ? memrchr(c->text, '\n', at) : NULL;

	return before != NULL ? (size_t)(before - c->text) + 1 : 0;
}

static size_t
line_end(const struct pattern_cursor *c, size_t at)
{
	const char *end = at < c->len ? memchr(c->text + at, '\n', c->len - at) : NULL;

	return end != NULL ? (size_t)(end - c->text) : c->len;
}

static void
take(struct pattern_cursor *c, size_t start, size_t end)
{
	const char *text = c->text + start;
	size_t len = end - start;

	c->has_part = true;
	c->tried = false;
	c->part = start;
	c->part_end = end;
	if (c->ascii || sweep_ascii(text, len) == len)
		c->kind = PROGRAM_ASCII;
	else
		c->kind = decode_is_utf8(text, len) ? PROGRAM_UTF8 : PROGRAM_BROKEN;
}

static bool
is_taken(const struct pattern_cursor *c, size_t at)
{
	return c->has_part && c->part <= at && at <= c->part_end;
}

/* Matches in the line that contains `at`. Without a match, continues at the next line. */
static int
run_line(struct pattern *p, struct pattern_cursor *c, size_t at, struct grep_span *ret,
    struct koda_error *err)
{
	int r;

	if (!is_taken(c, at))
		take(c, line_start(c, at), line_end(c, at));
	r = run(p, c, ret, err);
	if (r == 0)
		c->at = c->part_end + 1;
	return r;
}

/* Finds the first of the texts at c->at or later. Returns false if there is none. Each text is
 * searched again only after its last position was passed. */
static bool
find_text(const struct pattern *p, struct pattern_cursor *c, size_t *ret)
{
	size_t first = SIZE_MAX;

	for (size_t i = 0; i < p->plan.n_texts; i++) {
		if (c->next_text[i] <= c->at) {
			const char *found = c->at < c->len
			    ? literal_find(&p->plan.text[i], c->text + c->at, c->len - c->at)
			    : NULL;

			c->next_text[i] = found != NULL ? (size_t)(found - c->text) + 1 : SIZE_MAX;
		}
		first = c->next_text[i] < first ? c->next_text[i] : first;
	}
	*ret = first - 1;
	return first != SIZE_MAX;
}

static int
next_text(const struct pattern *p, struct pattern_cursor *c, struct grep_span *ret)
{
	if (!find_text(p, c, &ret->start))
		return 0;
	ret->end = ret->start + p->plan.text[0].len;
	return 1;
}

static int
next_candidate(struct pattern *p, struct pattern_cursor *c, struct grep_span *ret,
    struct koda_error *err)
{
	size_t found;
	int r = 0;

	while (r == 0 && find_text(p, c, &found))
		r = run_line(p, c, found, ret, err);
	return r;
}

static int
next_line(struct pattern *p, struct pattern_cursor *c, struct grep_span *ret,
    struct koda_error *err)
{
	int r = 0;

	while (r == 0 && c->at <= c->len)
		r = run_line(p, c, c->at, ret, err);
	return r;
}

/* Takes the lines from the current one to the next that is not ASCII; if the current one is not
 * ASCII, only that. */
static void
take_part(struct pattern_cursor *c)
{
	size_t start, beyond, end;

	if (c->ascii) {
		take(c, 0, c->len);
		return;
	}
	start = line_start(c, c->at);
	beyond = start + sweep_ascii(c->text + start, c->len - start);
	end = beyond < c->len ? line_start(c, beyond) : c->len;
	if (beyond == c->len)
		take(c, start, end);
	else if (end > start)
		take(c, start, end - 1);
	else
		take(c, start, line_end(c, beyond));
}

static int
next_in_parts(struct pattern *p, struct pattern_cursor *c, struct grep_span *ret,
    struct koda_error *err)
{
	int r = 0;

	while (r == 0 && c->at <= c->len) {
		if (!is_taken(c, c->at))
			take_part(c);
		r = run(p, c, ret, err);
		if (r == 0)
			c->at = c->part_end + 1;
	}
	return r;
}

static int
next_whole(struct pattern *p, struct pattern_cursor *c, struct grep_span *ret,
    struct koda_error *err)
{
	size_t found;
	int r;

	if (p->plan.n_texts > 0 && !find_text(p, c, &found))
		return 0;
	if (!c->has_part)
		take(c, 0, c->len);
	r = run(p, c, ret, err);
	/* After the end of the last line there is no further line. */
	return r > 0 && ret->start == c->len && c->len > 0 && c->text[c->len - 1] == '\n' ? 0 : r;
}

static int
next_any(struct pattern *p, struct pattern_cursor *c, struct grep_span *ret, struct koda_error *err)
{
	if (c->at > c->len)
		return 0;
	switch (p->plan.way) {
	case PLAN_TEXT:
		return next_text(p, c, ret);
	case PLAN_CANDIDATES:
		return next_candidate(p, c, ret, err);
	case PLAN_BUFFER:
		return next_in_parts(p, c, ret, err);
	case PLAN_LINES:
		return next_line(p, c, ret, err);
	case PLAN_WHOLE:
	default:
		return next_whole(p, c, ret, err);
	}
}

/* Returns the position after the character at `at`; an invalid byte counts as one. */
static size_t
next_character(const struct pattern_cursor *c, size_t at)
{
	bool longer = at < c->len && (unsigned char)c->text[at] >= 0xc0;

	at++;
	while (longer && at < c->len && ((unsigned char)c->text[at] & 0xc0) == 0x80)
		at++;
	return at;
}

void
pattern_begin(struct pattern_cursor *c, const char *text, size_t len, bool ascii)
{
	*c = (struct pattern_cursor){
		.text = text,
		.len = len,
		.ascii = ascii,
		.last = PATTERN_NO_LAST,
	};
}

void
pattern_go_to(struct pattern_cursor *c, size_t at)
{
	c->at = at;
	c->last = PATTERN_NO_LAST;
}

/* Is this an empty match where the previous one ended? That belongs to the previous one, except
 * at the beginning of a new line. */
static bool
is_rest(const struct pattern_cursor *c, const struct grep_span *found)
{
	return found->start == found->end && found->end == c->last &&
	    (found->end == 0 || c->text[found->end - 1] != '\n');
}

int
pattern_next(struct pattern *p, struct pattern_cursor *c, struct grep_span *ret,
    struct koda_error *err)
{
	struct grep_span found;
	int r;

	while ((r = next_any(p, c, &found, err)) > 0 && is_rest(c, &found))
		c->at = next_character(c, found.end);
	if (r <= 0) {
		c->at = c->len + 1;
		return r;
	}
	c->last = found.end;
	c->at = found.start < found.end ? found.end : next_character(c, found.end);
	*ret = found;
	return 1;
}
