/* mcp: what the command line says, for host/mcp. */
#include <stdio.h>
#include <stdlib.h>

#include "host/cli/job.h"
#include "host/cli/output.h"
#include "host/mcp/mcp.h"

int
cmd_mcp(const struct cli *cli)
{
	struct mcp_options options = { .mode = cli->args.mode, .audit = cli->args.audit };
	struct koda_error err = { 0 };
	enum mcp_end end;
	char *root;
	int status;

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
