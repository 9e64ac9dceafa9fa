/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy: what a mode means for a project, and how the sandbox of its commands is built. Starts
 * nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/output.h"
#include "cli/show.h"

static bool
is_list(const char *field)
{
	static const char *const lists[] = {
		"deny_read",
		"allow_read_within_deny",
		"allow_write",
		"deny_write_within_allow",
		"deny_write_names",
		"allowed_domains",
		"denied_domains",
		"mitm.socket_map",
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (strcmp(field, lists[i]) == 0)
			return true;
	}
	return false;
}

/* The visitor gets every value as text; JSON has booleans and numbers. */
static json_t *
scalar_of(const char *value)
{
	size_t digits = strspn(value, "0123456789");

	if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
		return json_boolean(value[0] == 't');
	if (digits > 0 && value[digits] == '\0')
		return json_integer((json_int_t)strtoull(value, NULL, 10));
	return show_json_lossy(value, strlen(value));
}

static int
add_value(void *data, const char *section, const char *field, const char *value)
{
	json_t *policy = data, *where = policy, *list;

	if (section[0] != '\0') {
		where = json_object_get(policy, section);
		if (where == NULL) {
			where = json_object();
			json_object_set_new(policy, section, where);
		}
	}
	if (!is_list(field)) {
		json_object_set_new(where, field, value != NULL ? scalar_of(value) : json_null());
		return 0;
	}
	list = json_object_get(where, field);
	if (list == NULL) {
		list = json_array();
		json_object_set_new(where, field, list);
	}
	if (value != NULL)
		json_array_append_new(list, show_json_lossy(value, strlen(value)));
	return 0;
}

static int
add_argument(void *data, const char *argument, const char *comment)
{
	json_t *object = json_object();

	json_object_set_new(object, "argument", show_json_lossy(argument, strlen(argument)));
	if (comment[0] != '\0')
		json_object_set_new(object, "comment", show_json_lossy(comment, strlen(comment)));
	json_array_append_new(data, object);
	return 0;
}

/* For printing an option and its operands in one line, after the reason for it. */
struct policy_listing {
	bool colour, begun;
};

static int
print_argument(void *data, const char *argument, const char *comment)
{
	struct policy_listing *listing = data;
	bool option = strncmp(argument, "--", 2) == 0;

	if (listing->begun)
		putchar(option ? '\n' : ' ');
	if (comment[0] != '\0') {
		if (!option && listing->begun)
			putchar('\n');
		fputs(listing->colour ? "\033[2m  # " : "  # ", stdout);
		show_string(stdout, comment);
		puts(listing->colour ? "\033[0m" : "");
	}
	fputs(option ? "  " : "", stdout);
	show_string(stdout, argument);
	listing->begun = true;
	return 0;
}

static int
tell_json(const struct cli *cli, const char *root, const struct koda_policy *policy)
{
	json_t *arguments = json_array();
	struct koda_error err = { 0 };
	json_t *object = output_object(), *fields = json_object();

	json_object_set_new(object, "mode", json_string(args_mode_name(cli->args.mode)));
	show_json_path(object, "root", root);
	koda_policy_visit(policy, add_value, fields);
	json_object_set_new(object, "policy", fields);
	if (koda_sandbox_arguments(root, cli->args.mode, policy, add_argument, arguments, &err) <
	    0) {
		json_decref(object);
		json_decref(arguments);
		return output_error(cli, &err, NULL);
	}
	json_object_set_new(object, "sandbox", arguments);
	return output_json(object);
}

static int
tell_plain(const struct cli *cli, const char *root, const struct koda_policy *policy)
{
	struct policy_listing listing = { .colour = output_colour(STDOUT_FILENO) };
	struct koda_error err = { 0 };
	char *text = koda_policy_print(policy), *line = text;

	if (text == NULL)
		output_no_memory();
	while (*line != '\0') {
		size_t len = strcspn(line, "\n");

		show(stdout, line, len, SHOW_TABS);
		putchar('\n');
		line += len + (line[len] == '\n');
	}
	free(text);
	puts(
	    "\n# bwrap builds the commands' sandbox with these arguments. What is read-only or hidden below a\n# writable directory is mounted afterwards:");
	if (koda_sandbox_arguments(root, cli->args.mode, policy, print_argument, &listing, &err) <
	    0)
		return output_error(cli, &err, NULL);
	putchar('\n');
	return output_done(EXIT_DONE);
}

int
cmd_policy(const struct cli *cli)
{
	struct koda_policy *policy = NULL;
	struct koda_error err = { 0 };
	char *root;
	int status = job_find_root(cli, &root);

	if (status != EXIT_DONE)
		return status;
	policy = koda_policy_for_agent(cli->args.mode, root, &err);
	if (policy == NULL || koda_policy_freeze(policy, &err) < 0)
		status = output_error(cli, &err, NULL);
	else if (args_has(&cli->args, OPT_JSON))
		status = tell_json(cli, root, policy);
	else
		status = tell_plain(cli, root, policy);
	koda_policy_free(policy);
	free(root);
	return status;
}
