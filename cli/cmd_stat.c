/* SPDX-License-Identifier: Apache-2.0 */
/* fs stat: describes the name itself; a link is not followed. */
#include <stdio.h>
#include <time.h>

#include "cli/job.h"
#include "cli/output.h"
#include "cli/show.h"

/* Writes "2024-02-29T12:00:00.000000000Z"; "" for a time that has no such form. */
static void
format_time(char *buf, size_t size, int64_t ns)
{
	int64_t fraction = ns % 1000000000;
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;
	size_t n;

	if (fraction < 0) {
		fraction += 1000000000;
		seconds--;
	}
	buf[0] = '\0';
	if (gmtime_r(&seconds, &tm) == NULL)
		return;
	n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, size - n, ".%09lldZ", (long long)fraction);
}

static int
tell_json(const struct koda_result *result, const char *mode, const char *mtime)
{
	json_t *object = output_object();
	char digest[SHOW_DIGEST_SIZE];

	show_json_path(object, "path", result->path);
	json_object_set_new(object, "type", json_string(show_type(result->type)));
	json_object_set_new(object, "size", json_integer((json_int_t)result->size));
	json_object_set_new(object, "mode", json_string(mode));
	json_object_set_new(object, "mtime", json_string(mtime));
	json_object_set_new(object, "mtime_ns", json_integer(result->mtime_ns));
	json_object_set_new(object, "links", json_integer((json_int_t)result->links));
	if (result->target != NULL)
		show_json_path(object, "target", result->target);
	if (result->has_digest) {
		show_digest(digest, result->digest);
		json_object_set_new(object, "digest", json_string(digest));
	}
	return output_json(object);
}

static int
tell_plain(const struct job *job, const char *mode, const char *mtime)
{
	const struct koda_result *result = &job->result;
	char digest[SHOW_DIGEST_SIZE];

	fputs("path    ", stdout);
	show_string(stdout, result->path);
	printf("\ntype    %s\nsize    %llu\nmode    %s\nmtime   %s\nlinks   %llu\n",
	    show_type(result->type), (unsigned long long)result->size, mode, mtime,
	    (unsigned long long)result->links);
	if (result->target != NULL) {
		fputs("target  ", stdout);
		show_string(stdout, result->target);
		putchar('\n');
	}
	if (result->has_digest) {
		show_digest(digest, result->digest);
		printf("digest  %s\n", digest);
	}
	return output_done(EXIT_DONE);
}

int
cmd_stat(const struct cli *cli)
{
	struct job job;
	int status = job_begin(&job, cli, KODA_OP_STAT);

	if (status == EXIT_DONE)
		status = job_run(&job);
	if (status == EXIT_DONE) {
		char mode[16], mtime[64];

		snprintf(mode, sizeof(mode), "%04o", job.result.mode & 07777u);
		format_time(mtime, sizeof(mtime), job.result.mtime_ns);
		status = args_has(&cli->args, OPT_JSON) ? tell_json(&job.result, mode, mtime)
							: tell_plain(&job, mode, mtime);
	}
	job_end(&job);
	return status;
}
