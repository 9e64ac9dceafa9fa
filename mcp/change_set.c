/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/change_set.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/content.h"
#include "mcp/memory.h"
#include "show/asked.h"
#include "show/diff.h"

/* A larger file is shown by its size. */
#define FILE_BYTES_MAX (1u << 20)
/* Of merged texts that are kept to be shown. */
#define MERGE_BYTES_MAX (16u << 20)

void
change_set_done(struct change_set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		free(set->one[i].path);
		free(set->one[i].rule);
		free(set->one[i].reason);
		free(set->one[i].target);
		free(set->one[i].merge);
	}
	for (size_t i = 0; i < set->n_notes; i++) {
		free(set->note[i].path);
		free(set->note[i].text);
	}
	*set = (struct change_set){ 0 };
}

/* ---- taking ---- */

static char *
copy(const char *text)
{
	return text != NULL ? memory_string(text) : NULL;
}

/* Counts a change. Returns where to keep it, or NULL. */
static struct change_one *
add(struct change_set *set, enum koda_apply_outcome outcome)
{
	set->n_all++;
	set->n_outcome[outcome]++;
	return set->n < CHANGE_SET_MAX ? &set->one[set->n++] : NULL;
}

static void
take_note(struct change_set *set, const char *path, const char *note)
{
	if (note != NULL && set->n_notes < CHANGE_NOTES_MAX)
		set->note[set->n_notes++] =
		    (struct change_note){ memory_string(path), memory_string(note) };
}

static void
take_sides(struct change_one *one, const struct koda_change *c)
{
	if (c->before != NULL) {
		one->type_before = c->before->type;
		one->size_before = c->before->size;
	}
	if (c->after != NULL) {
		one->type = c->after->type;
		one->size = c->after->size;
		one->mode = c->after->mode;
		one->target = copy(c->after->target);
	}
}

static int
on_change(void *data, const struct koda_change *c)
{
	struct change_one *one = add(data,
	    c->rule != NULL   ? KODA_APPLY_REFUSED
		: c->conflict ? KODA_APPLY_CONFLICT
			      : KODA_APPLIED);

	if (c->rule == NULL)
		take_note(data, c->path, c->note);
	if (one == NULL)
		return 0;
	*one = (struct change_one){
		.path = memory_string(c->path),
		.kind = c->kind,
		.outcome = c->rule != NULL ? KODA_APPLY_REFUSED
		    : c->conflict          ? KODA_APPLY_CONFLICT
					   : KODA_APPLIED,
		.rule = copy(c->rule),
		.reason = copy(c->reason),
	};
	take_sides(one, c);
	return 0;
}

int
change_set_list(struct change_set *set, struct koda_draft *draft, const char *root,
    struct koda_error *err)
{
	set->root = root;
	return koda_draft_changes(draft, on_change, set, &set->cut, err);
}

int
change_set_add(void *data, const struct koda_applied *applied)
{
	struct change_set *set = data;
	struct change_one *one;

	if (applied->outcome == KODA_APPLY_UNLISTED) {
		set->cut = true;
		return 0;
	}
	take_note(set, applied->path, applied->note);
	one = add(set, applied->outcome);
	if (one != NULL)
		*one = (struct change_one){
			.path = memory_string(applied->path),
			.kind = applied->kind,
			.outcome = applied->outcome,
			.rule = copy(applied->rule),
			.reason = copy(applied->reason),
			.merged = applied->merged,
		};
	return 0;
}

/* Completes a conflict with what a merge of it gives. */
static int
on_merge(void *data, const struct koda_merge *merge)
{
	struct change_set *set = data;
	struct change_one *one = set->one, *end = set->one + set->n;

	while (one < end &&
	    ((one->outcome != KODA_APPLY_CONFLICT && !one->merged) ||
		strcmp(one->path, merge->path) != 0))
		one++;
	if (one == end)
		return 0;
	one->merge_outcome = merge->outcome;
	if (one->outcome == KODA_APPLY_CONFLICT && merge->outcome != KODA_MERGE_NONE) {
		free(one->reason);
		one->reason = memory_string(merge->outcome == KODA_MERGE_CLEAN
			? "it changed in the project since, and merges cleanly (take: merge)"
			: merge->reason);
	}
	if (!one->merged || merge->text == NULL || set->merge_bytes + merge->len > MERGE_BYTES_MAX)
		return 0;
	one->merge = memory_zero(merge->len + 1);
	memcpy(one->merge, merge->text, merge->len);
	one->merge_len = merge->len;
	set->merge_bytes += merge->len;
	return 0;
}

static bool
has_conflicts(const struct change_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->one[i].outcome == KODA_APPLY_CONFLICT || set->one[i].merged)
			return true;
	return false;
}

/* Completes what a dry run has reported with what there is to say about the files. */
static int
on_known(void *data, const struct koda_change *c)
{
	struct change_set *set = data;

	for (size_t i = 0; i < set->n; i++) {
		struct change_one *one = &set->one[i];

		if (one->kind == c->kind && one->type == KODA_FILE_NONE &&
		    one->type_before == KODA_FILE_NONE && strcmp(one->path, c->path) == 0) {
			take_sides(one, c);
			return 0;
		}
	}
	return 0;
}

int
change_set_plan(struct change_set *set, struct koda_draft *draft, const char *root,
    const struct koda_apply_options *options, struct koda_error *err)
{
	struct koda_apply_options dry = *options;

	set->root = root;
	dry.dry_run = true;
	if (koda_draft_apply(draft, &dry, change_set_add, set, NULL, err) < 0)
		return -1;
	if (koda_draft_changes(draft, on_known, set, &set->cut, err) < 0)
		return -1;
	return has_conflicts(set) ? koda_draft_merges(draft, on_merge, set, err) : 0;
}

/* ---- showing ---- */

void
change_set_counts(const struct change_set *set, struct text *t)
{
	const uint64_t *n = set->n_outcome;

	text_printf(t, "%llu change%s", (unsigned long long)set->n_all, set->n_all == 1 ? "" : "s");
	if (n[KODA_APPLY_REFUSED] > 0)
		text_printf(t, ", %llu refused by the policy",
		    (unsigned long long)n[KODA_APPLY_REFUSED]);
	if (n[KODA_APPLY_CONFLICT] > 0)
		text_printf(t, ", %llu in conflict with the project",
		    (unsigned long long)n[KODA_APPLY_CONFLICT]);
}

/* Returns the path as the client's tools take it: relative to the root if it is below it. */
static const char *
below(const struct change_set *set, const char *path)
{
	const size_t len = set->root != NULL ? strlen(set->root) : 0;

	if (len > 1 && strncmp(path, set->root, len) == 0 && path[len] == '/')
		return path + len + 1;
	return path;
}

static void
show_name(struct text *t, const char *name)
{
	text_printf(t, "'");
	asked_name(name, strlen(name), text_put, t);
	text_printf(t, "'");
}

static void
show_one(const struct change_set *set, const struct change_one *one, struct text *t)
{
	if (one->outcome != KODA_APPLIED)
		text_printf(t, "%s: ", koda_apply_outcome_name(one->outcome));
	text_printf(t, "%s%s ", one->merged ? "merged: " : "", koda_change_kind_name(one->kind));
	show_name(t, below(set, one->path));
	if (one->target != NULL) {
		text_printf(t, " -> ");
		show_name(t, one->target);
	} else if (one->kind == KODA_CHANGE_MODE) {
		text_printf(t, " (mode %04o)", one->mode);
	} else if (one->type == KODA_FILE_REGULAR) {
		text_printf(t, " (%llu bytes%s)", (unsigned long long)one->size,
		    (one->mode & 0111) != 0 ? ", executable" : "");
	} else if (one->type == KODA_FILE_DIRECTORY || one->type_before == KODA_FILE_DIRECTORY) {
		text_printf(t, " (directory)");
	}
	if (one->reason != NULL && one->reason[0] != '\0') {
		text_printf(t, ": ");
		text_show_string(t, one->reason);
	} else if (one->rule != NULL && one->rule[0] != '\0') {
		text_printf(t, " (rule ");
		text_show_string(t, one->rule);
		text_printf(t, ")");
	}
	text_printf(t, "\n");
}

/*
 * Returns the length of the path of the git directory if the change is of what git only adds to: objects,
 * and logs of what its refs were. 0: it is not, or it cannot be applied.
 */
static size_t
objects_of(const struct change_one *one)
{
	static const char *const added[] = { "objects/", "logs/" };
	const char *git = strstr(one->path, "/.git/");

	for (size_t i = 0; git != NULL && i < sizeof(added) / sizeof(added[0]); i++)
		if (one->outcome == KODA_APPLIED &&
		    strncmp(git + strlen("/.git/"), added[i], strlen(added[i])) == 0)
			return (size_t)(git - one->path) + strlen("/.git");
	return 0;
}

/* Shows all of those of one git directory as one line, in the place of the first. */
static void
show_objects(const struct change_set *set, size_t first, size_t len, struct text *t)
{
	const char *path = set->one[first].path;
	char dir[PATH_MAX];
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++) {
		if (objects_of(&set->one[i]) != len || memcmp(set->one[i].path, path, len) != 0)
			continue;
		if (i < first)
			return;
		n++;
	}
	snprintf(dir, sizeof(dir), "%.*s", (int)len, path);
	text_printf(t, "changed ");
	show_name(t, below(set, dir));
	text_printf(t, " (%zu objects and logs of git)\n", n);
}

void
change_set_lines(const struct change_set *set, struct text *t)
{
	for (size_t i = 0; i < set->n; i++) {
		const size_t git = objects_of(&set->one[i]);

		if (git > 0)
			show_objects(set, i, git, t);
		else
			show_one(set, &set->one[i], t);
	}
	if (set->n_all > set->n)
		text_printf(t, "[... %llu more changes ...]\n",
		    (unsigned long long)(set->n_all - set->n));
	for (size_t i = 0; i < set->n_notes; i++) {
		text_printf(t, "[");
		show_name(t, below(set, set->note[i].path));
		text_printf(t, ": ");
		text_show_string(t, set->note[i].text);
		text_printf(t, "]\n");
	}
	if (set->cut)
		text_printf(t,
		    "[There are more names, or deeper ones, than a draft may have: these are not listed, cannot be applied and stay in the draft.]\n");
}

json_t *
change_set_json(const struct change_set *set)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < set->n; i++) {
		const struct change_one *one = &set->one[i];
		json_t *row = json_object();

		json_object_set_new_nocheck(row, "path", text_json_string(below(set, one->path)));
		json_object_set_new_nocheck(row, "kind",
		    json_string_nocheck(koda_change_kind_name(one->kind)));
		json_object_set_new_nocheck(row, "outcome",
		    json_string_nocheck(!set->done && one->outcome == KODA_APPLIED
			    ? "pending"
			    : koda_apply_outcome_name(one->outcome)));
		if (one->type == KODA_FILE_REGULAR)
			json_object_set_new_nocheck(row, "size",
			    json_integer((json_int_t)one->size));
		if (!set->done && one->outcome == KODA_APPLY_CONFLICT)
			json_object_set_new_nocheck(row, "merge",
			    json_string_nocheck(koda_merge_outcome_name(one->merge_outcome)));
		if (one->merged)
			json_object_set_new_nocheck(row, "merged", json_true());
		if (one->rule != NULL)
			json_object_set_new_nocheck(row, "rule", text_json_string(one->rule));
		json_array_append_new(ret, row);
	}
	return ret;
}

json_t *
change_set_notes(const struct change_set *set)
{
	json_t *ret = set->n_notes > 0 ? json_array() : NULL;

	for (size_t i = 0; i < set->n_notes; i++) {
		json_t *row = json_object();

		json_object_set_new_nocheck(row, "path",
		    text_json_string(below(set, set->note[i].path)));
		json_object_set_new_nocheck(row, "text", text_json_string(set->note[i].text));
		json_array_append_new(ret, row);
	}
	return ret;
}

/* ---- diffs ---- */

/* Reads one side of a file. Returns false if it cannot be shown as a text. */
static bool
read_side(struct koda_draft *draft, const struct change_one *one, bool before, struct text *ret)
{
	struct koda_result result;
	struct koda_error err;
	bool whole;

	if ((before ? one->type_before : one->type) != KODA_FILE_REGULAR)
		return (before ? one->type_before : one->type) == KODA_FILE_NONE;
	if ((before ? one->size_before : one->size) > FILE_BYTES_MAX ||
	    koda_draft_read(draft, one->path, before, FILE_BYTES_MAX + 1, &result, &err) < 0)
		return false;
	whole = result.size <= FILE_BYTES_MAX &&
	    content_read(&result, 0, FILE_BYTES_MAX, ret, &err) == 0 &&
	    (ret->len == 0 || memchr(ret->p, '\0', ret->len) == NULL);
	koda_result_done(&result);
	return whole;
}

/* Writes the diff of one file. Returns false if it is not shown in full. */
static bool
show_diff(struct koda_draft *draft, const struct change_one *one, struct text *t)
{
	struct page page = { .medium.style = PAGE_MESSAGE };
	struct text was = { 0 }, is = { 0 };
	char *text = NULL;
	size_t len = 0;
	bool ok = read_side(draft, one, true, &was);

	/* What is shown is what is applied. */
	if (one->merge != NULL)
		text_add(&is, one->merge, one->merge_len);
	else
		ok = ok && !one->merged && read_side(draft, one, false, &is);
	if (!ok) {
		text_printf(t, "(not a text that can be shown)\n");
	} else if (one->type == one->type_before && was.len == is.len &&
	    (was.len == 0 || memcmp(was.p, is.p, is.len) == 0)) {
		text_printf(t, "(the same content: only times or permissions differ)\n");
		text_done(&was);
		text_done(&is);
		return true;
	} else if ((page.f = open_memstream(&text, &len)) != NULL) {
		diff_unified(&page, was.p != NULL ? was.p : "", was.len, is.p != NULL ? is.p : "",
		    is.len);
		ok = fclose(page.f) == 0 && !page.failed && !page.cut;
		text_add(t, text, len);
	}
	free(text);
	text_done(&was);
	text_done(&is);
	return ok && page.f != NULL;
}

static bool
is_content(const struct change_one *one)
{
	return (one->type == KODA_FILE_REGULAR || one->type_before == KODA_FILE_REGULAR) &&
	    one->kind != KODA_CHANGE_MODE;
}

bool
change_set_diffs(const struct change_set *set, struct koda_draft *draft, bool all, struct text *t)
{
	const size_t from = t->len;
	bool whole = set->n_all == set->n && !set->cut;

	for (size_t i = 0; i < set->n; i++) {
		const struct change_one *one = &set->one[i];

		if (!is_content(one) || (!all && one->outcome != KODA_APPLIED))
			continue;
		if (t->len - from > CHANGE_SET_DIFF_BYTES) {
			text_printf(t, "[... more changes are left out here ...]\n");
			return false;
		}
		text_printf(t, "%s ", koda_change_kind_name(one->kind));
		show_name(t, below(set, one->path));
		text_printf(t, "\n");
		whole = show_diff(draft, one, t) && whole;
	}
	return whole;
}
