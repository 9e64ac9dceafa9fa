/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine: shows, restores and deletes what commands planted and a tool of the host would have
 * run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/job.h"
#include "cli/output.h"
#include "cli/own_options.h"
#include "cli/show.h"

/* The most that is shown: a few screens. A hook has a few lines; the whole content is on disk. */
#define SHQUARANTINE_OPT_MAX (64u << 10)
/* "OF/NAME": both are file names. */
#define NAME_MAX_BYTES 520
#define DAYS_MAX       36500

static bool
of_all(const struct cli *cli)
{
	return args_own(&cli->args, QUARANTINE_OPT_ALL, NULL);
}

/* "OF/NAME", or only the name if its quarantine is known. */
static void
full_name(const struct koda_quarantined *one, bool all, char ret[NAME_MAX_BYTES])
{
	snprintf(ret, NAME_MAX_BYTES, "%s%s%s", all ? one->of : "", all ? "/" : "", one->name);
}

static void
show_time(double seconds)
{
	time_t when = (time_t)seconds;
	char text[32];
	struct tm tm;

	if (localtime_r(&when, &tm) == NULL ||
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(text, sizeof(text), "?");
	fputs(text, stdout);
}

static json_t *
as_json(const struct koda_quarantined *one, bool all)
{
	char name[NAME_MAX_BYTES];
	json_t *object = json_object();

	full_name(one, all, name);
	json_object_set_new(object, "name", show_json_lossy(name, strlen(name)));
	show_json_path(object, "path", one->path);
	json_object_set_new(object, "rule", show_json_lossy(one->rule, strlen(one->rule)));
	json_object_set_new(object, "type", show_json_lossy(one->type, strlen(one->type)));
	json_object_set_new(object, "time", json_real(one->time));
	json_object_set_new(object, "size", json_integer((json_int_t)one->size));
	json_object_set_new(object, "command", show_json_lossy(one->command, strlen(one->command)));
	return object;
}

/* ---- list ---- */

struct quarantine_list {
	json_t *objects; /* NULL: print instead */
	size_t n;
	bool all;
};

static int
on_quarantined(void *data, const struct koda_quarantined *one)
{
	struct quarantine_list *list = data;
	char name[NAME_MAX_BYTES];

	list->n++;
	if (list->objects != NULL) {
		json_array_append_new(list->objects, as_json(one, list->all));
		return 0;
	}
	full_name(one, list->all, name);
	show_string(stdout, name);
	fputs("  ", stdout);
	show_time(one->time);
	fputs("  ", stdout);
	show_string(stdout, one->type);
	fputs("  ", stdout);
	show_string(stdout, one->path);
	fputs("  (", stdout);
	show_string(stdout, one->rule);
	puts(")");
	return 0;
}

int
cmd_quarantine_list(const struct cli *cli)
{
	bool json = args_has(&cli->args, OPT_JSON);
	struct quarantine_list list = { .objects = json ? json_array() : NULL, .all = of_all(cli) };
	struct koda_error err = { 0 };
	char *root = NULL;
	json_t *object;
	int status = list.all ? EXIT_DONE : job_find_root(cli, &root);

	if (status == EXIT_DONE && koda_quarantine_visit(root, on_quarantined, &list, &err) < 0)
		status = output_error(cli, &err, NULL);
	free(root);
	if (status != EXIT_DONE || !json) {
		json_decref(list.objects);
		if (status == EXIT_DONE && list.n == 0)
			output_note(NULL,
			    list.all ? "the quarantine is empty"
				     : "the quarantine of this root is empty");
		return output_done(status);
	}
	object = output_object();
	json_object_set_new(object, "quarantined", list.objects);
	return output_json(object);
}

/* ---- show ---- */

struct shown {
	json_t *object, *parts; /* NULL: print instead */
	bool all;
};

static void
show_row(const char *key, const char *value)
{
	printf("%-8s ", key);
	show_string(stdout, value);
	putchar('\n');
}

static int
on_shown(void *data, const struct koda_quarantined *one)
{
	struct shown *shown = data;
	char name[NAME_MAX_BYTES];

	if (shown->parts != NULL) {
		shown->object = as_json(one, shown->all);
		return 0;
	}
	full_name(one, shown->all, name);
	show_row("name", name);
	show_row("was", one->path);
	show_row("type", one->type);
	printf("%-8s ", "taken");
	show_time(one->time);
	putchar('\n');
	show_row("rule", one->rule);
	show_row("command", one->command[0] != '\0' ? one->command : "(unknown)");
	if (one->size > 0)
		printf("%-8s %llu bytes\n", "size", (unsigned long long)one->size);
	return 0;
}

/* Prints it line by line after a bar: nothing can look like our own text, or act on a terminal. */
static void
show_content(const struct koda_quarantined_part *part)
{
	const char *p = part->content, *end = p + part->len;

	while (p != NULL && p < end) {
		const char *line = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((line != NULL ? line : end) - p);

		fputs("  | ", stdout);
		show(stdout, p, len, SHOW_TABS);
		putchar('\n');
		p += len + 1;
	}
	if (part->len < part->size)
		printf("  ... %llu bytes more\n", (unsigned long long)(part->size - part->len));
}

static int
on_part(void *data, const struct koda_quarantined_part *part)
{
	struct shown *shown = data;
	json_t *object;

	if (shown->parts == NULL) {
		printf("\n%s", show_type(part->type));
		if (part->path[0] != '\0') {
			putchar(' ');
			show_string(stdout, part->path);
		}
		if (part->mode != 0)
			printf(", mode %04o", part->mode);
		if (part->target != NULL) {
			fputs(" -> ", stdout);
			show_string(stdout, part->target);
		}
		putchar('\n');
		if (part->type == KODA_FILE_REGULAR)
			show_content(part);
		return 0;
	}
	object = json_object();
	show_json_path(object, "path", part->path);
	json_object_set_new(object, "type", json_string(show_type(part->type)));
	json_object_set_new(object, "mode", json_integer(part->mode));
	json_object_set_new(object, "size", json_integer((json_int_t)part->size));
	if (part->target != NULL)
		show_json_path(object, "target", part->target);
	if (part->type == KODA_FILE_REGULAR) {
		show_json_content(object, part->content, part->len);
		json_object_set_new(object, "cut", json_boolean(part->len < part->size));
	}
	json_array_append_new(shown->parts, object);
	return 0;
}

/* Finds the root, which is needed only if the name does not say which quarantine it is in. */
static int
root_for(const struct cli *cli, const char *name, char **ret)
{
	*ret = NULL;
	return strchr(name, '/') != NULL ? EXIT_DONE : job_find_root(cli, ret);
}

int
cmd_quarantine_show(const struct cli *cli)
{
	const char *name = cli->words[0];
	struct shown shown = { .parts = args_has(&cli->args, OPT_JSON) ? json_array() : NULL,
		.all = strchr(name, '/') != NULL };
	struct koda_error err = { 0 };
	json_t *object;
	char *root;
	int status = root_for(cli, name, &root);

	if (status == EXIT_DONE &&
	    koda_quarantine_show(root, name, SHQUARANTINE_OPT_MAX, on_shown, on_part, &shown,
		&err) < 0)
		status =
		    output_error(cli, &err, "'koda-sandbox quarantine list --all' lists the names");
	free(root);
	if (status != EXIT_DONE || shown.parts == NULL) {
		json_decref(shown.object);
		json_decref(shown.parts);
		return output_done(status);
	}
	object = output_object();
	json_object_update(object, shown.object);
	json_decref(shown.object);
	json_object_set_new(object, "parts", shown.parts);
	return output_json(object);
}

/* ---- restore, delete ---- */

static int
refuse_plan(const struct cli *cli, const char *why)
{
	struct koda_error err = { .code = KODA_POLICY_DENIED };

	snprintf(err.message, sizeof(err.message), "cannot %s in plan mode, which changes nothing",
	    why);
	return output_error(cli, &err, "use another mode, for example --mode safe");
}

int
cmd_quarantine_restore(const struct cli *cli)
{
	struct koda_error err = { 0 };
	char *root;
	int status;

	if (cli->args.mode == KODA_PLAN)
		return refuse_plan(cli, "put anything back");
	status = job_find_root(cli, &root);
	if (status == EXIT_DONE && koda_quarantine_restore(root, cli->words[0], &err) < 0)
		status = output_error(cli, &err,
		    err.code == KODA_CONFLICT ? "first move away what is there"
			: err.code == KODA_INVALID
			? "'koda-sandbox quarantine list --all' lists the names"
			: NULL);
	free(root);
	if (status != EXIT_DONE)
		return status;
	if (args_has(&cli->args, OPT_JSON))
		return output_json(output_object());
	if (output_wants_summary(cli)) {
		fputs("put back ", stdout);
		show_string(stdout, cli->words[0]);
		putchar('\n');
	}
	return output_done(EXIT_DONE);
}

/* The names are collected first, so that nothing is deleted while the quarantine is being read. */
struct doomed {
	char **names;
	size_t n;
	double before; /* seconds since the epoch */
};

static int
on_doomed(void *data, const struct koda_quarantined *one)
{
	struct doomed *doomed = data;
	char name[NAME_MAX_BYTES], **more;

	if (one->time >= doomed->before)
		return 0;
	full_name(one, true, name);
	more = realloc(doomed->names, (doomed->n + 1) * sizeof(*more));
	if (more == NULL)
		return 1;
	doomed->names = more;
	doomed->names[doomed->n] = output_alloc(strlen(name) + 1);
	strcpy(doomed->names[doomed->n++], name);
	return 0;
}

static int
delete_one(const struct cli *cli, const char *root, const char *name)
{
	struct koda_error err = { 0 };

	if (koda_quarantine_delete(root, name, &err) < 0)
		return output_error(cli, &err,
		    err.code == KODA_INVALID
			? "'koda-sandbox quarantine list --all' lists the names"
			: NULL);
	return EXIT_DONE;
}

static int
delete_found(const struct cli *cli, const char *root, double before, size_t *ret_n)
{
	struct doomed doomed = { .before = before };
	struct koda_error err = { 0 };
	int status = EXIT_DONE;

	if (koda_quarantine_visit(root, on_doomed, &doomed, &err) < 0)
		status = output_error(cli, &err, NULL);
	for (size_t i = 0; i < doomed.n; i++) {
		const int one =
		    status == EXIT_DONE ? delete_one(cli, NULL, doomed.names[i]) : status;

		*ret_n += one == EXIT_DONE;
		status = one;
		free(doomed.names[i]);
	}
	free(doomed.names);
	return status;
}

static int
delete_named(const struct cli *cli, size_t *ret_n)
{
	int status = EXIT_DONE;

	for (char **word = cli->words; status == EXIT_DONE && *word != NULL; word++) {
		char *root;

		status = root_for(cli, *word, &root);
		if (status == EXIT_DONE)
			status = delete_one(cli, root, *word);
		*ret_n += status == EXIT_DONE;
		free(root);
	}
	return status;
}

int
cmd_quarantine_delete(const struct cli *cli)
{
	char why[ARGS_WHY_MAX];
	uint64_t days = 0;
	const char *value = NULL;
	const bool older = args_own(&cli->args, QUARANTINE_OPT_OLDER, &value);
	const bool all = of_all(cli), named = cli->words[0] != NULL;
	size_t n = 0;
	char *root = NULL;
	json_t *object;
	int status;

	if (older && args_number("--older", value, "a number of days", 0, DAYS_MAX, &days, why) < 0)
		return output_usage(cli, "%s", why);
	if (named && (all || older))
		return output_usage(cli, "names cannot be combined with --all or --older");
	if (!named && !all && !older)
		return output_usage(cli, "quarantine delete needs NAME..., --older DAYS or --all");
	if (cli->args.mode == KODA_PLAN)
		return refuse_plan(cli, "delete anything");
	status = named || all ? EXIT_DONE : job_find_root(cli, &root);
	if (status == EXIT_DONE)
		status = named ? delete_named(cli, &n)
			       : delete_found(cli, root,
				     older ? (double)time(NULL) - (double)days * 86400 : 1e18, &n);
	free(root);
	if (status != EXIT_DONE)
		return status;
	if (args_has(&cli->args, OPT_JSON)) {
		object = output_object();
		json_object_set_new(object, "deleted", json_integer((json_int_t)n));
		return output_json(object);
	}
	if (output_wants_summary(cli))
		printf("deleted %zu %s\n", n, n == 1 ? "entry" : "entries");
	return output_done(EXIT_DONE);
}
