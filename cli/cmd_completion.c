/* SPDX-License-Identifier: Apache-2.0 */
/* completion: prints the script for a shell. */
#include <stdlib.h>
#include <string.h>

#include "cli/completion.h"
#include "cli/output.h"

int
cmd_completion(const struct cli *cli)
{
	const bool json = args_has(&cli->args, OPT_JSON);
	const char *shell = cli->words[0];
	char *text = NULL, unknown[32] = "";
	size_t size = 0;
	FILE *f = json ? open_memstream(&text, &size) : stdout;
	json_t *object;
	int r, status;

	if (f == NULL)
		output_no_memory();
	r = completion_write(f, shell, unknown);
	if (!json)
		return r == 0
		    ? output_done(EXIT_DONE)
		    : output_usage(cli, "no completion for '%s': the shells are bash, zsh and fish",
			  shell);
	if (fclose(f) != 0)
		output_no_memory();
	if (r == 0) {
		object = output_object();
		json_object_set_new(object, "completion", json_stringn(text, size));
		status = output_json(object);
	} else {
		status = output_usage(cli,
		    "no completion for '%s': the shells are bash, zsh and fish", shell);
	}
	free(text);
	return status;
}
