/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show.h"

/* ripgrep's colours, with the reset that it prints before each. */
#define RESET         "\033[0m"
#define COLOUR_PATH   RESET "\033[35m"
#define COLOUR_LINE   RESET "\033[32m"
#define COLOUR_NUMBER RESET
#define COLOUR_MATCH  RESET "\033[1m\033[31m"

static void
put(struct search_printer *p, const char *text, size_t len)
{
	if (len == 0)
		return;
	if (p->style.escape)
		show(p->f, text, len, SHOW_TABS);
	else
		fwrite_unlocked(text, 1, len, p->f);
}

static void
put_own(struct search_printer *p, const char *text)
{
	fputs_unlocked(text, p->f);
}

static void
put_char(struct search_printer *p, char c)
{
	putc_unlocked(c, p->f);
}

static void
begin_colour(struct search_printer *p, const char *colour)
{
	if (p->style.colour)
		put_own(p, colour);
}

static void
end_colour(struct search_printer *p)
{
	if (p->style.colour)
		put_own(p, RESET);
}

/* ---- paths ---- */

struct search_name
search_name(const char *const *operands, size_t n_operands, const struct koda_found *found)
{
	struct search_name name = { "", "", found->path };
	size_t len;

	if (n_operands == 0) {
		if (found->path[0] == '\0')
			name.below = ".";
		return name;
	}
	name.operand = operands[found->place];
	len = strlen(name.operand);
	if (found->path[0] != '\0' && len > 0 && name.operand[len - 1] != '/')
		name.slash = "/";
	return name;
}

static void
put_path(struct search_printer *p, const struct koda_found *found)
{
	struct search_name name = search_name(p->operands, p->n_operands, found);

	begin_colour(p, COLOUR_PATH);
	put(p, name.operand, strlen(name.operand));
	put_own(p, name.slash);
	put(p, name.below, strlen(name.below));
	end_colour(p);
}

/* Prints the path, and after it a NUL (-0) or the usual character. */
static void
put_path_and(struct search_printer *p, const struct koda_found *found, char end)
{
	put_path(p, found);
	put_char(p, p->style.null ? '\0' : end);
}

static bool
is_named(const struct search_printer *p, const struct koda_found *found)
{
	switch (p->style.names) {
	case SEARCH_NAMES_NEVER:
		return false;
	case SEARCH_NAMES_ALWAYS:
		return true;
	case SEARCH_NAMES_USUAL:
		break;
	}
	return p->n_operands != 1 || found->path[0] != '\0';
}

/* ---- files ---- */

static int
keep_path(struct search_printer *p, const char *path)
{
	size_t size = strlen(path) + 1;
	char *grown;

	if (size > p->path_size) {
		grown = realloc(p->path, 2 * size);
		if (grown == NULL)
			return -1;
		p->path = grown;
		p->path_size = 2 * size;
	}
	memcpy(p->path, path, size);
	return 0;
}

/* Returns 1 if this is another file than the one before, else 0. -1: out of memory. */
static int
enter_file(struct search_printer *p, const struct koda_found *found)
{
	if (p->in_file && p->place == found->place && strcmp(p->path, found->path) == 0)
		return 0;
	if (keep_path(p, found->path) < 0)
		return -1;
	p->in_file = true;
	p->place = found->place;
	p->line = 0;
	return 1;
}

/* Prints what separates the lines of two files. */
static void
put_between(struct search_printer *p, const struct koda_found *found, bool first)
{
	if (!first && p->style.heading)
		put_char(p, '\n');
	else if (!first && p->style.separated)
		put_own(p, "--\n");
	if (p->style.heading && is_named(p, found))
		put_path_and(p, found, '\n');
}

/* ---- lines ---- */

static void
put_number(struct search_printer *p, const char *colour, uint64_t number, char end)
{
	begin_colour(p, colour);
	fprintf(p->f, "%" PRIu64, number);
	end_colour(p);
	put_char(p, end);
}

/*
 * Prints what comes before the text of a line, or of the match in it that begins at byte `start`.
 */
static void
put_prelude(struct search_printer *p, const struct koda_found *found, uint64_t start)
{
	const struct search_style *style = &p->style;
	bool match = found->kind == KODA_FOUND_MATCH;
	char end = match ? ':' : '-';

	if (!style->heading && is_named(p, found))
		put_path_and(p, found, end);
	if (style->line_numbers)
		put_number(p, COLOUR_LINE, found->line, end);
	if (style->column && match && found->n_spans > 0)
		put_number(p, COLOUR_NUMBER,
		    found->cut_before + (style->only_matching ? start : found->spans[0].start) + 1,
		    end);
	if (style->byte_offset)
		put_number(p, COLOUR_NUMBER,
		    found->offset + (style->only_matching ? found->cut_before + start : 0), end);
}

/* Prints part of a line, with its matches; matches that touch each other are joined. */
static void
put_text(struct search_printer *p, const struct koda_found *found, size_t start, size_t end)
{
	size_t at = start;

	for (size_t i = 0; p->style.colour && i < found->n_spans;) {
		size_t from = found->spans[i].start, to = found->spans[i].end;

		for (i++; i < found->n_spans && found->spans[i].start <= to; i++)
			to = found->spans[i].end > to ? found->spans[i].end : to;
		if (from < at || to > end || from == to)
			continue;
		put(p, found->text + at, from - at);
		put_own(p, COLOUR_MATCH);
		put(p, found->text + from, to - from);
		put_own(p, RESET);
		at = to;
	}
	if (end > at)
		put(p, found->text + at, end - at);
}

/*
 * Prints a sentence instead of a line that is longer than requested; ripgrep counts the line end
 * too.
 */
static bool
put_omission(struct search_printer *p, const struct koda_found *found, uint64_t len)
{
	const struct search_style *style = &p->style;

	if (style->max_columns == 0 || style->preview || len <= style->max_columns)
		return false;
	if (found->kind == KODA_FOUND_CONTEXT)
		put_own(p, "[Omitted long context line]\n");
	else if (found->n_spans > 0 && !style->only_matching && (style->colour || style->column))
		fprintf(p->f, "[Omitted long line with %zu matches]\n", found->n_spans);
	else
		put_own(p, "[Omitted long matching line]\n");
	return true;
}

static void
put_cut(struct search_printer *p, uint64_t bytes, const char *before, const char *after)
{
	if (bytes > 0)
		fprintf(p->f, "%s[... %" PRIu64 " bytes]%s", before, bytes, after);
}

static void
print_whole(struct search_printer *p, const struct koda_found *found)
{
	size_t len = found->len;
	bool returns;

	put_prelude(p, found, 0);
	if (put_omission(p, found, found->cut_before + len + found->cut_after + 1))
		return;
	put_cut(p, found->cut_before, "", " ");
	/*
	 * A '\r' at the end of a line is harmless, as the newline follows: lines from Windows print
	 * as usual.
	 */
	returns = found->cut_after == 0 && len > 0 && found->text[len - 1] == '\r' &&
	    (found->n_spans == 0 || found->spans[found->n_spans - 1].end < len);
	put_text(p, found, 0, returns ? len - 1 : len);
	if (returns)
		put_char(p, '\r');
	put_cut(p, found->cut_after, " ", "");
	put_char(p, '\n');
}

static void
print_matches(struct search_printer *p, const struct koda_found *found)
{
	for (size_t i = 0; i < found->n_spans; i++) {
		size_t start = found->spans[i].start, end = found->spans[i].end;

		put_prelude(p, found, start);
		if (put_omission(p, found, end - start))
			continue;
		if (end > start) {
			begin_colour(p, COLOUR_MATCH);
			put(p, found->text + start, end - start);
			end_colour(p);
		}
		put_char(p, '\n');
	}
}

static int
print_line(struct search_printer *p, const struct koda_found *found)
{
	bool first = !p->in_file;
	int entered = enter_file(p, found);

	if (entered < 0)
		return -1;
	if (entered > 0)
		put_between(p, found, first);
	if (p->style.separated && p->line != 0 && found->line > p->line + 1)
		put_own(p, "--\n");
	p->line = found->line;
	if (p->style.only_matching && found->kind == KODA_FOUND_MATCH && found->n_spans > 0)
		print_matches(p, found);
	else
		print_whole(p, found);
	return 0;
}

static int
print_binary(struct search_printer *p, const struct koda_found *found)
{
	/* No separator before this line, as in ripgrep; the next file gets one. */
	if (enter_file(p, found) < 0)
		return -1;
	if (is_named(p, found)) {
		put_path(p, found);
		put_own(p, ": ");
	}
	fprintf(p->f, "binary file matches (found \"\\0\" byte around offset %" PRIu64 ")\n",
	    found->offset);
	return 0;
}

static void
print_count(struct search_printer *p, const struct koda_found *found)
{
	if (is_named(p, found))
		put_path_and(p, found, ':');
	fprintf(p->f, "%" PRIu64 "\n", found->count);
}

int
search_print(struct search_printer *printer, const struct koda_found *found)
{
	switch (found->kind) {
	case KODA_FOUND_FILE:
		put_path_and(printer, found, '\n');
		return 0;
	case KODA_FOUND_MATCH:
	case KODA_FOUND_CONTEXT:
		return print_line(printer, found);
	case KODA_FOUND_COUNT:
		print_count(printer, found);
		return 0;
	case KODA_FOUND_BINARY:
		return print_binary(printer, found);
	case KODA_FOUND_ENTRY:
		search_print_entry(printer->f, printer->operands, printer->n_operands, found);
		return 0;
	case KODA_FOUND_TROUBLE:
		return 0;
	}
	return 0;
}

void
search_print_done(struct search_printer *printer)
{
	free(printer->path);
	printer->path = NULL;
	printer->path_size = 0;
}

/* ---- listings ---- */

#define SIZE_COLUMNS 12 /* enough for a hundred gigabytes */

void
search_print_entry(FILE *f, const char *const *operands, size_t n_operands,
    const struct koda_found *found)
{
	struct search_name name = search_name(operands, n_operands, found);
	const char *last = strrchr(found->path, '/'), *shown = found->path;

	if (found->path[0] == '\0')
		shown = n_operands > 0 ? name.operand : name.below;
	else if (last != NULL)
		shown = last + 1;
	fprintf(f, "%*" PRIu64 "  %*s", SIZE_COLUMNS, found->size, 2 * (int)found->depth, "");
	show_string(f, shown);
	if (found->type == KODA_FILE_DIRECTORY)
		fprintf(f, "%s  (%" PRIu64 " file%s)", shown[strlen(shown) - 1] == '/' ? "" : "/",
		    found->files, found->files == 1 ? "" : "s");
	else if (found->type == KODA_FILE_SYMLINK)
		fputs("  (link)", f);
	else if (found->type != KODA_FILE_REGULAR)
		fputs("  (special)", f);
	putc_unlocked('\n', f);
}
