/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/merge.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/base/lines.h"

/* A part of each text: from `from` to before `to`. */
struct merge_piece {
	const struct lines *lines;
	size_t from, to;
};

/* Where the merge is in the three texts. */
struct merging {
	struct lines_diff ours, theirs;      /* each compared with the base */
	struct merge_piece base, our, their; /* `to` is the position */
	struct merged *ret;
	char *end; /* of the merged text */
};

static void
merging_done(struct merging *m)
{
	lines_diff_done(&m->ours);
	lines_diff_done(&m->theirs);
}

static bool
same_piece(const struct merge_piece *a, const struct merge_piece *b)
{
	if (a->to - a->from != b->to - b->from)
		return false;
	for (size_t i = 0; i < a->to - a->from; i++)
		if (!line_is(&a->lines->line[a->from + i], &b->lines->line[b->from + i]))
			return false;
	return true;
}

static void
put_piece(struct merging *m, const struct merge_piece *piece)
{
	for (size_t i = piece->from; i < piece->to; i++) {
		const struct line *line = &piece->lines->line[i];

		memcpy(m->end, line->p, line->len);
		m->end += line->len;
	}
}

/* Passes what one side added here. Returns whether that is anything. */
static bool
pass_added(const struct lines_diff *d, struct merge_piece *side)
{
	const size_t from = side->to;

	while (side->to < d->b.n && d->come[side->to])
		side->to++;
	return side->to > from;
}

/* Passes a line of the base that one of the sides removed; the other side may still have it. */
static bool
pass_removed(struct merging *m)
{
	const size_t i = m->base.to;

	if (i == m->ours.a.n || (!m->ours.gone[i] && !m->theirs.gone[i]))
		return false;
	m->our.to += !m->ours.gone[i];
	m->their.to += !m->theirs.gone[i];
	m->base.to++;
	return true;
}

/* Goes on to the next line that all three have. */
static void
pass_changed(struct merging *m)
{
	bool passed;

	do {
		passed = pass_added(&m->ours, &m->our);
		passed |= pass_added(&m->theirs, &m->their);
		passed |= pass_removed(m);
	} while (passed);
}

static void
put_changed(struct merging *m)
{
	if (same_piece(&m->their, &m->base) || same_piece(&m->our, &m->their)) {
		put_piece(m, &m->our);
	} else if (same_piece(&m->our, &m->base)) {
		put_piece(m, &m->their);
	} else {
		if (m->ret->overlaps++ == 0)
			m->ret->line = m->our.from + 1;
	}
}

static void
begin_piece(struct merging *m)
{
	m->base.from = m->base.to;
	m->our.from = m->our.to;
	m->their.from = m->their.to;
}

static void
put_all(struct merging *m)
{
	for (;;) {
		begin_piece(m);
		pass_changed(m);
		put_changed(m);
		begin_piece(m);
		if (m->base.to == m->ours.a.n)
			return;
		m->base.to++;
		m->our.to++;
		m->their.to++;
		put_piece(m, &m->our);
	}
}

bool
merge_texts(const struct merge_text *base, const struct merge_text *ours,
    const struct merge_text *theirs, struct merged *ret)
{
	cleanup(merging_done) struct merging m = { .ret = ret };

	*ret = (struct merged){ 0 };
	if (!lines_compare(&m.ours, base->p, base->len, ours->p, ours->len, true) ||
	    !lines_compare(&m.theirs, base->p, base->len, theirs->p, theirs->len, true))
		return false;
	/* Each line that is put is one of ours or of theirs. */
	ret->text = malloc(ours->len + theirs->len + 1);
	if (ret->text == NULL)
		return false;
	m.base.lines = &m.ours.a;
	m.our.lines = &m.ours.b;
	m.their.lines = &m.theirs.b;
	m.end = ret->text;
	put_all(&m);
	ret->len = (size_t)(m.end - ret->text);
	if (ret->overlaps > 0) {
		free(ret->text);
		ret->text = NULL;
		ret->len = 0;
	}
	return true;
}
