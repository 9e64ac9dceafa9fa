/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of a draft as git diff --stat shows them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/changes_show.h"
#include "cli/output.h"
#include "show/asked.h"
#include "show/diff.h"

#define GRAPH_COLUMNS 40
#define NAME_COLUMNS  60

struct stat_line {
	uint64_t added, removed;
	bool counted; /* false: binary, too large, or without content */
};

struct stat_sums {
	uint64_t files, added, removed, most;
	int name, number; /* columns */
};

static const char *
colour(const struct page *page, const char *code)
{
	return page->medium.style == PAGE_COLOUR ? code : "";
}

static bool
is_listed(const struct change_row *row)
{
	return changes_kind(row) != UNIT_GIT && row->from == NULL &&
	    !(row->kind == KODA_CHANGE_CREATED && row->type == KODA_FILE_DIRECTORY &&
		row->other == 0);
}

static void
count_row(const struct changes_view *view, const struct change_row *row, struct stat_line *line)
{
	struct changes_sides sides;

	if (row->kind == KODA_CHANGE_MODE || row->other != 0)
		return;
	changes_sides_read(&sides, view, row);
	line->counted = sides.readable && !sides.binary &&
	    diff_count(sides.was.data, sides.was.len, sides.is.data, sides.is.len, &line->added,
		&line->removed);
	changes_sides_done(&sides);
}

/* The visible_put_fn that counts columns. */
static void
count_columns(void *to, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		*(int *)to += (p[i] & 0xc0) != 0x80;
}

static int
columns(const char *name)
{
	int ret = 0;

	asked_show(name, strlen(name), false, count_columns, &ret);
	return ret;
}

static void
add_to_sums(struct stat_sums *sums, const struct changes_view *view, const struct change_row *row,
    const struct stat_line *line)
{
	const int len = columns(changes_shown(view, row->path));

	sums->files++;
	sums->added += line->added;
	sums->removed += line->removed;
	if (line->added + line->removed > sums->most)
		sums->most = line->added + line->removed;
	if (len > sums->name)
		sums->name = len < NAME_COLUMNS ? len : NAME_COLUMNS;
}

/* Returns how many of the graph's columns n lines have: at least one. */
static int
graph_columns(uint64_t n, uint64_t most)
{
	if (most <= GRAPH_COLUMNS || n == 0)
		return (int)n;
	return 1 + (int)((double)n / (double)most * (GRAPH_COLUMNS - 1));
}

static void
put_signs(struct page *page, char sign, const char *code, int n)
{
	if (n == 0)
		return;
	page_print(page, "%s", colour(page, code));
	for (int i = 0; i < n; i++)
		page_print(page, "%c", sign);
	page_print(page, "%s", colour(page, PAGE_PLAIN));
}

static void
put_line(struct page *page, const struct changes_view *view, const struct change_row *row,
    const struct stat_line *line, const struct stat_sums *sums)
{
	const char *name = changes_shown(view, row->path);
	const int len = columns(name);

	page_print(page, " ");
	asked_show(name, strlen(name), false, page_put, page);
	page_print(page, "%*s | ", len < sums->name ? sums->name - len : 0, "");
	if (line->counted) {
		page_print(page, "%*" PRIu64 " ", sums->number, line->added + line->removed);
		put_signs(page, '+', PAGE_GREEN, graph_columns(line->added, sums->most));
		put_signs(page, '-', PAGE_RED, graph_columns(line->removed, sums->most));
	} else if (row->kind == KODA_CHANGE_MODE) {
		page_print(page, "mode %04o -> %04o", row->mode_before, row->mode);
	} else if (row->other != 0) {
		page_print(page,
		    row->kind == KODA_CHANGE_DELETED ? "renamed, see its new name"
						     : "renamed from ");
		name = changes_shown(view, view->changes->row[row->other - 1].path);
		if (row->kind == KODA_CHANGE_CREATED)
			asked_show(name, strlen(name), false, page_put, page);
	} else if (row->type == KODA_FILE_SYMLINK || row->type_before == KODA_FILE_SYMLINK) {
		page_print(page, "link");
	} else if (row->type_before == KODA_FILE_DIRECTORY) {
		page_print(page, "directory deleted");
	} else {
		page_print(page, "Bin %" PRIu64 " -> %" PRIu64 " bytes", row->size_before,
		    row->size);
	}
	if (row->rule != NULL) {
		page_print(page, " %srefused (", colour(page, PAGE_RED));
		asked_show(row->rule, strlen(row->rule), false, page_put, page);
		page_print(page, ")%s", colour(page, PAGE_PLAIN));
	} else if (row->conflict) {
		page_print(page, " conflict");
	}
	page_print(page, "\n");
}

static int
digits(uint64_t n)
{
	int ret = 1;

	for (; n >= 10; n /= 10)
		ret++;
	return ret;
}

void
changes_show_stat(struct page *page, const struct changes_view *view)
{
	const struct changes *c = view->changes;
	struct stat_line *line = output_alloc((c->n + 1) * sizeof(*line));
	struct stat_sums sums = { 0 };

	memset(line, 0, (c->n + 1) * sizeof(*line));
	for (size_t i = 0; i < c->n; i++) {
		if (!is_listed(&c->row[i]))
			continue;
		count_row(view, &c->row[i], &line[i]);
		add_to_sums(&sums, view, &c->row[i], &line[i]);
	}
	sums.number = digits(sums.most);
	for (size_t i = 0; i < c->n; i++) {
		if (is_listed(&c->row[i]))
			put_line(page, view, &c->row[i], &line[i], &sums);
	}
	for (size_t i = 0; i < c->n_units; i++) {
		if (c->unit[i].kind == UNIT_GIT)
			changes_show_unit(page, view, &c->unit[i]);
	}
	page_print(page, " %" PRIu64 " file%s changed", sums.files, sums.files == 1 ? "" : "s");
	if (sums.added > 0)
		page_print(page, ", %" PRIu64 " insertion%s(+)", sums.added,
		    sums.added == 1 ? "" : "s");
	if (sums.removed > 0)
		page_print(page, ", %" PRIu64 " deletion%s(-)", sums.removed,
		    sums.removed == 1 ? "" : "s");
	page_print(page, "\n");
	free(line);
}
