/* SPDX-License-Identifier: Apache-2.0 */
#include "show/diff.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/lines.h"
#include "show/asked.h"

#define CONTEXT 3

/* The differences between the styles. */
static const struct look {
	bool numbered; /* lines have a column with their numbers, and a blank after the sign */
	const char *gone, *come, *head, *plain;
} looks[PAGE_STYLES] = {
	[PAGE_TERMINAL] = { true, "", "", "", "" },
	[PAGE_COLOUR] = { true, PAGE_RED, PAGE_GREEN, PAGE_CYAN, PAGE_PLAIN },
	[PAGE_MESSAGE] = { false, "", "", "", "" },
};

/* ---- writing lines ---- */

/* Used twice: to count the lines, and to write those that are shown. */
struct out {
	struct page *page;
	bool counting;
	size_t n, total;
	size_t empty; /* consecutive empty lines with this sign */
	char sign;
	bool pieces; /* lines are of a piece of a text: the last one needs no newline */
};

static bool
is_hidden(const struct out *out, size_t i)
{
	return !out->page->medium.whole && asked_is_hidden(i, out->total);
}

static void
begin_line(const struct out *out, char sign, uint64_t number)
{
	const struct look *look = &looks[out->page->medium.style];

	if (look->numbered && number > 0)
		page_print(out->page, "%7llu ", (unsigned long long)number);
	else if (look->numbered)
		page_print(out->page, "%7s ", "");
	page_print(out->page, "%s%c%s",
	    sign == '-'       ? look->gone
		: sign == '+' ? look->come
			      : "",
	    sign, look->numbered ? " " : "");
}

/* Writes one of our own lines below a text: no line of a text can look like it. */
static void
write_note(struct page *page, const char *note)
{
	page_print(page, "%*s%s\n", looks[page->medium.style].numbered ? 8 : 0, "", note);
}

static void
write_counted(const struct out *out, size_t counted)
{
	if (counted == 0)
		return;
	begin_line(out, out->sign, 0);
	page_print(out->page, "[%zu more empty lines]%s\n", counted,
	    looks[out->page->medium.style].plain);
}

static void
end_empty(struct out *out)
{
	size_t counted;

	if (out->counting)
		return;
	asked_counts(&out->empty, NULL, 0, &counted);
	write_counted(out, counted);
}

/* Writes the line, or counts it if it is one of too many empty ones. */
static void
write_shown(struct out *out, char sign, const void *line, size_t len, uint64_t number)
{
	size_t counted;

	if (sign != out->sign)
		end_empty(out);
	out->sign = sign;
	if (!out->page->medium.whole) {
		if (asked_counts(&out->empty, line, len, &counted))
			return;
		write_counted(out, counted);
	}
	begin_line(out, sign, number);
	page_line(out->page, line, len);
	page_print(out->page, "%s\n", looks[out->page->medium.style].plain);
}

static void
write_line(struct out *out, char sign, const struct line *line, uint64_t number)
{
	const bool ends = line_ends(line);
	const size_t i = out->n++;

	if (out->counting)
		return;
	if (!is_hidden(out, i)) {
		write_shown(out, sign, line->p, line->len - ends, number);
		if (!ends && !out->pieces)
			write_note(out->page, "\\ no newline at the end");
	} else if (i == ASKED_LINES_HEAD) {
		end_empty(out);
		page_print(out->page, "[... %zu lines are left out here ...]\n",
		    asked_hidden(out->total));
		out->page->cut = true;
	}
}

/* Begins a head between lines. Returns whether it is shown: it belongs to the line after it. */
static bool
begin_head(struct out *out)
{
	end_empty(out);
	if (out->counting || is_hidden(out, out->n))
		return false;
	page_print(out->page, "%s@@ ", looks[out->page->medium.style].head);
	return true;
}

static void
end_head(const struct out *out)
{
	page_print(out->page, " @@%s\n", looks[out->page->medium.style].plain);
}

/* Writes the lines from i and j to i_end and j_end. first: the number of line 0; 0: unknown. */
static void
write_lines(struct out *out, const struct lines_diff *d, size_t i, size_t j, size_t i_end,
    size_t j_end, uint64_t first)
{
	while (i < i_end || j < j_end) {
		const uint64_t was = first > 0 ? first + i : 0, is = first > 0 ? first + j : 0;

		if (i < i_end && d->gone[i]) {
			write_line(out, '-', &d->a.line[i++], was);
		} else if (j < j_end && d->come[j]) {
			write_line(out, '+', &d->b.line[j++], is);
		} else {
			write_line(out, ' ', &d->a.line[i++], is);
			j++;
		}
	}
}

/* ---- whole texts ---- */

/*
 * Finds the next change from line *i of the old text and line *j of the new one, which are
 * unchanged up to there. Returns false if there is none.
 */
static bool
next_change(const struct lines_diff *d, size_t *i, size_t *j)
{
	while (*i < d->a.n && *j < d->b.n && !d->gone[*i] && !d->come[*j]) {
		++*i;
		++*j;
	}
	return *i < d->a.n || *j < d->b.n;
}

static void
skip_change(const struct lines_diff *d, size_t *i, size_t *j)
{
	while (*i < d->a.n && d->gone[*i])
		++*i;
	while (*j < d->b.n && d->come[*j])
		++*j;
}

static void
write_hunk(struct out *out, const struct lines_diff *d, size_t i, size_t j, size_t i_end,
    size_t j_end)
{
	if (begin_head(out)) {
		/* An empty side has the number of the line before it. */
		page_print(out->page, "-%zu,%zu +%zu,%zu", i + (i_end > i), i_end - i,
		    j + (j_end > j), j_end - j);
		end_head(out);
	}
	write_lines(out, d, i, j, i_end, j_end, 1);
}

static void
write_hunks(struct out *out, const struct lines_diff *d)
{
	size_t i = 0, j = 0;
	bool more = next_change(d, &i, &j);

	while (more) {
		size_t before = i < CONTEXT ? i : CONTEXT, i_from = i - before, j_from = j - before;
		size_t i_end, j_end, after;

		/* Nearby changes share their context. */
		do {
			skip_change(d, &i, &j);
			i_end = i;
			j_end = j;
			more = next_change(d, &i, &j);
		} while (more && i - i_end <= 2 * CONTEXT);
		after = d->a.n - i_end < CONTEXT ? d->a.n - i_end : CONTEXT;
		write_hunk(out, d, i_from, j_from, i_end + after, j_end + after);
	}
	end_empty(out);
}

void
diff_unified(struct page *page, const void *old_text, size_t old_len, const void *new_text,
    size_t new_len)
{
	struct out out = { .page = page, .counting = true };
	struct lines_diff d;

	if (lines_compare(&d, old_text, old_len, new_text, new_len, true)) {
		write_hunks(&out, &d);
		out = (struct out){ .page = page, .total = out.n };
		write_hunks(&out, &d);
	} else {
		page->failed = true;
	}
	lines_diff_done(&d);
}

bool
diff_count(const void *old_text, size_t old_len, const void *new_text, size_t new_len,
    uint64_t *ret_added, uint64_t *ret_removed)
{
	struct lines_diff d;
	const bool found = lines_compare(&d, old_text, old_len, new_text, new_len, true);
	uint64_t added = 0, removed = 0;

	for (size_t i = 0; found && i < d.a.n; i++)
		removed += d.gone[i];
	for (size_t i = 0; found && i < d.b.n; i++)
		added += d.come[i];
	lines_diff_done(&d);
	*ret_added = added;
	*ret_removed = removed;
	return found;
}

/* ---- replacements ---- */

/* Otherwise 'a' and 'a, newline' would look the same. */
static void
note_newline(const struct out *out, const struct lines_diff *d)
{
	bool old_ends, new_ends;

	if (out->counting || d->a.n == 0 || d->b.n == 0 || is_hidden(out, out->n - 1))
		return;
	old_ends = line_ends(&d->a.line[d->a.n - 1]);
	new_ends = line_ends(&d->b.line[d->b.n - 1]);
	if (old_ends != new_ends)
		write_note(out->page,
		    old_ends ? "(the new text ends without a newline)"
			     : "(the old text ends without a newline)");
}

static void
write_edit(struct out *out, const struct koda_edit *edit, uint64_t line)
{
	struct lines_diff d;

	if (begin_head(out)) {
		page_print(out->page, edit->all ? "each occurrence" : "once");
		if (line > 0)
			page_print(out->page,
			    edit->all ? ", the first in line %llu" : ", in line %llu",
			    (unsigned long long)line);
		end_head(out);
	}
	/* There may be a thousand of them, too many to look for the fewest changes in each. */
	if (lines_compare(&d, edit->old_text, edit->old_len, edit->new_text, edit->new_len,
		false)) {
		write_lines(out, &d, 0, 0, d.a.n, d.b.n, line);
		end_empty(out);
		note_newline(out, &d);
	} else {
		out->page->failed = true;
	}
	lines_diff_done(&d);
}

void
diff_edits(struct page *page, const struct koda_edit *edits, size_t n_edits, const uint64_t *lines,
    size_t n_lines)
{
	struct out out = { .page = page, .counting = true, .pieces = true };

	for (size_t i = 0; i < n_edits; i++)
		write_edit(&out, &edits[i], 0);
	out = (struct out){ .page = page, .total = out.n, .pieces = true };
	for (size_t i = 0; i < n_edits; i++)
		write_edit(&out, &edits[i], lines != NULL && i < n_lines ? lines[i] : 0);
}

/* ---- one text ---- */

static void
write_added(struct page *page, const void *data, size_t len, bool pieces)
{
	struct lines all;
	struct out out = { .page = page, .pieces = pieces };

	if (lines_split(&all, data, len)) {
		out.total = all.n;
		for (size_t i = 0; i < all.n; i++)
			write_line(&out, '+', &all.line[i], i + 1);
		end_empty(&out);
	} else {
		page->failed = true;
	}
	free(all.line);
}

void
diff_added(struct page *page, const void *data, size_t len, bool whole)
{
	write_added(page, data, len, !whole);
}

void
diff_script(struct page *page, const char *script)
{
	write_added(page, script, strlen(script), true);
}
