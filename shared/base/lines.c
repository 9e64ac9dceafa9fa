/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/lines.h"

#include <stdlib.h>
#include <string.h>

/*
 * Myers' search takes time and memory with the square of the number of edits: 1 MiB at this limit.
 * Larger differences count as one piece removed and one added, which is equally true.
 */
#define EDITS_MAX 512

bool
lines_split(struct lines *ret, const char *p, size_t len)
{
	const char *end = len > 0 ? p + len : p;
	size_t n = 1;

	for (const char *at = p; at < end; n++) {
		at = memchr(at, '\n', (size_t)(end - at));
		if (at++ == NULL)
			break;
	}
	*ret = (struct lines){ .line = calloc(n, sizeof(*ret->line)) };
	if (ret->line == NULL)
		return false;
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *next = newline != NULL ? newline + 1 : end;

		ret->line[ret->n++] = (struct line){ p, (size_t)(next - p) };
		p = next;
	}
	return true;
}

bool
line_ends(const struct line *line)
{
	return line->len > 0 && line->p[line->len - 1] == '\n';
}

bool
line_is(const struct line *a, const struct line *b)
{
	return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

static void
mark_all(struct lines_diff *d, size_t from, size_t n, size_t m)
{
	memset(d->gone + from, true, n);
	memset(d->come + from, true, m);
}

/* Marks the edits that lead from (0, 0) to (x, y), going back over the recorded rounds. */
static void
mark_edits(struct lines_diff *d, size_t from, const int *kept, long rounds, long x, long y)
{
	for (long i = rounds; i > 0; i--) {
		const int *row = kept + (i - 1) * (i - 1) + (i - 1);
		long k = x - y;
		bool down = k == -i || (k != i && row[k - 1] < row[k + 1]);
		long was_x = down ? row[k + 1] : row[k - 1];
		long was_y = was_x - (down ? k + 1 : k - 1);

		if (down)
			d->come[from + (size_t)was_y] = true;
		else
			d->gone[from + (size_t)was_x] = true;
		x = was_x;
		y = was_y;
	}
}

/*
 * Myers, "An O(ND) Difference Algorithm and Its Variations": records how far each diagonal is
 * reached with i edits. Compares n and m lines, from line `from` of both. Returns false if there is
 * no memory.
 */
static bool
search_edits(struct lines_diff *d, size_t from, size_t n, size_t m)
{
	const struct line *a = d->a.line + from, *b = d->b.line + from;
	const long N = (long)n, M = (long)m, max = N + M < EDITS_MAX ? N + M : EDITS_MAX;
	long *v = calloc((size_t)(2 * max + 3), sizeof(*v)), *mid = v + max + 1;
	/* Round i records its diagonals -i..i. */
	int *kept = calloc((size_t)((max + 1) * (max + 1)), sizeof(*kept));
	bool found = false, good = v != NULL && kept != NULL;

	for (long i = 0; good && i <= max && !found; i++) {
		for (long k = -i; k <= i; k += 2) {
			long x = k == -i || (k != i && mid[k - 1] < mid[k + 1]) ? mid[k + 1]
										: mid[k - 1] + 1;
			long y = x - k;

			while (x < N && y < M && line_is(&a[x], &b[y])) {
				x++;
				y++;
			}
			mid[k] = x;
			kept[i * i + i + k] = (int)x;
			if (x >= N && y >= M) {
				found = true;
				mark_edits(d, from, kept, i, N, M);
				break;
			}
		}
	}
	if (good && !found)
		mark_all(d, from, n, m);
	free(v);
	free(kept);
	return good;
}

void
lines_diff_done(struct lines_diff *d)
{
	free(d->a.line);
	free(d->b.line);
	free(d->gone);
	free(d->come);
	*d = (struct lines_diff){ 0 };
}

bool
lines_compare(struct lines_diff *d, const void *old_text, size_t old_len, const void *new_text,
    size_t new_len, bool fewest)
{
	size_t head = 0, tail = 0, n, m;

	*d = (struct lines_diff){ 0 };
	if (!lines_split(&d->a, old_text, old_len) || !lines_split(&d->b, new_text, new_len))
		return false;
	d->gone = calloc(d->a.n + 1, 1);
	d->come = calloc(d->b.n + 1, 1);
	if (d->gone == NULL || d->come == NULL)
		return false;
	while (head < d->a.n && head < d->b.n && line_is(&d->a.line[head], &d->b.line[head]))
		head++;
	while (tail < d->a.n - head && tail < d->b.n - head &&
	    line_is(&d->a.line[d->a.n - 1 - tail], &d->b.line[d->b.n - 1 - tail]))
		tail++;
	n = d->a.n - head - tail;
	m = d->b.n - head - tail;
	if (n > 0 && m > 0 && fewest)
		return search_edits(d, head, n, m);
	mark_all(d, head, n, m);
	return true;
}
