/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes.h"

#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

/* ---- keeping them ---- */

static char *
keep_text(struct changes *c, const char *text)
{
	size_t size;
	char *ret;

	if (text == NULL)
		return NULL;
	size = strlen(text) + 1;
	ret = output_alloc(size);
	memcpy(ret, text, size);
	c->bytes += size;
	return ret;
}

static void
count_change(struct changes_count *count, const struct koda_change *change)
{
	count->all++;
	count->created += change->kind == KODA_CHANGE_CREATED;
	count->changed += change->kind == KODA_CHANGE_CHANGED;
	count->deleted += change->kind == KODA_CHANGE_DELETED;
	count->mode += change->kind == KODA_CHANGE_MODE;
	count->refused += change->rule != NULL;
	count->conflicts += change->rule == NULL && change->conflict;
	if (change->after != NULL && change->after->type == KODA_FILE_REGULAR &&
	    change->kind != KODA_CHANGE_MODE)
		count->bytes += change->after->size;
}

void
changes_add(struct changes *c, const struct koda_change *change)
{
	const struct koda_change_side none = { 0 };
	const struct koda_change_side *was = change->before != NULL ? change->before : &none;
	const struct koda_change_side *is = change->after != NULL ? change->after : &none;
	struct change_row *row;

	count_change(&c->count, change);
	if (c->bytes >= CHANGES_BYTES_MAX) {
		c->not_kept++;
		return;
	}
	if (c->n == c->room) {
		c->room = c->room > 0 ? 2 * c->room : 64;
		c->row = reallocarray(c->row, c->room, sizeof(*c->row));
		if (c->row == NULL)
			output_no_memory();
	}
	row = &c->row[c->n++];
	*row = (struct change_row){ .kind = change->kind,
		.type_before = was->type,
		.type = is->type,
		.size_before = was->size,
		.size = is->size,
		.mode_before = was->mode,
		.mode = is->mode,
		.entries = change->entries,
		.conflict = change->conflict };
	row->path = keep_text(c, change->path);
	row->target_before = keep_text(c, was->target);
	row->target = keep_text(c, is->target);
	row->rule = keep_text(c, change->rule);
	row->reason = keep_text(c, change->reason);
	row->note = keep_text(c, change->note);
	c->bytes += sizeof(*row);
}

/* Takes what there is to say about a row that is in conflict. */
static void
take_merge(struct changes *c, struct change_row *row, const struct koda_merge *merge)
{
	row->merge = merge->outcome;
	row->merge_reason = keep_text(c, merge->reason);
	c->count.mergeable += row->rule == NULL && merge->outcome == KODA_MERGE_CLEAN;
	if (merge->text == NULL || c->bytes + merge->len > CHANGES_BYTES_MAX)
		return;
	row->merged = output_alloc(merge->len + 1);
	memcpy(row->merged, merge->text, merge->len);
	row->merged_len = merge->len;
	c->bytes += merge->len;
}

void
changes_add_merge(struct changes *c, const struct koda_merge *merge, size_t *next)
{
	while (*next < c->n && !c->row[*next].conflict)
		++*next;
	/* Only some of the changes may have been added. */
	if (*next < c->n && strcmp(c->row[*next].path, merge->path) == 0)
		take_merge(c, &c->row[(*next)++], merge);
}

void
changes_done(struct changes *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->row[i].path);
		free(c->row[i].target_before);
		free(c->row[i].target);
		free(c->row[i].rule);
		free(c->row[i].reason);
		free(c->row[i].note);
		free(c->row[i].from);
		free(c->row[i].merge_reason);
		free(c->row[i].merged);
	}
	free(c->row);
	free(c->unit);
	*c = (struct changes){ 0 };
}

/* ---- renamed files ---- */

#define PAIR_SIZE_MAX  (1u << 20)
#define PAIR_READS_MAX 128
#define PAIR_BYTES_MAX (16u << 20)

static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static bool
may_pair(const struct change_row *row, enum koda_change_kind kind)
{
	const bool gone = kind == KODA_CHANGE_DELETED;

	return row->kind == kind && row->other == 0 && row->from == NULL && row->rule == NULL &&
	    !row->conflict && (gone ? row->type_before : row->type) == KODA_FILE_REGULAR &&
	    (gone ? row->size_before : row->size) > 0 &&
	    (gone ? row->size_before : row->size) <= PAIR_SIZE_MAX &&
	    changes_git_dir(row->path) == 0;
}

struct pairing {
	struct changes *c;
	const struct changes_reader *reader;
	unsigned reads;
	size_t bytes;
};

static bool
same_content(struct pairing *p, const struct change_row *gone, const struct change_row *come)
{
	struct changes_content a = { 0 }, b = { 0 };
	bool same;

	p->reads += 2;
	p->bytes += 2 * (size_t)gone->size_before;
	p->reader->read(p->reader->data, gone->path, true, PAIR_SIZE_MAX, &a);
	p->reader->read(p->reader->data, come->path, false, PAIR_SIZE_MAX, &b);
	same = a.data != NULL && b.data != NULL && a.whole && b.whole && a.len == b.len &&
	    memcmp(a.data, b.data, a.len) == 0;
	free(a.data);
	free(b.data);
	return same;
}

/* Orders deleted files by size, so that those of one size are found at once. */
struct pair_gone {
	uint64_t size;
	size_t row;
};

static int
compare_gone(const void *a, const void *b)
{
	const struct pair_gone *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Finds the file's old name. named: only one with the same last part is compared. */
static void
pair_one(struct pairing *p, const struct pair_gone *gone, size_t n, size_t come, bool named)
{
	struct change_row *row = p->c->row;
	size_t from = 0, to = n;

	while (from < to) {
		const size_t mid = from + (to - from) / 2;

		if (gone[mid].size < row[come].size)
			from = mid + 1;
		else
			to = mid;
	}
	for (size_t i = from; i < n && gone[i].size == row[come].size; i++) {
		struct change_row *was = &row[gone[i].row];

		if (p->reads >= PAIR_READS_MAX || p->bytes >= PAIR_BYTES_MAX)
			return;
		if (was->other != 0 ||
		    (strcmp(base_name(was->path), base_name(row[come].path)) == 0) != named)
			continue;
		if (same_content(p, was, &row[come])) {
			was->other = come + 1;
			row[come].other = gone[i].row + 1;
			return;
		}
	}
}

/* ---- renamed directories ---- */

/* Directories that were deleted for which another name is looked for, those that are looked at for each,
 * and the names below one: commands choose how many there are. */
#define PAIR_DIRECTORIES_MAX 16
#define PAIR_CANDIDATES_MAX  1024
#define PAIR_ENTRIES_MAX     256

static bool
may_pair_directory(const struct change_row *row, enum koda_change_kind kind)
{
	const bool gone = kind == KODA_CHANGE_DELETED;

	return row->kind == kind && row->other == 0 && row->rule == NULL && !row->conflict &&
	    (gone ? row->type_before : row->type) == KODA_FILE_DIRECTORY &&
	    (!gone || row->entries > 0) && changes_git_dir(row->path) == 0;
}

/* Returns how many rows follow that are below the directory of row i, all of them created and plain;
 * 0: there are others. */
static size_t
plain_below(const struct changes *c, size_t i)
{
	const size_t len = strlen(c->row[i].path);
	size_t n = 0;

	for (size_t j = i + 1; j < c->n && changes_is_below(c->row[j].path, c->row[i].path, len);
	     j++, n++) {
		const struct change_row *row = &c->row[j];

		if (row->kind != KODA_CHANGE_CREATED || row->rule != NULL || row->conflict ||
		    row->other != 0 || row->from != NULL ||
		    (row->type != KODA_FILE_DIRECTORY && row->type != KODA_FILE_REGULAR) ||
		    row->size > PAIR_SIZE_MAX || n == PAIR_ENTRIES_MAX)
			return 0;
	}
	return n;
}

/* Returns the path that one below the directory `to` had below `from`. */
static char *
old_name(const char *path, const char *to, const char *from)
{
	const char *rest = path + strlen(to);
	const size_t size = strlen(from) + strlen(rest) + 1;
	char *ret = output_alloc(size);

	snprintf(ret, size, "%s%s", from, rest);
	return ret;
}

/* Has every file below the new directory, and no other, its content in the old one? */
static bool
same_directory(struct pairing *p, const struct change_row *gone, size_t come)
{
	const struct change_row *to = &p->c->row[come];
	const size_t n = plain_below(p->c, come);
	bool same = n == gone->entries;

	for (size_t j = come + 1; same && j <= come + n; j++) {
		struct change_row was = { .size_before = p->c->row[j].size };

		if (p->c->row[j].type == KODA_FILE_DIRECTORY)
			continue;
		if (p->reads >= PAIR_READS_MAX || p->bytes >= PAIR_BYTES_MAX)
			return false;
		was.path = old_name(p->c->row[j].path, to->path, gone->path);
		same = same_content(p, &was, &p->c->row[j]);
		free(was.path);
	}
	return same;
}

static void
pair_directory(struct pairing *p, size_t gone, size_t come)
{
	struct change_row *row = p->c->row;
	const size_t n = plain_below(p->c, come);

	row[gone].other = come + 1;
	row[come].other = gone + 1;
	for (size_t j = come + 1; j <= come + n; j++)
		row[j].from = old_name(row[j].path, row[come].path, row[gone].path);
}

static void
pair_directories(struct pairing *p)
{
	const struct changes *c = p->c;
	unsigned n = 0;

	for (size_t i = 0; i < c->n && n < PAIR_DIRECTORIES_MAX; i++) {
		unsigned candidates = 0;

		if (!may_pair_directory(&c->row[i], KODA_CHANGE_DELETED))
			continue;
		n++;
		for (size_t j = 0;
		     j < c->n && c->row[i].other == 0 && candidates < PAIR_CANDIDATES_MAX; j++) {
			if (!may_pair_directory(&c->row[j], KODA_CHANGE_CREATED) ||
			    c->row[j].from != NULL)
				continue;
			candidates++;
			if (same_directory(p, &c->row[i], j))
				pair_directory(p, i, j);
		}
	}
}

void
changes_pair(struct changes *c, const struct changes_reader *reader)
{
	struct pairing p = { .c = c, .reader = reader };
	struct pair_gone *gone = output_alloc((c->n + 1) * sizeof(*gone));
	size_t n = 0;

	pair_directories(&p);
	for (size_t i = 0; i < c->n; i++) {
		if (may_pair(&c->row[i], KODA_CHANGE_DELETED))
			gone[n++] = (struct pair_gone){ c->row[i].size_before, i };
	}
	qsort(gone, n, sizeof(*gone), compare_gone);
	for (int named = 1; named >= 0 && n > 0; named--) {
		for (size_t i = 0; i < c->n; i++) {
			if (may_pair(&c->row[i], KODA_CHANGE_CREATED))
				pair_one(&p, gone, n, i, named);
		}
	}
	free(gone);
}

/* ---- sorting ---- */

bool
changes_is_below(const char *path, const char *dir, size_t len)
{
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

size_t
changes_git_dir(const char *path)
{
	for (const char *at = strstr(path, "/.git"); at != NULL; at = strstr(at + 1, "/.git")) {
		const size_t len = (size_t)(at - path) + sizeof("/.git") - 1;

		if (path[len] == '/' || path[len] == '\0')
			return len;
	}
	return 0;
}

struct sorted_row {
	struct change_row row;
	size_t was;
};

/* A slash comes before every other byte: what is below a directory follows it. */
static int
compare_rows(const void *a, const void *b)
{
	const struct sorted_row *x = a, *y = b;
	const unsigned char *p = (const unsigned char *)x->row.path,
			    *q = (const unsigned char *)y->row.path;

	while (*p == *q && *p != '\0') {
		p++;
		q++;
	}
	if (*p == *q) /* deleted, then created */
		return x->was < y->was ? -1 : x->was > y->was;
	if (*p == '/' || *q == '/')
		return *p == '\0' ? -1 : *q == '\0' ? 1 : *p == '/' ? -1 : 1;
	return *p < *q ? -1 : 1;
}

static void
sort_rows(struct changes *c)
{
	struct sorted_row *sorted = output_alloc((c->n + 1) * sizeof(*sorted));
	size_t *now = output_alloc((c->n + 1) * sizeof(*now));

	for (size_t i = 0; i < c->n; i++)
		sorted[i] = (struct sorted_row){ c->row[i], i };
	qsort(sorted, c->n, sizeof(*sorted), compare_rows);
	for (size_t i = 0; i < c->n; i++) {
		c->row[i] = sorted[i].row;
		now[sorted[i].was] = i;
	}
	for (size_t i = 0; i < c->n; i++) {
		if (c->row[i].other != 0)
			c->row[i].other = now[c->row[i].other - 1] + 1;
	}
	free(now);
	free(sorted);
}

/* ---- units ---- */

enum change_unit_kind
changes_kind(const struct change_row *row)
{
	if (row->rule != NULL)
		return UNIT_REFUSED;
	if (row->conflict)
		return UNIT_CONFLICT;
	if (changes_git_dir(row->path) > 0)
		return UNIT_GIT;
	if (row->other != 0 || row->from != NULL)
		return UNIT_RENAMED;
	switch (row->kind) {
	case KODA_CHANGE_CREATED:
		return UNIT_CREATED;
	case KODA_CHANGE_CHANGED:
		return UNIT_CHANGED;
	case KODA_CHANGE_DELETED:
		return UNIT_DELETED;
	case KODA_CHANGE_MODE:
		return UNIT_MODE;
	case KODA_CHANGE_RENAMED: /* not in a draft */
		break;
	}
	return UNIT_CHANGED;
}

static void
take_in(struct change_unit *unit, const struct change_row *row)
{
	unit->files += row->type != KODA_FILE_DIRECTORY;
	unit->bytes += row->type == KODA_FILE_REGULAR ? row->size : 0;
}

/* Takes in the row of the new name, with everything below it. */
static void
take_renamed(const struct changes *c, size_t come, struct change_unit *unit, bool *taken)
{
	const size_t len = strlen(c->row[come].path);

	take_in(unit, &c->row[come]);
	for (size_t j = come + 1; j < c->n && c->row[j].from != NULL &&
	     changes_is_below(c->row[j].path, c->row[come].path, len);
	     j++) {
		taken[j] = true;
		take_in(unit, &c->row[j]);
	}
}

/* Makes a unit of row i. taken[]: rows that belong to an earlier unit. */
static void
begin_unit(struct changes *c, size_t i, bool *taken)
{
	const struct change_row *row = &c->row[i];
	struct change_unit *unit = &c->unit[c->n_units++];
	const enum change_unit_kind kind = changes_kind(row);
	bool grows = kind == UNIT_GIT;

	*unit = (struct change_unit){ .kind = kind,
		.row = i,
		.end = i + 1,
		.path_len = strlen(row->path) };
	if (kind == UNIT_GIT)
		unit->path_len = changes_git_dir(row->path);
	if ((kind == UNIT_CREATED || kind == UNIT_REFUSED) && row->type == KODA_FILE_DIRECTORY)
		grows = true;
	if (kind == UNIT_RENAMED) {
		taken[row->other - 1] = true;
		take_renamed(c, row->kind == KODA_CHANGE_DELETED ? row->other - 1 : i, unit, taken);
		return;
	}
	take_in(unit, row);
	for (size_t j = i + 1;
	     grows && j < c->n && changes_is_below(c->row[j].path, row->path, unit->path_len);
	     j++) {
		if (taken[j] || changes_kind(&c->row[j]) != kind)
			continue;
		taken[j] = true;
		unit->end = j + 1;
		take_in(unit, &c->row[j]);
	}
}

void
changes_finish(struct changes *c)
{
	bool *taken = output_alloc(c->n + 1);

	memset(taken, 0, c->n + 1);
	sort_rows(c);
	c->unit = output_alloc((c->n + 1) * sizeof(*c->unit));
	c->n_units = 0;
	for (size_t i = 0; i < c->n; i++) {
		if (!taken[i])
			begin_unit(c, i, taken);
	}
	free(taken);
}
