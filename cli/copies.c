/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/copies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/show.h"
#include "show/asked.h"

#define SIZE_TEXT 32

static const char *
kind_of(enum koda_workspace kind)
{
	return kind == KODA_WORKSPACE_CLONE ? "clone" : "worktree";
}

/* ---- command lines ---- */

/* What a user can do about a copy, as command lines; to be freed. */
struct remedies {
	char *line[4];
	size_t n;
};

struct command_text {
	char *text;
	size_t len;
	FILE *f;
};

static void
begin_line(struct command_text *l)
{
	*l = (struct command_text){ 0 };
	l->f = open_memstream(&l->text, &l->len);
	if (l->f == NULL)
		output_no_memory();
}

static void
end_line(struct command_text *l, struct remedies *r)
{
	if (fclose(l->f) != 0)
		output_no_memory();
	r->line[r->n++] = l->text;
}

static void
add_git(struct remedies *r, const char *dir, const char *what, const char *branch)
{
	struct command_text l;

	begin_line(&l);
	fputs("git -C ", l.f);
	asked_word(dir, show_put, l.f);
	fprintf(l.f, " %s", what);
	if (branch[0] != '\0') {
		fputc(' ', l.f);
		asked_word(branch, show_put, l.f);
	}
	end_line(&l, r);
}

static void
add_draft(struct remedies *r, const char *what, const char *id)
{
	struct command_text l;

	begin_line(&l);
	fprintf(l.f, "koda-sandbox draft %s ", what);
	asked_word(id, show_put, l.f);
	end_line(&l, r);
}

static void
find_remedies(const struct koda_copied *one, struct remedies *ret)
{
	*ret = (struct remedies){ 0 };
	if (one->in_use)
		return;
	if (!one->unfinished && one->kind == KODA_WORKSPACE_CLONE) {
		add_draft(ret, "diff", one->id);
		add_draft(ret, "apply", one->id);
	} else if (!one->unfinished) {
		add_git(ret, one->path, "status --ignored", "");
		add_git(ret, one->root, "diff HEAD", one->branch);
		add_git(ret, one->root, "merge", one->branch);
	}
	add_draft(ret, "discard", one->id);
}

static void
remedies_done(struct remedies *r)
{
	while (r->n > 0)
		free(r->line[--r->n]);
}

/* ---- the list ---- */

struct copies_listing {
	json_t *rows;
	int n;
};

static const char *
state_of(const struct koda_copied *one)
{
	return one->in_use ? "in use" : one->unfinished ? "unfinished" : "kept";
}

static const char *
size_text(const struct koda_copied *one, char buf[SIZE_TEXT])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	struct koda_error err;
	uint64_t bytes;
	double size;
	size_t i = 0;

	if (koda_copied_size(one, &bytes, &err) < 0)
		return "size unknown";
	for (size = (double)bytes; size >= 1024 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		size /= 1024;
	snprintf(buf, SIZE_TEXT, i == 0 ? "%.0f %s" : "%.1f %s", size, units[i]);
	return buf;
}

static void
print_row(const struct koda_copied *one)
{
	char age[AGE_SIZE], when[AGE_SIZE], size[SIZE_TEXT];
	struct remedies r;

	find_remedies(one, &r);
	show_string(stdout, one->id);
	printf("  %s  %-11s  ", draft_time(one->begun, when), draft_age(one->begun, age));
	show_string(stdout, one->root);
	printf("  (%s of ", kind_of(one->kind));
	show_string(stdout, one->agent);
	if (one->branch[0] != '\0') {
		fputs(", branch ", stdout);
		show_string(stdout, one->branch);
	}
	printf(", %s, %s)\n", size_text(one, size), state_of(one));
	for (size_t i = 0; i < r.n; i++)
		printf("    %s\n", r.line[i]);
	remedies_done(&r);
}

static void
add_row(json_t *rows, const struct koda_copied *one)
{
	json_t *row = json_object(), *lines = json_array();
	struct koda_error err;
	struct remedies r;
	uint64_t bytes;

	find_remedies(one, &r);
	json_object_set_new(row, "id", show_json_lossy(one->id, strlen(one->id)));
	show_json_path(row, "root", one->root);
	show_json_path(row, "path", one->path);
	json_object_set_new(row, "workspace", json_string(kind_of(one->kind)));
	json_object_set_new(row, "agent", show_json_lossy(one->agent, strlen(one->agent)));
	json_object_set_new(row, "branch", show_json_lossy(one->branch, strlen(one->branch)));
	json_object_set_new(row, "begun", json_real(one->begun));
	json_object_set_new(row, "in_use", json_boolean(one->in_use));
	json_object_set_new(row, "unfinished", json_boolean(one->unfinished));
	json_object_set_new(row, "bytes",
	    koda_copied_size(one, &bytes, &err) < 0 ? json_null()
						    : json_integer((json_int_t)bytes));
	for (size_t i = 0; i < r.n; i++)
		json_array_append_new(lines, show_json_lossy(r.line[i], strlen(r.line[i])));
	json_object_set_new(row, "commands", lines);
	json_array_append_new(rows, row);
	remedies_done(&r);
}

static int
on_copied(void *data, const struct koda_copied *one)
{
	struct copies_listing *list = data;

	list->n++;
	if (list->rows != NULL)
		add_row(list->rows, one);
	else
		print_row(one);
	return 0;
}

int
copies_list(const char *root, json_t *rows, struct koda_error *err)
{
	struct copies_listing list = { .rows = rows };

	return koda_copies_visit(root, on_copied, &list, err) < 0 ? -1 : list.n;
}

/* ---- deciding ---- */

struct explaining {
	const char *id;
	size_t from, n; /* which of the lines */
	char *text;
};

static int
on_explained(void *data, const struct koda_copied *one)
{
	struct explaining *e = data;
	struct remedies r;
	struct command_text l;

	if (strcmp(one->id, e->id) != 0)
		return 0;
	find_remedies(one, &r);
	begin_line(&l);
	for (size_t i = e->from; i < r.n && i < e->from + e->n; i++)
		fprintf(l.f, "%s%s", i > e->from ? "; " : "", r.line[i]);
	if (fclose(l.f) != 0)
		output_no_memory();
	e->text = l.text;
	remedies_done(&r);
	return 1;
}

static int
refuse_worktree(const struct job *job, enum copies_do what, const struct draft_found *found)
{
	struct koda_error err = { .code = KODA_INVALID }, dropped;
	struct explaining e = { found->id, what == COPIES_LOOK ? 0 : 2, what == COPIES_LOOK ? 2 : 1,
		NULL };
	int status;

	koda_copies_visit(job->root, on_explained, &e, &dropped);
	snprintf(err.message, sizeof(err.message),
	    "'%s' is a worktree with a branch of its own: git %s it", found->id,
	    what == COPIES_LOOK ? "shows" : "merges");
	status = output_error(job->cli, &err, e.text != NULL && e.text[0] != '\0' ? e.text : NULL);
	free(e.text);
	return status;
}

int
copies_decide(const struct job *job, enum copies_do what, struct draft_found *found)
{
	const bool clone = found->copy == KODA_WORKSPACE_CLONE, discard = what == COPIES_DISCARD;
	struct koda_released released = { 0 };
	struct koda_error err = { 0 };
	struct koda_copy *copy;
	char text[128];
	int r;

	if (!clone && !discard)
		return refuse_worktree(job, what, found);
	copy = koda_copy_find(job->session, found->id, &err);
	if (copy == NULL)
		return output_error(job->cli, &err, NULL);
	r = koda_copy_release(copy, discard ? KODA_RELEASE_DISCARD : KODA_RELEASE_CLEAN, &released,
	    &err);
	if (r == 0 && !discard && released.draft[0] != '\0') {
		snprintf(text, sizeof(text), "the changes in clone %s are draft %s now", found->id,
		    released.draft);
		output_note(NULL, text);
	}
	snprintf(found->id, sizeof(found->id), "%s", r == 0 && !discard ? released.draft : "");
	koda_copy_close(copy);
	return r == 0 ? EXIT_DONE : output_error(job->cli, &err, NULL);
}
