/* SPDX-License-Identifier: Apache-2.0 */
/* fs edit, mkdir, rm, mv: everything is in the operation; only the messages are here. */
#include "cli/job.h"
#include "cli/output.h"

static int
change(const struct cli *cli, enum koda_op_kind kind, const char *done, const char *would)
{
	struct job job;
	int status = job_begin(&job, cli, kind);

	if (status == EXIT_DONE)
		status = job_run(&job);
	if (status == EXIT_DONE)
		status = job_tell_mutation(&job, done, would);
	job_end(&job);
	return status;
}

int
cmd_edit(const struct cli *cli)
{
	if (cli->args.n_edits == 0)
		return output_usage(cli, "fs edit needs at least one --old TEXT --new TEXT");
	return change(cli, KODA_OP_EDIT, "edited", "would edit");
}

int
cmd_mkdir(const struct cli *cli)
{
	return change(cli, KODA_OP_MKDIR, "made", "would make");
}

int
cmd_rm(const struct cli *cli)
{
	return change(cli, KODA_OP_REMOVE, "removed", "would remove");
}

int
cmd_mv(const struct cli *cli)
{
	return change(cli, KODA_OP_RENAME, "moved", "would move");
}
