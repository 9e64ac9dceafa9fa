/* SPDX-License-Identifier: Apache-2.0 */
/* mcp: passes the command line's options to the MCP server. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/output.h"
#include "mcp/endpoint_client.h"
#include "mcp/mcp.h"

static int
be_child(const struct cli *cli)
{
	const uint64_t others = OPT_BIT(OPT_MODE) | OPT_BIT(OPT_ROOT) | OPT_BIT(OPT_AUDIT) |
	    OPT_BIT(OPT_DRAFT) | OPT_BIT(OPT_JUDGED);
	struct koda_error err;
	int status;

	if (cli->args.given & others)
		return output_usage(cli,
		    "--child cannot be combined with --mode, --root, --audit, --draft or --judged: the session keeps those it was opened with");
	status = endpoint_client_run(cli->args.child, STDIN_FILENO, STDOUT_FILENO, &err);
	if (status < 0)
		return output_error(cli, &err,
		    "have the parent agent open the child again: open_child returns a new command line");
	if (err.message[0] != '\0')
		output_note(NULL, err.message);
	return status;
}

int
cmd_mcp(const struct cli *cli)
{
	struct mcp_options options = { .mode = cli->args.mode,
		.audit = cli->args.audit,
		.draft = args_has(&cli->args, OPT_DRAFT),
		.judged = args_has(&cli->args, OPT_JUDGED) };
	struct koda_error err = { 0 };
	enum mcp_end end;
	char *root;
	int status;

	if (args_has(&cli->args, OPT_CHILD))
		return be_child(cli);
	if (options.draft && options.mode == KODA_PLAN)
		return output_usage(cli,
		    "plan mode changes nothing, so there is no draft: use --mode safe or auto");
	if (options.judged && options.draft)
		return output_usage(cli,
		    "--judged cannot be combined with --draft: it applies what each command changed when it ends");
	if (options.judged && options.mode != KODA_AUTO)
		return output_usage(cli,
		    "--judged applies changes without asking: it is for --mode auto");
	status = job_find_root(cli, &root);
	if (status != EXIT_DONE)
		return status;
	options.root = root;
	end = mcp_serve(&options, &err);
	if (end == MCP_NO_AUDIT)
		status = output_usage(cli, "--audit: %s", err.message);
	else if (end == MCP_FAILED)
		status = output_error(cli, &err, NULL);
	if (end == MCP_FAILED && err.code == KODA_UNSUPPORTED)
		status = EXIT_SETUP;
	free(root);
	return status;
}
