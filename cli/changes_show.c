/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes_show.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "show/asked.h"
#include "show/diff.h"

/* What needs attention is never pushed out of sight by its number. */
#define ATTENTION_MAX 10
#define BRANCHES_MAX  4

#define YELLOW "\033[33m"

static const char *
colour(const struct page *page, const char *code)
{
	return page->medium.style == PAGE_COLOUR ? code : "";
}

/* ---- names ---- */

const char *
changes_shown(const struct changes_view *view, const char *path)
{
	const size_t len = view->cwd != NULL ? strlen(view->cwd) : 0;

	if (len > 1 && changes_is_below(path, view->cwd, len) && path[len] == '/')
		return path + len + 1;
	return path;
}

static bool
is_plain(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!isascii((unsigned char)name[i]) ||
		    (!isalnum((unsigned char)name[i]) && strchr("._/@%+=:,-", name[i]) == NULL))
			return false;
	}
	return len > 0;
}

/* Quotes a name unless it is plain: then the text after it cannot be taken for a part of it. */
static void
put_name(struct page *page, const char *name, size_t len, const char *after)
{
	const bool quote = !is_plain(name, len);

	page_print(page, "%s", quote ? "'" : "");
	if (quote)
		asked_name(name, len, page_put, page);
	else
		page_put(page, name, len);
	page_print(page, "%s%s", quote ? "'" : "", after);
}

static void
put_path(struct page *page, const struct changes_view *view, const char *path, size_t path_len,
    bool directory)
{
	const char *shown = changes_shown(view, path);

	put_name(page, shown, path_len - (size_t)(shown - path), directory ? "/" : "");
}

static void
put_text(struct page *page, const char *text)
{
	asked_show(text, strlen(text), false, page_put, page);
}

/* ---- sizes ---- */

static const char *
size_text(uint64_t bytes, char buf[32])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 10000) {
		snprintf(buf, 32, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
		return buf;
	}
	for (; value >= 1024 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		value /= 1024;
	snprintf(buf, 32, "%.1f %s", value, units[i]);
	return buf;
}

/* ---- counts ---- */

static void
put_count(struct page *page, const char **between, uint64_t n, const char *what, const char *code)
{
	if (n == 0)
		return;
	page_print(page, "%s%s%" PRIu64 " %s%s", *between, colour(page, code), n, what,
	    code[0] != '\0' ? colour(page, PAGE_PLAIN) : "");
	*between = ", ";
}

void
changes_show_counts(struct page *page, const struct changes *c)
{
	const struct changes_count *n = &c->count;
	const char *between = "";
	char size[32];

	put_count(page, &between, n->changed, "changed", "");
	put_count(page, &between, n->deleted, "deleted", "");
	put_count(page, &between, n->created, "created", "");
	put_count(page, &between, n->mode, "with other permissions", "");
	if (n->bytes > 0)
		page_print(page, " (%s)", size_text(n->bytes, size));
	if (n->refused + n->conflicts > 0)
		between = "; ";
	put_count(page, &between, n->conflicts, n->conflicts == 1 ? "conflict" : "conflicts",
	    YELLOW);
	put_count(page, &between, n->refused, "refused by the policy", PAGE_RED);
}

/* ---- git ---- */

static const char *
word_of(const struct change_row *row)
{
	switch (row->kind) {
	case KODA_CHANGE_CREATED:
		return "created";
	case KODA_CHANGE_CHANGED:
		return "changed";
	case KODA_CHANGE_DELETED:
		return "deleted";
	case KODA_CHANGE_MODE:
		return "mode";
	case KODA_CHANGE_RENAMED:
		return "renamed";
	}
	return "changed";
}

/* Reads the first seven digits of a commit, or another short value of a ref. */
static bool
read_ref(const struct changes_view *view, const char *path, bool before, char ret[64])
{
	struct changes_content content = { 0 };
	size_t n = 0;

	view->reader->read(view->reader->data, path, before, 256, &content);
	while (content.data != NULL && n < content.len && n < 63 && content.data[n] != '\n') {
		ret[n] = content.data[n];
		n++;
	}
	ret[n] = '\0';
	free(content.data);
	if (strspn(ret, "0123456789abcdef") == n && n >= 40)
		ret[7] = '\0';
	else if (strncmp(ret, "ref: refs/heads/", 16) == 0)
		memmove(ret, ret + 16, n - 15);
	else
		n = 0;
	return n > 0;
}

static void
put_ref(struct page *page, const struct changes_view *view, const struct change_row *row,
    const char *name)
{
	char was[64] = "", is[64] = "";
	const bool had = row->kind != KODA_CHANGE_CREATED && read_ref(view, row->path, true, was);
	const bool has = row->kind != KODA_CHANGE_DELETED && read_ref(view, row->path, false, is);

	page_print(page, "; ");
	if (name[0] == '\0') {
		page_print(page, "HEAD ");
		name = "HEAD";
	} else {
		put_name(page, name, strlen(name), " ");
	}
	if (!has) {
		page_print(page, "%s", word_of(row));
		return;
	}
	if (had)
		put_name(page, was, strlen(was), " -> ");
	else
		page_print(page, "at ");
	put_name(page, is, strlen(is), "");
}

static void
put_refs(struct page *page, const struct changes_view *view, const struct change_unit *unit)
{
	const struct change_row *row = view->changes->row;
	unsigned n = 0;

	for (size_t i = unit->row; i < unit->end && n <= BRANCHES_MAX; i++) {
		const char *below = row[i].path + unit->path_len;
		const bool head = strcmp(below, "/HEAD") == 0;

		if ((!head && strncmp(below, "/refs/heads/", 12) != 0) || row[i].rule != NULL ||
		    (row[i].type != KODA_FILE_REGULAR && row[i].type_before != KODA_FILE_REGULAR))
			continue;
		if (n++ == BRANCHES_MAX)
			page_print(page, "; ...");
		else
			put_ref(page, view, &row[i], head ? "" : below + 12);
	}
}

static void
put_index(struct page *page, const struct changes_view *view, const struct change_unit *unit)
{
	const struct change_row *row = view->changes->row;

	for (size_t i = unit->row; i < unit->end; i++)
		if (strcmp(row[i].path + unit->path_len, "/index") == 0 && row[i].rule == NULL)
			page_print(page, "; index %s", word_of(&row[i]));
}

/* ---- units ---- */

static void
put_word(struct page *page, const char *word, const char *code)
{
	page_print(page, "  %s%-8s%s ", colour(page, code), word,
	    code[0] != '\0' ? colour(page, PAGE_PLAIN) : "");
}

/* What happened to a row, after its name. */
static void
put_what(struct page *page, const struct change_row *row)
{
	char a[32], b[32];

	if (row->kind == KODA_CHANGE_MODE) {
		page_print(page, " (%04o -> %04o)", row->mode_before, row->mode);
		return;
	}
	if (row->kind == KODA_CHANGE_DELETED) {
		if (row->type_before == KODA_FILE_DIRECTORY && row->entries > 0)
			page_print(page, " (with %" PRIu64 " name%s in it)", row->entries,
			    row->entries == 1 ? "" : "s");
		return;
	}
	if (row->type == KODA_FILE_SYMLINK) {
		page_print(page, " -> ");
		put_name(page, row->target != NULL ? row->target : "?",
		    row->target != NULL ? strlen(row->target) : 1, "");
	} else if (row->type == KODA_FILE_REGULAR && row->type_before == KODA_FILE_REGULAR) {
		page_print(page, " (%" PRIu64 " -> %s%s)", row->size_before,
		    size_text(row->size, b),
		    row->mode != row->mode_before ? ", other permissions" : "");
	} else if (row->type == KODA_FILE_REGULAR) {
		page_print(page, " (%s%s)", size_text(row->size, a),
		    row->mode & 0111 ? ", executable" : "");
	}
}

static bool
is_directory(const struct change_row *row)
{
	return (row->kind == KODA_CHANGE_DELETED ? row->type_before : row->type) ==
	    KODA_FILE_DIRECTORY;
}

static void
put_row(struct page *page, const struct changes_view *view, const struct change_row *row)
{
	put_path(page, view, row->path, strlen(row->path), is_directory(row));
	put_what(page, row);
}

const char *
changes_reason(const char *reason, const char *path, const char *rule, bool *ret_has_rule)
{
	const char *at = strstr(reason, path), *advice = strstr(reason, " is protected: ");
	const size_t len = strlen(path);

	/* "... (rule R, mode M). 'NAME' is protected: WHY; WHAT TO DO" */
	while (advice != NULL && advice > reason && strncmp(advice, "). '", 4) != 0)
		advice--;
	if (advice != NULL && advice > reason) {
		*ret_has_rule = rule == NULL;
		return advice + 3;
	}
	*ret_has_rule = rule == NULL || strstr(reason, rule) != NULL;
	if (strncmp(reason, "refused to ", 11) != 0 || at == NULL ||
	    strncmp(at + len, "': ", 3) != 0)
		return reason;
	return at + len + 3;
}

/* Why a row is not applied. */
static void
put_reason(struct page *page, const struct change_row *row)
{
	const char *reason = row->reason != NULL && row->reason[0] != '\0'
	    ? row->reason
	    : "the policy does not allow it";
	bool has_rule;

	if (row->rule != NULL) {
		page_print(page, ": ");
		put_text(page, changes_reason(reason, row->path, row->rule, &has_rule));
		if (has_rule)
			return;
		page_print(page, " (");
		put_text(page, row->rule);
		page_print(page, ")");
	} else if (row->conflict) {
		page_print(page, ": it changed in the project since%s",
		    row->merge == KODA_MERGE_CLEAN ? ", and merges cleanly" : "");
		if (row->merge == KODA_MERGE_OVERLAPS)
			page_print(page, "; %s", row->merge_reason);
	}
}

static void
put_renamed(struct page *page, const struct changes_view *view, const struct change_row *row)
{
	const struct change_row *other = &view->changes->row[row->other - 1];
	const struct change_row *was = row->kind == KODA_CHANGE_DELETED ? row : other;
	const struct change_row *is = row->kind == KODA_CHANGE_DELETED ? other : row;
	const bool directory = is->type == KODA_FILE_DIRECTORY;

	put_path(page, view, was->path, strlen(was->path), directory);
	page_print(page, " -> ");
	put_path(page, view, is->path, strlen(is->path), directory);
	if (directory)
		page_print(page, " (%" PRIu64 " name%s in it)", was->entries,
		    was->entries == 1 ? "" : "s");
	if (was->mode_before != is->mode)
		page_print(page, " (%04o -> %04o)", was->mode_before, is->mode);
}

/* What is in a directory that is a unit. */
static void
put_inside(struct page *page, const struct change_unit *unit)
{
	char size[32];

	if (unit->end - unit->row > 1)
		page_print(page, " (%" PRIu64 " file%s in it, %s)", unit->files,
		    unit->files == 1 ? "" : "s", size_text(unit->bytes, size));
}

void
changes_show_unit(struct page *page, const struct changes_view *view,
    const struct change_unit *unit)
{
	const struct change_row *row = &view->changes->row[unit->row];

	switch (unit->kind) {
	case UNIT_RENAMED:
		put_word(page, "renamed", PAGE_CYAN);
		put_renamed(page, view, row);
		break;
	case UNIT_GIT:
		put_word(page, "git", PAGE_CYAN);
		put_path(page, view, row->path, unit->path_len, true);
		page_print(page, " (%" PRIu64 " file%s)", unit->files, unit->files == 1 ? "" : "s");
		put_refs(page, view, unit);
		put_index(page, view, unit);
		break;
	case UNIT_REFUSED:
	case UNIT_CONFLICT:
		put_word(page, unit->kind == UNIT_REFUSED ? "REFUSED" : "CONFLICT",
		    unit->kind == UNIT_REFUSED ? PAGE_RED : YELLOW);
		page_print(page, "%s ", word_of(row));
		put_row(page, view, row);
		put_inside(page, unit);
		put_reason(page, row);
		break;
	case UNIT_CREATED:
		put_word(page, word_of(row), PAGE_GREEN);
		put_row(page, view, row);
		put_inside(page, unit);
		break;
	case UNIT_CHANGED:
	case UNIT_DELETED:
	case UNIT_MODE:
		put_word(page, word_of(row), unit->kind == UNIT_DELETED ? PAGE_RED : "");
		put_row(page, view, row);
		break;
	}
	page_print(page, "\n");
}

/* ---- the summary ---- */

/* Writes the units of a kind, as long as there is room. Returns how many were left out. */
static size_t
put_units(struct page *page, const struct changes_view *view, enum change_unit_kind kind,
    size_t *room)
{
	const struct changes *c = view->changes;
	size_t left_out = 0;

	for (size_t i = 0; i < c->n_units; i++) {
		if (c->unit[i].kind != kind)
			continue;
		if (*room == 0) {
			left_out++;
			continue;
		}
		--*room;
		changes_show_unit(page, view, &c->unit[i]);
	}
	return left_out;
}

static void
put_left_out(struct page *page, size_t n, const char *what)
{
	if (n > 0)
		page_print(page, "  ... and %zu more%s\n", n, what);
}

void
changes_show_notes(struct page *page, const struct changes_view *view, size_t max)
{
	const struct changes *c = view->changes;
	size_t left_out = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (c->row[i].note == NULL || c->row[i].rule != NULL)
			continue;
		if (max == 0) {
			left_out++;
			continue;
		}
		max--;
		put_word(page, "HIDES", YELLOW);
		put_path(page, view, c->row[i].path, strlen(c->row[i].path), false);
		page_print(page, ": ");
		put_text(page, c->row[i].note);
		page_print(page, "\n");
	}
	put_left_out(page, left_out, " that hide something");
}

void
changes_show_summary(struct page *page, const struct changes_view *view)
{
	static const enum change_unit_kind order[] = { UNIT_CHANGED, UNIT_DELETED, UNIT_RENAMED,
		UNIT_CREATED, UNIT_MODE };
	size_t room = SUMMARY_MAX, left_out = 0;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		left_out += put_units(page, view, order[i], &room);
	put_left_out(page, left_out, "");
	room = ATTENTION_MAX;
	put_left_out(page, put_units(page, view, UNIT_GIT, &room), " git directories");
	room = ATTENTION_MAX;
	put_left_out(page, put_units(page, view, UNIT_CONFLICT, &room), " conflicts");
	room = ATTENTION_MAX;
	put_left_out(page, put_units(page, view, UNIT_REFUSED, &room), " refused");
	changes_show_notes(page, view, ATTENTION_MAX);
	if (view->changes->not_kept > 0)
		page_print(page, "  ... and %" PRIu64 " more that do not fit here\n",
		    view->changes->not_kept);
	if (view->changes->cut)
		page_print(page,
		    "  There are more names, or deeper ones, than a draft may have: these are not listed and cannot be applied.\n");
}

/* ---- diffs ---- */

static bool
has_content(const struct change_row *row, bool before)
{
	return (before ? row->type_before : row->type) == KODA_FILE_REGULAR;
}

void
changes_sides_read(struct changes_sides *sides, const struct changes_view *view,
    const struct change_row *row)
{
	const bool had = has_content(row, true), has = has_content(row, false);
	const bool other =
	    (!had && row->type_before != KODA_FILE_NONE) || (!has && row->type != KODA_FILE_NONE);

	*sides = (struct changes_sides){ 0 };
	if (had)
		view->reader->read(view->reader->data, row->path, true, CHANGES_CONTENT_MAX,
		    &sides->was);
	if (has)
		view->reader->read(view->reader->data, row->path, false, CHANGES_CONTENT_MAX,
		    &sides->is);
	sides->readable = (had || has) && !other &&
	    (!had || (sides->was.data != NULL && sides->was.whole)) &&
	    (!has || (sides->is.data != NULL && sides->is.whole));
	sides->binary = sides->readable &&
	    ((had && memchr(sides->was.data, '\0', sides->was.len) != NULL) ||
		(has && memchr(sides->is.data, '\0', sides->is.len) != NULL));
}

void
changes_sides_done(struct changes_sides *sides)
{
	free(sides->was.data);
	free(sides->is.data);
	*sides = (struct changes_sides){ 0 };
}

static void
put_digest(struct page *page, const char *sign, uint64_t size, const struct changes_content *side)
{
	char text[32];

	page_print(page, "%s %s", sign, size_text(size, text));
	if (side->digest[0] != '\0')
		page_print(page, ", BLAKE2b %s", side->digest);
	page_print(page, "\n");
}

static void
put_unreadable(struct page *page, const struct change_row *row, const struct changes_sides *sides)
{
	page_print(page, "%s\n",
	    sides->binary ? "binary file"
		: (has_content(row, true) && sides->was.data == NULL) ||
		    (has_content(row, false) && sides->is.data == NULL)
		? "its content could not be read"
		: "too large to be shown");
	if (has_content(row, true))
		put_digest(page, "-", row->size_before, &sides->was);
	if (has_content(row, false))
		put_digest(page, "+", row->size, &sides->is);
}

static void
put_target(struct page *page, char sign, const char *code, const char *target)
{
	page_print(page, "%s%c link to ", colour(page, code), sign);
	put_name(page, target, strlen(target), "");
	page_print(page, "%s\n", colour(page, PAGE_PLAIN));
}

static void
put_patch_name(struct page *page, const struct changes_view *view, const char *sign, char side,
    const char *path, bool none)
{
	const size_t len = strlen(view->root);

	if (none) {
		page_print(page, "%s /dev/null\n", sign);
		return;
	}
	if (changes_is_below(path, view->root, len) && path[len] == '/')
		path += len + 1;
	page_print(page, "%s %c/", sign, side);
	visible_show(path, strlen(path), false, page_put, page);
	page_print(page, "\n");
}

/* Says so if the content is the same. Returns whether it is. */
static bool
put_same(struct page *page, const struct change_row *row, const struct changes_sides *sides)
{
	if (!has_content(row, true) || !has_content(row, false) || row->size_before != row->size ||
	    (row->size > 0 &&
		(!sides->readable || sides->was.len != sides->is.len ||
		    memcmp(sides->was.data, sides->is.data, sides->is.len) != 0)))
		return false;
	page_print(page, "the same content: only the time of the last change%s differ%s\n",
	    row->mode != row->mode_before ? " and the permissions" : "",
	    row->mode != row->mode_before ? "" : "s");
	return true;
}

static void
put_diff_body(struct page *page, const struct changes_view *view, const struct change_row *row,
    bool patch)
{
	struct changes_sides sides = { 0 };

	if (row->target_before != NULL)
		put_target(page, '-', PAGE_RED, row->target_before);
	if (row->target != NULL)
		put_target(page, '+', PAGE_GREEN, row->target);
	if (row->kind == KODA_CHANGE_MODE)
		return;
	/* Empty files have no lines. */
	if ((!has_content(row, true) || row->size_before == 0) &&
	    (!has_content(row, false) || row->size == 0)) {
		put_same(page, row, &sides);
		return;
	}
	changes_sides_read(&sides, view, row);
	if (put_same(page, row, &sides)) {
		/* There is nothing else to show. */
	} else if (!sides.readable || sides.binary) {
		put_unreadable(page, row, &sides);
	} else {
		if (patch) {
			put_patch_name(page, view, "---", 'a', row->path, !has_content(row, true));
			put_patch_name(page, view, "+++", 'b', row->path, !has_content(row, false));
		}
		/* What the draft has takes back what was changed in the project: the merged text does
		 * not. */
		if (row->merged != NULL)
			diff_unified(page, sides.was.data, sides.was.len, row->merged,
			    row->merged_len);
		else
			diff_unified(page, sides.was.data, sides.was.len, sides.is.data,
			    sides.is.len);
	}
	changes_sides_done(&sides);
}

void
changes_show_diff(struct page *page, const struct changes_view *view, const struct change_row *row,
    bool patch)
{
	const bool moved = row->other != 0 && row->rule == NULL;

	page_print(page, "%s%s%s%s%s ", colour(page, PAGE_BOLD),
	    colour(page,
		row->rule != NULL   ? PAGE_RED
		    : row->conflict ? YELLOW
				    : ""),
	    row->rule != NULL   ? "REFUSED"
		: row->conflict ? "CONFLICT"
		: moved         ? "renamed"
				: word_of(row),
	    row->rule != NULL || row->conflict ? colour(page, PAGE_PLAIN) : "",
	    row->rule != NULL || row->conflict ? colour(page, PAGE_BOLD) : "");
	if (row->rule != NULL || row->conflict)
		page_print(page, "%s ", word_of(row));
	if (moved)
		put_renamed(page, view, row);
	else
		put_row(page, view, row);
	page_print(page, "%s", colour(page, PAGE_PLAIN));
	put_reason(page, row);
	page_print(page, "%s\n", row->merged != NULL ? ", to this" : "");
	if (!moved)
		put_diff_body(page, view, row, patch);
}

/* ---- all of them ---- */

void
changes_show_diffs(struct page *page, const struct changes_view *view, size_t first, size_t end,
    size_t max, bool patch)
{
	const struct changes *c = view->changes;
	size_t n = 0;

	for (size_t i = first; i < c->n_units && i < end && n < max; i++) {
		const struct change_unit *unit = &c->unit[i];

		if (unit->kind == UNIT_GIT) {
			changes_show_unit(page, view, unit);
			n++;
			continue;
		}
		for (size_t j = unit->row; j < unit->end && n < max; j++) {
			if (changes_kind(&c->row[j]) != unit->kind)
				continue;
			changes_show_diff(page, view, &c->row[j], patch);
			n++;
		}
	}
	if (n == max && c->n > n)
		page_print(page, "... more changes are left out here\n");
}
