/* SPDX-License-Identifier: Apache-2.0 */
/* fs list: the names in a directory. */
#include <stdio.h>
#include <string.h>

#include "cli/job.h"
#include "cli/output.h"
#include "cli/show.h"

static int
tell_json(const struct koda_result *result)
{
	json_t *object = output_object(), *entries = json_array();

	show_json_path(object, "path", result->path);
	for (size_t i = 0; i < result->n_entries; i++) {
		json_t *entry = json_object();

		show_json_path(entry, "name", result->entries[i].name);
		json_object_set_new(entry, "type", json_string(show_type(result->entries[i].type)));
		json_object_set_new(entry, "size",
		    json_integer((json_int_t)result->entries[i].size));
		json_array_append_new(entries, entry);
	}
	json_object_set_new(object, "entries", entries);
	json_object_set_new(object, "hidden", json_integer((json_int_t)result->hidden));
	return output_json(object);
}

/* Returns the letter of ls -l. */
static char
letter_of(enum koda_file_type type)
{
	switch (type) {
	case KODA_FILE_REGULAR:
		return '-';
	case KODA_FILE_DIRECTORY:
		return 'd';
	case KODA_FILE_SYMLINK:
		return 'l';
	case KODA_FILE_NONE:
	case KODA_FILE_OTHER:
		return '?';
	}
	return '?';
}

static int
tell_plain(const struct koda_result *result)
{
	int width = 1;

	for (size_t i = 0; i < result->n_entries; i++) {
		int n = snprintf(NULL, 0, "%llu", (unsigned long long)result->entries[i].size);

		width = n > width ? n : width;
	}
	for (size_t i = 0; i < result->n_entries; i++) {
		const struct koda_entry *entry = &result->entries[i];

		printf("%c %*llu ", letter_of(entry->type), width, (unsigned long long)entry->size);
		show_string(stdout, entry->name);
		puts(entry->type == KODA_FILE_DIRECTORY ? "/" : "");
	}
	fflush(stdout);
	if (result->hidden > 0)
		fprintf(stderr, "%llu more hidden by the policy\n",
		    (unsigned long long)result->hidden);
	return output_done(EXIT_DONE);
}

int
cmd_list(const struct cli *cli)
{
	struct job job;
	int status = job_begin(&job, cli, KODA_OP_LIST);

	if (status == EXIT_DONE)
		status = job_run(&job);
	if (status == EXIT_DONE)
		status = args_has(&cli->args, OPT_JSON) ? tell_json(&job.result)
							: tell_plain(&job.result);
	job_end(&job);
	return status;
}
