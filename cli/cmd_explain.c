/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain: what would be decided about a path, by which rule, and where the path leads; and about a
 * host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/output.h"
#include "cli/show.h"

/*
 * What a command may do there. This can differ from the worker: package caches are only for
 * commands.
 */
struct for_command {
	bool known, allowed;
	const char *rule;
	struct koda_error err; /* why known is false */
};

static void
ask_command(const struct job *job, struct for_command *ret)
{
	ret->known = koda_slot_explain_command(job->slot, job->op.access, job->result.path,
			 &ret->allowed, &ret->rule, &ret->err) == 0;
}

static int
tell_json(const struct job *job, const struct for_command *command)
{
	const struct koda_result *result = &job->result;
	json_t *object = output_object(), *hops = json_array();

	show_json_path(object, "path", result->path);
	json_object_set_new(object, "access",
	    json_string(job->op.access == KODA_WRITE_ACCESS ? "write" : "read"));
	json_object_set_new(object, "mode", json_string(args_mode_name(job->cli->args.mode)));
	json_object_set_new(object, "allowed", json_boolean(result->allowed));
	json_object_set_new(object, "rule", show_json_lossy(result->rule, strlen(result->rule)));
	json_object_set_new(object, "reason",
	    show_json_lossy(result->reason, strlen(result->reason)));
	for (size_t i = 0; i < result->n_hops; i++) {
		json_t *hop = json_object();

		show_json_path(hop, "path", result->hops[i]);
		json_array_append_new(hops, hop);
	}
	json_object_set_new(object, "hops", hops);
	if (command->known) {
		json_t *answer = json_object();

		json_object_set_new(answer, "allowed", json_boolean(command->allowed));
		json_object_set_new(answer, "rule",
		    show_json_lossy(command->rule, strlen(command->rule)));
		json_object_set_new(object, "command", answer);
	} else {
		json_object_set_new(object, "command", json_null());
	}
	return output_json(object);
}

static void
line(const char *name, const char *value)
{
	printf("%-9s", name);
	show_string(stdout, value);
	putchar('\n');
}

static void
print_verdict(const char *word, bool good)
{
	bool colour = output_colour(STDOUT_FILENO);

	printf("%-9s%s%s%s\n", "verdict", colour ? (good ? "\033[32m" : "\033[31m") : "", word,
	    colour ? "\033[0m" : "");
}

static int
tell_plain(const struct job *job, const struct for_command *command)
{
	const struct koda_result *result = &job->result;

	print_verdict(result->allowed ? "allowed" : "refused", result->allowed);
	line("rule", result->rule);
	line("reason", result->reason);
	line("path", result->path);
	for (size_t i = 0; i < result->n_hops; i++)
		line("link", result->hops[i]);
	printf("%-9s", "command");
	if (command->known)
		fputs(command->allowed ? "allowed" : "refused", stdout);
	else
		show_string(stdout, command->err.message);
	if (command->known && command->rule[0] != '\0') {
		fputs(", ", stdout);
		show_string(stdout, command->rule);
	}
	putchar('\n');
	return output_done(EXIT_DONE);
}

static int
explain(const struct cli *cli, enum koda_access access)
{
	struct for_command command = { .rule = "" };
	struct job job;
	int status = job_begin(&job, cli, KODA_OP_EXPLAIN);

	job.op.access = access;
	if (status == EXIT_DONE)
		status = job_run(&job);
	if (status == EXIT_DONE) {
		ask_command(&job, &command);
		status = args_has(&cli->args, OPT_JSON) ? tell_json(&job, &command)
							: tell_plain(&job, &command);
	}
	if (status == EXIT_DONE && !job.result.allowed)
		status = EXIT_REFUSED;
	job_end(&job);
	return status;
}

int
cmd_explain_read(const struct cli *cli)
{
	return explain(cli, KODA_READ_ACCESS);
}

int
cmd_explain_write(const struct cli *cli)
{
	return explain(cli, KODA_WRITE_ACCESS);
}

/* ---- hosts: no worker, no session ---- */

/* In safe mode a command works in a draft if it can. */
static bool
asks_in_draft(const struct cli *cli, const struct koda_host_verdict *v)
{
	return cli->args.mode == KODA_SAFE && (v->allowed || v->asks);
}

static int
tell_host(const struct cli *cli, const struct koda_host_verdict *v)
{
	json_t *object;

	if (!args_has(&cli->args, OPT_JSON)) {
		print_verdict(v->allowed ? "allowed" : v->asks ? "asked" : "refused", v->allowed);
		line("rule", v->rule);
		line("reason", v->reason);
		line("host", v->host);
		printf("%-9s%u\n", "port", v->port);
		if (asks_in_draft(cli, v))
			line("draft",
			    "asked: in a draft, as 'run' and 'shell' make one in safe mode, "
			    "the user is asked about each host");
		return output_done(EXIT_DONE);
	}
	object = output_object();
	json_object_set_new(object, "host", json_string(v->host));
	json_object_set_new(object, "port", json_integer(v->port));
	json_object_set_new(object, "mode", json_string(args_mode_name(cli->args.mode)));
	json_object_set_new(object, "allowed", json_boolean(v->allowed));
	json_object_set_new(object, "asks", json_boolean(v->asks));
	json_object_set_new(object, "asks_in_draft", json_boolean(asks_in_draft(cli, v)));
	json_object_set_new(object, "rule", json_string(v->rule));
	json_object_set_new(object, "reason", json_string(v->reason));
	return output_json(object);
}

int
cmd_explain_net(const struct cli *cli)
{
	struct koda_host_verdict verdict = { 0 };
	struct koda_policy *policy = NULL;
	struct koda_error err = { 0 };
	char *root;
	int status = job_find_root(cli, &root);

	if (status != EXIT_DONE)
		return status;
	policy = koda_policy_for_agent(cli->args.mode, root, &err);
	if (policy == NULL || koda_policy_freeze(policy, &err) < 0 ||
	    koda_explain_host(policy, cli->args.mode, cli->words[0], &verdict, &err) < 0)
		status = output_error(cli, &err, NULL);
	else
		status = tell_host(cli, &verdict);
	if (status == EXIT_DONE && !verdict.allowed)
		status = EXIT_REFUSED;
	koda_policy_free(policy);
	free(root);
	return status;
}
