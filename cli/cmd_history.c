/* SPDX-License-Identifier: Apache-2.0 */
/* history, undo, redo: what was changed through koda-sandbox, and how it is taken back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/draft_cmd.h"
#include "cli/draft_find.h"
#include "cli/output.h"
#include "cli/own_options.h"
#include "cli/show.h"
#include "cli/since.h"

/* ---- history ---- */

struct history_list {
	json_t *objects; /* NULL: print instead */
	size_t n;
	bool all;
};

static json_t *
entry_object(const struct koda_history_entry *one)
{
	json_t *object = json_object();

	json_object_set_new(object, "id", show_json_lossy(one->id, strlen(one->id)));
	show_json_path(object, "root", one->root);
	json_object_set_new(object, "kind",
	    json_string(one->kind == KODA_HISTORY_DRAFT ? "draft" : "files"));
	json_object_set_new(object, "draft", show_json_lossy(one->draft, strlen(one->draft)));
	json_object_set_new(object, "begun", json_real(one->begun));
	json_object_set_new(object, "changed", json_real(one->changed));
	json_object_set_new(object, "changes", json_integer((json_int_t)one->changes));
	json_object_set_new(object, "undone", json_integer((json_int_t)one->undone));
	json_object_set_new(object, "bytes", json_integer((json_int_t)one->bytes));
	json_object_set_new(object, "unfinished", json_boolean(one->unfinished));
	json_object_set_new(object, "in_use", json_boolean(one->in_use));
	return object;
}

static int
on_entry(void *data, const struct koda_history_entry *one)
{
	struct history_list *list = data;
	char when[AGE_SIZE], age[AGE_SIZE];

	list->n++;
	if (list->objects != NULL) {
		json_array_append_new(list->objects, entry_object(one));
		return 0;
	}
	show_string(stdout, one->id);
	printf("  %s  %-11s  %" PRIu64 " change%s", draft_time(one->begun, when),
	    draft_age(one->begun, age), one->changes, one->changes == 1 ? "" : "s");
	if (one->kind == KODA_HISTORY_DRAFT) {
		fputs(" of draft ", stdout);
		show_string(stdout, one->draft);
	}
	if (one->undone > 0 && one->undone >= one->changes)
		fputs(", taken back", stdout);
	else if (one->undone > 0)
		printf(", %" PRIu64 " taken back", one->undone);
	if (one->unfinished)
		fputs(", unfinished", stdout);
	if (one->in_use)
		fputs(", in use", stdout);
	if (list->all) {
		fputs("  ", stdout);
		show_string(stdout, one->root);
	}
	putchar('\n');
	return 0;
}

static void
read_nothing(void *data, const char *path, bool before, size_t max, struct changes_content *ret)
{
	*ret = (struct changes_content){ 0 };
}

static int
on_change(void *data, const struct koda_change *change)
{
	changes_add(data, change);
	return 0;
}

static int
on_json_change(void *data, const struct koda_change *change)
{
	json_t *object = json_object();

	show_json_path(object, "path", change->path);
	json_object_set_new(object, "kind", json_string(koda_change_kind_name(change->kind)));
	if (change->to != NULL)
		show_json_path(object, "to", change->to);
	json_object_set_new(object, "conflict", json_boolean(change->conflict));
	return json_array_append_new(data, object);
}

/* Shows the changes of one entry. */
static int
show_entry(const struct cli *cli)
{
	const struct changes_reader reader = { read_nothing, NULL };
	struct changes changes = { 0 };
	struct changes_view view = { .changes = &changes, .reader = &reader };
	const bool json = args_has(&cli->args, OPT_JSON);
	json_t *objects = json ? json_array() : NULL, *object;
	struct page page = { .f = stdout,
		.medium.style = output_colour(STDOUT_FILENO) ? PAGE_COLOUR : PAGE_TERMINAL };
	struct draft_found found;
	struct koda_error err = { 0 };
	int status = history_find(cli, cli->words[0], &found);

	if (status == EXIT_DONE &&
	    koda_history_changes(found.root, found.id, json ? on_json_change : on_change,
		json ? (void *)objects : (void *)&changes, &err) < 0)
		status = output_error(cli, &err, NULL);
	if (status == EXIT_DONE && json) {
		object = output_object();
		json_object_set_new(object, "id", json_string(found.id));
		json_object_set(object, "changes", objects);
		status = output_json(object);
	} else if (status == EXIT_DONE) {
		view.root = found.root;
		view.cwd = found.root;
		changes_finish(&changes);
		for (size_t i = 0; i < changes.n_units; i++)
			changes_show_unit(&page, &view, &changes.unit[i]);
	}
	json_decref(objects);
	changes_done(&changes);
	free(found.root);
	return output_done(status);
}

int
cmd_history(const struct cli *cli)
{
	const bool json = args_has(&cli->args, OPT_JSON);
	struct history_list list = { .objects = NULL,
		.all = args_own(&cli->args, HISTORY_OPT_ALL, NULL) };
	struct koda_error err = { 0 };
	char *root = NULL;
	json_t *object;
	int status;

	if (cli->words[0] != NULL && list.all)
		return output_usage(cli, "give either an ID or --all");
	if (cli->words[0] != NULL)
		return show_entry(cli);
	list.objects = json ? json_array() : NULL;
	status = list.all ? EXIT_DONE : job_find_root(cli, &root);
	if (status == EXIT_DONE && koda_history_visit(root, on_entry, &list, &err) < 0)
		status = output_error(cli, &err, NULL);
	free(root);
	if (status != EXIT_DONE || !json) {
		json_decref(list.objects);
		if (status == EXIT_DONE && list.n == 0)
			output_note(NULL,
			    list.all
				? "the history is empty"
				: "the history of this root is empty; --all lists that of others");
		return output_done(status);
	}
	object = output_object();
	json_object_set_new(object, "history", list.objects);
	return output_json(object);
}

/* ---- undo, redo ---- */

struct undo {
	const struct cli *cli;
	bool redo;
	bool last;
	double since;
	char (*ids)[FOUND_ID_MAX]; /* oldest first */
	size_t n;
	double latest;
	struct job job;
	char **paths;
	size_t n_paths;
	struct outcomes outcomes;
	struct changes_view view;
};

static void
choose_id(struct undo *u, const char *id)
{
	char(*more)[FOUND_ID_MAX] = reallocarray(u->ids, u->n + 1, sizeof(*more));

	if (more == NULL)
		output_no_memory();
	u->ids = more;
	snprintf(u->ids[u->n++], FOUND_ID_MAX, "%s", id);
}

/* Is there something left to do? */
static bool
fits(const struct undo *u, const struct koda_history_entry *one)
{
	return one->unfinished || (u->redo ? one->undone > 0 : one->undone < one->changes);
}

static int
on_choice(void *data, const struct koda_history_entry *one)
{
	/* What was taken back last is done again first. */
	struct undo *u = data;
	const double when = u->redo ? one->changed : one->begun;

	if (!fits(u, one))
		return 0;
	if (!u->last) {
		if ((one->kind == KODA_HISTORY_FILES ? one->changed : one->begun) >= u->since)
			choose_id(u, one->id);
	} else if (u->n == 0 || when >= u->latest) {
		u->n = 0;
		u->latest = when;
		choose_id(u, one->id);
	}
	return 0;
}

static int
nothing_to_do(const struct undo *u)
{
	struct koda_error err = { .code = KODA_INVALID };

	snprintf(err.message, sizeof(err.message), "the history of '%.400s' has nothing to %s%s",
	    u->job.root, u->redo ? "do again" : "take back", u->last ? "" : " since then");
	return output_error(u->cli, &err, "'koda-sandbox history --all' lists what there is");
}

/* Finds the entries that are meant, and the root that they are of. */
static int
choose(struct undo *u, bool by_option)
{
	struct koda_error err = { 0 };
	struct draft_found found;
	int status;

	if (!by_option) {
		status = history_find(u->cli, u->cli->words[0], &found);
		if (status != EXIT_DONE)
			return status;
		free(u->job.root);
		u->job.root = found.root;
		choose_id(u, found.id);
		return EXIT_DONE;
	}
	if (koda_history_visit(u->job.root, on_choice, u, &err) < 0)
		return output_error(u->cli, &err, NULL);
	return u->n > 0 ? EXIT_DONE : nothing_to_do(u);
}

static void
tell_done(const struct undo *u)
{
	const struct outcomes *o = &u->outcomes;
	const unsigned long long done = o->n[KODA_APPLIED];

	if (!output_wants_summary(u->cli) && !o->dry_run)
		return;
	printf("%s %llu change%s\n", o->dry_run ? o->would : o->applied, done,
	    done == 1 ? "" : "s");
	if (u->n == 1 && done > 0 && !o->dry_run)
		printf("'koda-sandbox %s %s' %s\n", u->redo ? "undo" : "redo", u->ids[0],
		    u->redo && done == 1 ? "takes it back"
			: u->redo        ? "takes them back"
			: done == 1      ? "does it again"
					 : "does them again");
}

static int
do_all(struct undo *u)
{
	struct koda_undo_options options = { .paths = (const char *const *)u->paths,
		.n_paths = u->n_paths,
		.redo = u->redo,
		.take = args_own(&u->cli->args, HISTORY_OPT_OVERWRITE, NULL) ? KODA_TAKE_DRAFT
									     : KODA_TAKE_NONE,
		.dry_run = u->outcomes.dry_run,
		.since = u->since };
	struct koda_error err = { 0 }, missed = { 0 };
	int status;

	/* The newest entry first: an older one may have made what a newer one changed. */
	for (size_t i = u->n; i-- > 0 && !u->outcomes.stopped;) {
		if (koda_history_undo(u->job.session, u->ids[i], &options, outcomes_take,
			&u->outcomes, &err) == 0)
			continue;
		/* Another entry may have what is at these paths. */
		if (err.code == KODA_INVALID && u->n > 1 && u->n_paths > 0) {
			missed = err;
			continue;
		}
		fflush(stdout);
		return output_error(u->cli, &err, NULL);
	}
	if (missed.code != KODA_OK && u->outcomes.n[KODA_APPLIED] == 0 &&
	    outcomes_left(&u->outcomes) == 0)
		return output_error(u->cli, &missed, NULL);
	status = outcomes_status(&u->outcomes);
	if (args_has(&u->cli->args, OPT_JSON)) {
		json_t *object = outcomes_json(&u->outcomes), *ids = json_array();

		for (size_t i = 0; i < u->n; i++)
			json_array_append_new(ids, json_string(u->ids[i]));
		json_object_set_new(object, "ids", ids);
		outcomes_put_json(object);
	} else {
		tell_done(u);
		if (u->outcomes.n[KODA_APPLY_CONFLICT] > 0 && !u->outcomes.dry_run) {
			fflush(stdout);
			fputs("  try: --overwrite also replaces what changed since\n", stderr);
		}
	}
	return output_done(status);
}

static int
check_choice(const struct cli *cli, struct undo *u, bool *ret_by_option)
{
	const char *since = NULL;
	char why[ARGS_WHY_MAX];
	const bool by_time = args_own(&cli->args, HISTORY_OPT_SINCE, &since);

	u->last = args_own(&cli->args, HISTORY_OPT_LAST, NULL);
	*ret_by_option = u->last || by_time;
	if (u->last && by_time)
		return output_usage(cli, "--last cannot be combined with --since");
	if (by_time && since_parse(since, time(NULL), &u->since, why) < 0)
		return output_usage(cli, "%s", why);
	if (!*ret_by_option && cli->words[0] == NULL)
		return output_usage(cli, "%s needs an ID%s", cli->command->name,
		    u->redo ? " or --last" : ", --last or --since TIME");
	return u->outcomes.dry_run
	    ? EXIT_DONE
	    : draft_refuse_plan(cli, u->redo ? "do anything again" : "take anything back");
}

static int
undo(const struct cli *cli, bool redo)
{
	struct undo u = { .cli = cli,
		.redo = redo,
		.outcomes = { .cli = cli,
		    .applied = redo ? "did again" : "took back",
		    .would = redo ? "would do again" : "would take back",
		    .not_applied = redo ? "not done again" : "not taken back",
		    .dry_run = args_has(&cli->args, OPT_DRY_RUN),
		    .list = args_has(&cli->args, OPT_VERBOSE),
		    .signals = -1 } };
	bool by_option;
	int status = check_choice(cli, &u, &by_option);

	if (status != EXIT_DONE)
		return status;
	status = job_find(&u.job, cli);
	if (status == EXIT_DONE)
		status = choose(&u, by_option);
	if (status == EXIT_DONE)
		status = draft_paths(&u.job, cli->words + !by_option, &u.paths, &u.n_paths);
	if (status == EXIT_DONE)
		status = job_open(&u.job);
	u.view = (struct changes_view){ .root = u.job.root, .cwd = u.job.cwd };
	u.outcomes.view = &u.view;
	if (status == EXIT_DONE)
		status = do_all(&u);
	draft_paths_done(u.paths, u.n_paths);
	free(u.ids);
	job_end(&u.job);
	return status;
}

int
cmd_undo(const struct cli *cli)
{
	return undo(cli, false);
}

int
cmd_redo(const struct cli *cli)
{
	return undo(cli, true);
}
