/* quarantine: what commands planted that a tool of the host would have run, and how to have it back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/cli/job.h"
#include "host/cli/output.h"
#include "host/cli/show.h"

struct list {
	json_t *objects; /* NULL: print instead */
	size_t n;
};

static int
on_quarantined(void *data, const struct koda_quarantined *one)
{
	struct list *list = data;
	json_t *object;
	time_t when = (time_t)one->time;
	char text[32];
	struct tm tm;

	list->n++;
	if (list->objects == NULL) {
		if (localtime_r(&when, &tm) == NULL ||
		    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm) == 0)
			snprintf(text, sizeof(text), "?");
		show_string(stdout, one->name);
		printf("  %s  ", text);
		show_string(stdout, one->type);
		fputs("  ", stdout);
		show_string(stdout, one->path);
		fputs("  (", stdout);
		show_string(stdout, one->rule);
		puts(")");
		return 0;
	}
	object = json_object();
	json_object_set_new(object, "name", show_json_lossy(one->name, strlen(one->name)));
	show_json_path(object, "path", one->path);
	json_object_set_new(object, "rule", show_json_lossy(one->rule, strlen(one->rule)));
	json_object_set_new(object, "type", show_json_lossy(one->type, strlen(one->type)));
	json_object_set_new(object, "time", json_real(one->time));
	json_array_append_new(list->objects, object);
	return 0;
}

int
cmd_quarantine_list(const struct cli *cli)
{
	bool json = args_has(&cli->args, OPT_JSON);
	struct list list = { .objects = json ? json_array() : NULL };
	struct koda_error err = { 0 };
	json_t *object;
	char *root;
	int status = job_find_root(cli, &root);

	if (status == EXIT_DONE && koda_quarantine_visit(root, on_quarantined, &list, &err) < 0)
		status = output_error(cli, &err, NULL);
	free(root);
	if (status != EXIT_DONE || !json) {
		json_decref(list.objects);
		if (status == EXIT_DONE && list.n == 0)
			output_note(NULL, "nothing is in the quarantine of this root");
		return output_done(status);
	}
	object = output_object();
	json_object_set_new(object, "quarantined", list.objects);
	return output_json(object);
}

int
cmd_quarantine_restore(const struct cli *cli)
{
	struct koda_error err = { 0 };
	char *root;
	int status;

	if (cli->args.mode == KODA_PLAN) {
		err.code = KODA_POLICY_DENIED;
		snprintf(err.message, sizeof(err.message),
		    "in plan mode nothing is changed, and what is put back is a change");
		return output_error(cli, &err, NULL);
	}
	status = job_find_root(cli, &root);
	if (status == EXIT_DONE && koda_quarantine_restore(root, cli->words[0], &err) < 0)
		status = output_error(cli, &err,
		    err.code == KODA_CONFLICT ? "move away what is there" : NULL);
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
