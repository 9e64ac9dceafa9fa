/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drafts, draft diff, draft apply, draft discard: what slots changed and did not reach the project.
 * draft run and draft shell are in cmd_run.c.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/copies.h"
#include "cli/draft_cmd.h"
#include "cli/draft_find.h"
#include "cli/draft_open.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/own_options.h"
#include "cli/show.h"
#include "show/diff.h"

/* ---- what the commands have in common ---- */

struct draft_job {
	struct job job;
	struct draft_found found;
	char **paths; /* as the library wants them */
	size_t n_paths;
};

int
draft_refuse_plan(const struct cli *cli, const char *what)
{
	struct koda_error err = { .code = KODA_POLICY_DENIED };

	if (cli->args.mode != KODA_PLAN)
		return EXIT_DONE;
	snprintf(err.message, sizeof(err.message), "cannot %s in plan mode, which changes nothing",
	    what);
	return output_error(cli, &err, "use another mode, for example --mode safe");
}

int
draft_paths(struct job *job, char **words, char ***ret, size_t *ret_n)
{
	size_t n = 0;

	while (words[n] != NULL)
		n++;
	*ret = output_alloc((n + 1) * sizeof(**ret));
	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		const int status = job_place(job, words[i], &(*ret)[i]);

		if (status != EXIT_DONE)
			return status;
		*ret_n = i + 1;
	}
	return EXIT_DONE;
}

void
draft_paths_done(char **paths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	free(paths);
}

/*
 * Finds the draft that the first word names, opens a session of its root; the other words are paths. If
 * it is a copy, that is decided on first: then there may be no draft, and its id is "".
 */
static int
begin(struct draft_job *d, const struct cli *cli, enum copies_do what)
{
	int status;

	*d = (struct draft_job){ 0 };
	status = job_find(&d->job, cli);
	if (status == EXIT_DONE)
		status = draft_or_copy_find(cli, cli->words[0], &d->found);
	if (status != EXIT_DONE)
		return status;
	free(d->job.root);
	d->job.root = d->found.root;
	d->found.root = NULL;
	status = draft_paths(&d->job, cli->words + 1, &d->paths, &d->n_paths);
	if (status != EXIT_DONE || d->found.copy == KODA_WORKSPACE_DRAFT)
		return status == EXIT_DONE ? job_open(&d->job) : status;
	if (what == COPIES_DISCARD && d->n_paths > 0)
		return output_usage(cli, "a copy is discarded as a whole");
	d->job.commands = true;
	status = job_open(&d->job);
	return status == EXIT_DONE ? copies_decide(&d->job, what, &d->found) : status;
}

/* The copy is gone, and so there is no draft. */
static int
nothing_left(const struct cli *cli, const char *text)
{
	if (args_has(&cli->args, OPT_JSON))
		return output_json(output_object());
	if (output_wants_summary(cli))
		puts(text);
	return output_done(EXIT_DONE);
}

static void
end(struct draft_job *d)
{
	draft_paths_done(d->paths, d->n_paths);
	free(d->found.root);
	job_end(&d->job);
}

/* ---- drafts ---- */

struct draft_list {
	json_t *objects; /* NULL: print instead */
	size_t n;
};

static int
on_drafted(void *data, const struct koda_drafted *one)
{
	struct draft_list *list = data;
	char age[AGE_SIZE], when[AGE_SIZE];
	json_t *object;

	list->n++;
	if (list->objects == NULL) {
		show_string(stdout, one->id);
		printf("  %s  %-11s  ", draft_time(one->begun, when), draft_age(one->begun, age));
		show_string(stdout, one->root);
		puts(one->in_use ? "  (in use)" : "");
		return 0;
	}
	object = json_object();
	json_object_set_new(object, "id", show_json_lossy(one->id, strlen(one->id)));
	show_json_path(object, "root", one->root);
	json_object_set_new(object, "begun", json_real(one->begun));
	json_object_set_new(object, "in_use", json_boolean(one->in_use));
	json_array_append_new(list->objects, object);
	return 0;
}

int
cmd_drafts(const struct cli *cli)
{
	const bool json = args_has(&cli->args, OPT_JSON);
	const bool all = args_own(&cli->args, DRAFT_OPT_ALL, NULL);
	struct draft_list list = { .objects = json ? json_array() : NULL };
	json_t *copies = json ? json_array() : NULL, *object;
	struct koda_error err = { 0 };
	char *root = NULL;
	int status = all ? EXIT_DONE : job_find_root(cli, &root), n = 0;

	if (status == EXIT_DONE &&
	    (koda_drafts_visit(root, on_drafted, &list, &err) < 0 ||
		(n = copies_list(root, copies, &err)) < 0))
		status = output_error(cli, &err, NULL);
	free(root);
	if (status != EXIT_DONE || !json) {
		json_decref(list.objects);
		json_decref(copies);
		if (status == EXIT_DONE && list.n == 0 && n == 0)
			output_note(NULL,
			    all ? "there are no drafts"
				: "there are no drafts of this root; --all lists those of others");
		return output_done(status);
	}
	object = output_object();
	json_object_set_new(object, "drafts", list.objects);
	json_object_set_new(object, "copies", copies);
	return output_json(object);
}

/* ---- draft diff ---- */

/* As the library selects: '*' matches slashes too, and a glob without one is for the last part. */
static bool
matches_glob(const char *glob, const char *path, const char *below)
{
	const char *name = strrchr(path, '/');

	if (strchr(glob, '/') == NULL)
		return fnmatch(glob, name != NULL ? name + 1 : path, 0) == 0;
	return fnmatch(glob, glob[0] == '/' || below == NULL ? path : below, 0) == 0;
}

/* Writes the path without "." and ".." and doubled slashes to ret, which has room for it and '/'. */
static void
tidy_path(const char *path, char *ret)
{
	size_t len = 0;

	while (*path != '\0') {
		const size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			while (len > 0 && ret[len - 1] != '/')
				len--;
			len -= len > 0;
		} else if (n > 0 && !(n == 1 && path[0] == '.')) {
			ret[len++] = '/';
			memcpy(ret + len, path, n);
			len += n;
		}
		path += n;
		path += *path == '/';
	}
	ret[len] = '\0';
}

/* Makes every path that is not a glob absolute. */
static void
tidy_paths(struct draft_job *d)
{
	for (size_t i = 0; i < d->n_paths; i++) {
		const char *path = d->paths[i];
		const size_t size = strlen(d->job.root) + strlen(path) + 3;
		char *whole = output_alloc(size), *tidy = output_alloc(size);

		if (strpbrk(path, "*?[") == NULL) {
			snprintf(whole, size, "%s%s%s", path[0] == '/' ? "" : d->job.root,
			    path[0] == '/' ? "" : "/", path);
			tidy_path(whole, tidy);
			free(d->paths[i]);
			d->paths[i] = output_copy(tidy);
		}
		free(whole);
		free(tidy);
	}
}

static bool
is_wanted(void *data, const struct koda_change *change)
{
	const struct draft_job *d = data;
	const char *below = job_below(change->path, d->job.root);

	for (size_t i = 0; i < d->n_paths; i++) {
		const char *path = d->paths[i];

		if (strpbrk(path, "*?[") != NULL
			? matches_glob(path, change->path, below)
			: changes_is_below(change->path, path, strlen(path)))
			return true;
	}
	return d->n_paths == 0;
}

static json_t *
side_object(enum koda_file_type type, uint64_t size, uint32_t mode, const char *target)
{
	json_t *object;

	if (type == KODA_FILE_NONE)
		return json_null();
	object = json_object();
	json_object_set_new(object, "type", json_string(show_type(type)));
	json_object_set_new(object, "size", json_integer((json_int_t)size));
	json_object_set_new(object, "mode", json_integer(mode));
	if (target != NULL)
		show_json_path(object, "target", target);
	return object;
}

/* Adds the text of the diff, or the digests of files that are not text. */
static void
set_diff(json_t *object, const struct changes_view *view, const struct change_row *row, bool stat)
{
	struct changes_sides sides;
	uint64_t added, removed;
	char *text = NULL;
	size_t len = 0;
	FILE *f;

	changes_sides_read(&sides, view, row);
	if (sides.readable && !sides.binary) {
		diff_count(sides.was.data, sides.was.len, sides.is.data, sides.is.len, &added,
		    &removed);
		json_object_set_new(object, "added", json_integer((json_int_t)added));
		json_object_set_new(object, "removed", json_integer((json_int_t)removed));
	} else {
		json_object_set_new(object, "binary", json_boolean(sides.binary));
		if (sides.was.digest[0] != '\0')
			json_object_set_new(object, "digest_before", json_string(sides.was.digest));
		if (sides.is.digest[0] != '\0')
			json_object_set_new(object, "digest", json_string(sides.is.digest));
	}
	if (!stat && sides.readable && !sides.binary) {
		struct page page = { .medium.style = PAGE_MESSAGE };

		page.f = f = open_memstream(&text, &len);
		if (f == NULL)
			output_no_memory();
		diff_unified(&page, sides.was.data, sides.was.len, sides.is.data, sides.is.len);
		if (fclose(f) != 0 || page.failed)
			output_no_memory();
		json_object_set_new(object, "diff", show_json_lossy(text, len));
		json_object_set_new(object, "diff_cut", json_boolean(page.cut));
		free(text);
	}
	changes_sides_done(&sides);
}

static void
put_json_row(const struct changes_view *view, const struct change_row *row, bool stat)
{
	json_t *object = json_object();

	json_object_set_new(object, "type", json_string("change"));
	show_json_path(object, "path", row->path);
	json_object_set_new(object, "kind", json_string(koda_change_kind_name(row->kind)));
	json_object_set_new(object, "before",
	    side_object(row->type_before, row->size_before, row->mode_before, row->target_before));
	json_object_set_new(object, "after",
	    side_object(row->type, row->size, row->mode, row->target));
	if (row->entries > 0)
		json_object_set_new(object, "entries", json_integer((json_int_t)row->entries));
	if (row->other != 0)
		show_json_path(object,
		    row->kind == KODA_CHANGE_DELETED ? "renamed_to" : "renamed_from",
		    view->changes->row[row->other - 1].path);
	else if (row->from != NULL)
		show_json_path(object, "renamed_from", row->from);
	if (row->rule != NULL) {
		json_object_set_new(object, "rule", show_json_lossy(row->rule, strlen(row->rule)));
		json_object_set_new(object, "reason",
		    show_json_lossy(row->reason != NULL ? row->reason : "",
			row->reason != NULL ? strlen(row->reason) : 0));
	}
	json_object_set_new(object, "conflict", json_boolean(row->conflict));
	if (row->note != NULL)
		json_object_set_new(object, "note", show_json_lossy(row->note, strlen(row->note)));
	if (row->conflict)
		json_object_set_new(object, "merge",
		    json_string(koda_merge_outcome_name(row->merge)));
	if (row->merge_reason != NULL)
		json_object_set_new(object, "merge_reason",
		    show_json_lossy(row->merge_reason, strlen(row->merge_reason)));
	if ((row->type == KODA_FILE_REGULAR || row->type_before == KODA_FILE_REGULAR) &&
	    row->kind != KODA_CHANGE_MODE && row->other == 0 && row->from == NULL &&
	    changes_git_dir(row->path) == 0)
		set_diff(object, view, row, stat);
	outcomes_put_json(object);
}

static int
put_json(const struct draft_open *draft, const char *id, bool stat)
{
	json_t *object;

	for (size_t i = 0; i < draft->changes.n; i++)
		put_json_row(&draft->view, &draft->changes.row[i], stat);
	object = json_object();
	json_object_set_new(object, "type", json_string("summary"));
	json_object_set_new(object, "ok", json_true());
	json_object_set_new(object, "draft", json_string(id));
	changes_set_json(object, &draft->changes);
	outcomes_put_json(object);
	return output_done(EXIT_DONE);
}

/* More than a person reads. */
#define NOTES_MAX 50

/* Not between the diffs, which may be read as a patch. */
static void
warn_of_notes(const struct draft_open *draft)
{
	const bool colours = output_colour(STDERR_FILENO);
	struct page page = { .f = stderr,
		.medium = { .style = colours ? PAGE_COLOUR : PAGE_TERMINAL, .whole = true } };

	fflush(stdout);
	changes_show_notes(&page, &draft->view, NOTES_MAX);
}

static int
put_diff(const struct draft_open *draft, bool stat, bool colours)
{
	const bool terminal = isatty(STDOUT_FILENO);
	struct page page = { .f = stdout,
		.medium = { .style = colours ? PAGE_COLOUR
			: terminal           ? PAGE_TERMINAL
					     : PAGE_MESSAGE,
		    .whole = true } };

	if (stat)
		changes_show_stat(&page, &draft->view);
	else
		changes_show_diffs(&page, &draft->view, 0, SIZE_MAX, SIZE_MAX,
		    page.medium.style == PAGE_MESSAGE);
	warn_of_notes(draft);
	if (draft->changes.cut)
		output_note("warning",
		    "there are more names, or deeper ones, than a draft may have: these are not listed and cannot be applied");
	if (draft->changes.not_kept > 0)
		output_note("warning", "there are more changes than fit here");
	return output_done(EXIT_DONE);
}

static int
nothing_matches(const struct cli *cli, const struct draft_job *d)
{
	struct koda_error err = { .code = KODA_INVALID };

	snprintf(err.message, sizeof(err.message), "no change of draft %s matches '%.300s'%s",
	    d->found.id, cli->words[1], d->n_paths > 1 ? " or the other paths" : "");
	return output_error(cli, &err, "'koda-sandbox draft diff ID --stat' lists them all");
}

/* Reads --color. */
static int
wants_colours(const struct cli *cli, bool *ret)
{
	const char *when = "auto";

	args_own(&cli->args, DRAFT_OPT_COLOR, &when);
	*ret = strcmp(when, "always") == 0;
	if (*ret || strcmp(when, "never") == 0)
		return EXIT_DONE;
	if (strcmp(when, "auto") != 0)
		return output_usage(cli, "--color is auto, always or never, not '%s'", when);
	*ret = output_colour(STDOUT_FILENO);
	return EXIT_DONE;
}

int
cmd_draft_diff(const struct cli *cli)
{
	const bool stat = args_own(&cli->args, DRAFT_OPT_STAT, NULL);
	struct draft_open draft = { 0 };
	struct koda_error err = { 0 };
	struct draft_job d;
	bool colours = false;
	int status = wants_colours(cli, &colours);

	if (status != EXIT_DONE)
		return status;
	if (cli->words[0] == NULL)
		return output_usage(cli, "draft diff needs ID [PATH]...");
	status = begin(&d, cli, COPIES_LOOK);
	if (status == EXIT_DONE && d.found.id[0] == '\0') {
		end(&d);
		return nothing_left(cli, "the clone had no changes, and is gone");
	}
	if (status == EXIT_DONE)
		tidy_paths(&d);
	if (status == EXIT_DONE &&
	    draft_open(&draft, d.job.session, d.found.id, d.job.root, d.job.cwd, is_wanted, &d,
		&err) < 0)
		status = output_error(cli, &err, NULL);
	if (status == EXIT_DONE && draft.changes.n == 0 && d.n_paths > 0)
		status = nothing_matches(cli, &d);
	else if (status == EXIT_DONE && args_has(&cli->args, OPT_JSON))
		status = put_json(&draft, d.found.id, stat);
	else if (status == EXIT_DONE && draft.changes.n == 0)
		output_note(NULL, "the draft has no changes");
	else if (status == EXIT_DONE)
		status = put_diff(&draft, stat, colours);
	draft_close(&draft);
	end(&d);
	return status;
}

/* ---- draft apply ---- */

static int
wanted_take(const struct cli *cli, enum koda_take *ret)
{
	const char *which = NULL;

	*ret = KODA_TAKE_NONE;
	if (!args_own(&cli->args, DRAFT_OPT_TAKE, &which))
		return EXIT_DONE;
	if (strcmp(which, "draft") == 0)
		*ret = KODA_TAKE_DRAFT;
	else if (strcmp(which, "project") == 0)
		*ret = KODA_TAKE_PROJECT;
	else if (strcmp(which, "merge") == 0)
		*ret = KODA_TAKE_MERGE;
	else
		return output_usage(cli, "--take is draft, project or merge, not '%s'", which);
	return EXIT_DONE;
}

static void
tell_applied(const struct outcomes *o, const char *draft, const char *undo)
{
	const unsigned long long done = o->n[KODA_APPLIED], left = outcomes_left(o);

	if (output_wants_summary(o->cli) || o->dry_run)
		printf("%s %llu change%s of draft %s\n", o->dry_run ? o->would : o->applied, done,
		    done == 1 ? "" : "s", draft);
	if (output_wants_summary(o->cli) && undo[0] != '\0')
		printf("'koda-sandbox undo %s' takes %s back\n", undo, done == 1 ? "it" : "them");
	if (o->dry_run || left == 0)
		return;
	fflush(stdout);
	if (o->n[KODA_APPLY_REFUSED] > 0)
		fprintf(stderr,
		    "  what the policy refuses stays in the draft: make that change yourself, or 'koda-sandbox draft discard %s'\n",
		    draft);
	if (o->n[KODA_APPLY_CONFLICT] > 0)
		fprintf(stderr,
		    "  try: 'koda-sandbox draft diff %s', then --take merge, draft or project\n",
		    draft);
}

/* Nothing is at a path that was given. */
static const char *
remedy_for_paths(const struct koda_error *err, size_t n_paths)
{
	return err->code == KODA_INVALID && n_paths > 0
	    ? "'koda-sandbox draft diff ID --stat' lists all changes"
	    : NULL;
}

int
draft_apply(struct koda_draft *draft, const struct koda_apply_options *options, struct outcomes *o,
    const char *id)
{
	char undo[KODA_HISTORY_ID_SIZE] = "";
	struct koda_error err = { 0 };
	json_t *object;
	int status;

	if (koda_draft_apply(draft, options, outcomes_take, o, undo, &err) < 0) {
		fflush(stdout);
		return output_error(o->cli, &err,
		    o->n[KODA_APPLIED] > 0 ? "the rest stays in the draft: apply it again"
					   : remedy_for_paths(&err, options->n_paths));
	}
	status = outcomes_status(o);
	if (args_has(&o->cli->args, OPT_JSON)) {
		object = outcomes_json(o);
		json_object_set_new(object, "draft", json_string(id));
		json_object_set_new(object, "undo",
		    undo[0] != '\0' ? json_string(undo) : json_null());
		outcomes_put_json(object);
	} else {
		tell_applied(o, id, undo);
	}
	return output_done(status);
}

int
cmd_draft_apply(const struct cli *cli)
{
	struct koda_apply_options options = { .dry_run = args_has(&cli->args, OPT_DRY_RUN) };
	struct changes_view view = { 0 };
	struct koda_error err = { 0 };
	struct koda_draft *draft = NULL;
	struct outcomes o = { .cli = cli,
		.view = &view,
		.applied = "applied",
		.would = "would apply",
		.not_applied = "not applied",
		.dry_run = options.dry_run,
		.list = args_has(&cli->args, OPT_VERBOSE),
		.signals = -1 };
	struct draft_job d;
	int status = wanted_take(cli, &options.take);

	if (status == EXIT_DONE && cli->words[0] == NULL)
		return output_usage(cli, "draft apply needs ID [PATH]...");
	if (status == EXIT_DONE && !options.dry_run)
		status = draft_refuse_plan(cli, "apply a draft");
	if (status != EXIT_DONE)
		return status;
	status = begin(&d, cli, COPIES_APPLY);
	if (status == EXIT_DONE && d.found.id[0] == '\0') {
		end(&d);
		return nothing_left(cli, "the clone had no changes, and is gone");
	}
	view.root = d.job.root;
	view.cwd = d.job.cwd;
	options.paths = (const char *const *)d.paths;
	options.n_paths = d.n_paths;
	if (status == EXIT_DONE) {
		draft = koda_draft_open(d.job.session, d.found.id, &err);
		status = draft != NULL ? draft_apply(draft, &options, &o, d.found.id)
				       : output_error(cli, &err, NULL);
	}
	koda_draft_close(draft);
	end(&d);
	return status;
}

/* ---- draft discard ---- */

int
cmd_draft_discard(const struct cli *cli)
{
	struct koda_error err = { 0 };
	struct koda_draft *draft = NULL;
	struct draft_job d;
	int status;

	if (cli->words[0] == NULL)
		return output_usage(cli, "draft discard needs ID [PATH]...");
	status = draft_refuse_plan(cli, "discard a draft");
	if (status != EXIT_DONE)
		return status;
	status = begin(&d, cli, COPIES_DISCARD);
	if (status == EXIT_DONE && d.found.id[0] == '\0') {
		end(&d);
		return nothing_left(cli, "discarded the copy");
	}
	if (status == EXIT_DONE) {
		draft = koda_draft_open(d.job.session, d.found.id, &err);
		if (draft == NULL)
			status = output_error(cli, &err, NULL);
		else if (koda_draft_discard(draft, (const char *const *)d.paths, d.n_paths, &err) <
		    0)
			status = output_error(cli, &err, remedy_for_paths(&err, d.n_paths));
	}
	koda_draft_close(draft);
	if (status == EXIT_DONE && args_has(&cli->args, OPT_JSON))
		status = output_json(output_object());
	else if (status == EXIT_DONE && output_wants_summary(cli))
		printf("discarded %sdraft %s\n", d.n_paths > 0 ? "these changes of " : "",
		    d.found.id);
	end(&d);
	return output_done(status);
}
