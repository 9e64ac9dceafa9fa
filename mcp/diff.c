#include "mcp/diff.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/memory.h"
#include "show/asked.h"

#define CONTEXT 3
/* Myers' search takes time and memory with the square of the number of edits: 1 MiB at this
 * limit. Larger differences are shown as one piece removed and one added, which is equally true. */
#define EDITS_MAX 512

struct line {
	const char *p;
	size_t len; /* including its newline, if it has one */
};

struct lines {
	struct line *line;
	size_t n;
};

static struct lines
split(const char *p, size_t len)
{
	size_t size = 64;
	/* Allocated even if there are no lines, so that no code adds to a null pointer. */
	struct lines ret = { .line = memory_zero(size * sizeof(*ret.line)) };
	const char *end = len > 0 ? p + len : p;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *next = newline != NULL ? newline + 1 : end;

		if (ret.n == size) {
			size *= 2;
			ret.line = memory_resize(ret.line, size * sizeof(*ret.line));
		}
		ret.line[ret.n++] = (struct line){ p, (size_t)(next - p) };
		p = next;
	}
	return ret;
}

static bool
same(const struct line *a, const struct line *b)
{
	return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

/* Which lines are removed and which are added: all that printing needs. */
struct changes {
	bool *gone, *come;
};

static void
mark_all(struct changes *c, size_t from, size_t n, size_t m)
{
	memset(c->gone + from, true, n);
	memset(c->come + from, true, m);
}

/*
 * Myers, "An O(ND) Difference Algorithm and Its Variations": records how far each diagonal is
 * reached with d edits; going back over the recorded rounds gives the edits. a has n lines, b has
 * m; both begin at `from` of the whole.
 */
static void
search(const struct line *a, size_t n, const struct line *b, size_t m, size_t from,
    struct changes *c)
{
	const long N = (long)n, M = (long)m, max = N + M < EDITS_MAX ? N + M : EDITS_MAX;
	long *v = memory_zero((size_t)(2 * max + 3) * sizeof(*v)), *mid = v + max + 1, d, x = 0, y;
	/* Round d records its diagonals -d..d. */
	int *kept = memory_zero((size_t)((max + 1) * (max + 1)) * sizeof(*kept));
	bool found = false;

	for (d = 0; d <= max && !found; d++) {
		for (long k = -d; k <= d; k += 2) {
			x = k == -d || (k != d && mid[k - 1] < mid[k + 1]) ? mid[k + 1]
									   : mid[k - 1] + 1;
			y = x - k;
			while (x < N && y < M && same(&a[x], &b[y])) {
				x++;
				y++;
			}
			mid[k] = x;
			kept[d * d + d + k] = (int)x;
			if (x >= N && y >= M) {
				found = true;
				break;
			}
		}
	}
	if (!found) {
		mark_all(c, from, n, m);
	} else {
		x = N;
		y = M;
		for (d = d - 1; d > 0; d--) {
			const int *row = kept + (d - 1) * (d - 1) + (d - 1);
			long k = x - y;
			bool down = k == -d || (k != d && row[k - 1] < row[k + 1]);
			long was_x = down ? row[k + 1] : row[k - 1];
			long was_y = was_x - (down ? k + 1 : k - 1);

			if (down)
				c->come[from + (size_t)was_y] = true;
			else
				c->gone[from + (size_t)was_x] = true;
			x = was_x;
			y = was_y;
		}
	}
	free(v);
	free(kept);
}

/* Used twice: to count the lines, and to write those that are shown. */
struct out {
	struct text *t; /* NULL: to count */
	size_t n, total;
	size_t empty; /* consecutive empty lines with this sign */
	char sign;
	bool script; /* the last line needs no newline */
};

/* Writes the line, or the number of empty lines in its place. */
static void
put_counted(struct out *out, const void *line, size_t len, char sign)
{
	size_t counted;

	if (sign != out->sign || line == NULL) {
		asked_counts(&out->empty, NULL, 0, &counted);
		if (counted > 0)
			text_printf(out->t, "%c[%zu more empty lines]\n", out->sign, counted);
		out->sign = sign;
	}
	if (line == NULL || asked_counts(&out->empty, line, len, &counted))
		return;
	if (counted > 0)
		text_printf(out->t, "%c[%zu more empty lines]\n", sign, counted);
	text_printf(out->t, "%c", sign);
	text_ask_line(out->t, line, len);
	text_printf(out->t, "\n");
}

static void
put(struct out *out, char sign, const struct line *line)
{
	const bool ends = line->len > 0 && line->p[line->len - 1] == '\n';
	const size_t i = out->n++;

	if (out->t == NULL)
		return;
	if (asked_is_hidden(i, out->total)) {
		if (i == ASKED_LINES_HEAD) {
			put_counted(out, NULL, 0, 0);
			text_printf(out->t, "[... %zu lines are left out here ...]\n",
			    asked_hidden(out->total));
			out->t->cut = true;
		}
		return;
	}
	put_counted(out, line->p, line->len - ends, sign);
	if (!ends && !out->script)
		text_printf(out->t, "\\ no newline at the end\n");
}

/* Finds the next change from line *i of the old text and line *j of the new one, which are
 * unchanged up to there. Returns false if there is none. */
static bool
next_change(const struct changes *c, const struct lines *a, const struct lines *b, size_t *i,
    size_t *j)
{
	while (*i < a->n && *j < b->n && !c->gone[*i] && !c->come[*j]) {
		++*i;
		++*j;
	}
	return *i < a->n || *j < b->n;
}

static void
skip_change(const struct changes *c, const struct lines *a, const struct lines *b, size_t *i,
    size_t *j)
{
	while (*i < a->n && c->gone[*i])
		++*i;
	while (*j < b->n && c->come[*j])
		++*j;
}

static void
put_hunk(struct out *out, const struct changes *c, const struct lines *a, const struct lines *b,
    size_t i, size_t j, size_t i_end, size_t j_end)
{
	if (out->t != NULL)
		put_counted(out, NULL, 0, 0);
	/* An empty side has the number of the line before it. */
	if (out->t != NULL && !asked_is_hidden(out->n, out->total))
		text_printf(out->t, "@@ -%zu,%zu +%zu,%zu @@\n", i + (i_end > i), i_end - i,
		    j + (j_end > j), j_end - j);
	while (i < i_end || j < j_end) {
		if (i < i_end && c->gone[i])
			put(out, '-', &a->line[i++]);
		else if (j < j_end && c->come[j])
			put(out, '+', &b->line[j++]);
		else {
			put(out, ' ', &a->line[i++]);
			j++;
		}
	}
}

static void
put_all(struct out *out, const struct changes *c, const struct lines *a, const struct lines *b)
{
	size_t i = 0, j = 0;
	bool more = next_change(c, a, b, &i, &j);

	while (more) {
		size_t before = i < CONTEXT ? i : CONTEXT, i_from = i - before, j_from = j - before;
		size_t i_end, j_end, after;

		/* Nearby changes share their context. */
		do {
			skip_change(c, a, b, &i, &j);
			i_end = i;
			j_end = j;
			more = next_change(c, a, b, &i, &j);
		} while (more && i - i_end <= 2 * CONTEXT);
		after = a->n - i_end < CONTEXT ? a->n - i_end : CONTEXT;
		put_hunk(out, c, a, b, i_from, j_from, i_end + after, j_end + after);
	}
}

void
diff_unified(struct text *t, const void *old_text, size_t old_len, const void *new_text,
    size_t new_len)
{
	struct lines a = split(old_text, old_len), b = split(new_text, new_len);
	struct changes c = { memory_zero(a.n), memory_zero(b.n) };
	struct out out = { 0 };
	size_t head = 0, tail = 0;

	while (head < a.n && head < b.n && same(&a.line[head], &b.line[head]))
		head++;
	while (tail < a.n - head && tail < b.n - head &&
	    same(&a.line[a.n - 1 - tail], &b.line[b.n - 1 - tail]))
		tail++;
	if (head < a.n || head < b.n)
		search(a.line + head, a.n - head - tail, b.line + head, b.n - head - tail, head,
		    &c);
	put_all(&out, &c, &a, &b);
	out = (struct out){ .t = t, .total = out.n };
	put_all(&out, &c, &a, &b);
	put_counted(&out, NULL, 0, 0);
	free(c.gone);
	free(c.come);
	free(a.line);
	free(b.line);
}

static void
put_lines(struct text *t, char sign, const void *data, size_t len, bool script)
{
	struct lines all = split(data, len);
	struct out out = { .t = t, .total = all.n, .script = script };

	for (size_t i = 0; i < all.n; i++)
		put(&out, sign, &all.line[i]);
	put_counted(&out, NULL, 0, 0);
	free(all.line);
}

void
diff_lines(struct text *t, char sign, const void *data, size_t len)
{
	put_lines(t, sign, data, len, false);
}

void
diff_script(struct text *t, const char *script)
{
	put_lines(t, '+', script, strlen(script), true);
}
