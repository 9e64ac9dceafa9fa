/* explain: what would be decided about a path, by which rule, and where the path really leads. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/cli/job.h"
#include "host/cli/output.h"
#include "host/cli/show.h"

static int
tell_json(const struct job *job)
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
	return output_json(object);
}

static void
line(const char *name, const char *value)
{
	printf("%-9s", name);
	show_string(stdout, value);
	putchar('\n');
}

static int
tell_plain(const struct job *job)
{
	const struct koda_result *result = &job->result;
	bool colour = output_colour(STDOUT_FILENO);

	printf("%-9s%s%s%s\n", "verdict", colour ? (result->allowed ? "\033[32m" : "\033[31m") : "",
	    result->allowed ? "allowed" : "refused", colour ? "\033[0m" : "");
	line("rule", result->rule);
	line("reason", result->reason);
	line("path", result->path);
	for (size_t i = 0; i < result->n_hops; i++)
		line("link", result->hops[i]);
	return output_done(EXIT_DONE);
}

static int
explain(const struct cli *cli, enum koda_access access)
{
	struct job job;
	int status = job_begin(&job, cli, KODA_OP_EXPLAIN);

	job.op.access = access;
	if (status == EXIT_DONE)
		status = job_run(&job);
	if (status == EXIT_DONE)
		status = args_has(&cli->args, OPT_JSON) ? tell_json(&job) : tell_plain(&job);
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
