/* What a command is, and what the process's status says about its end. */
#ifndef KODA_CLI_COMMAND_H
#define KODA_CLI_COMMAND_H

#include "host/cli/args.h"

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* the kernel said no, too large, an impossible path */
	EXIT_USAGE = 2,
	EXIT_REFUSED = 3, /* by the policy, or by whoever was asked */
	EXIT_CONFLICT = 4,
	EXIT_HOST = 125, /* the sandbox itself failed; as env(1) and timeout(1) do */
};

struct command;

struct cli {
	struct args args;
	const struct command *command; /* NULL until the words told it */
	char **words;                  /* behind the command's own */
};

struct command {
	const char *group; /* "fs"; NULL: the name stands alone */
	const char *name;
	const char *synopsis; /* its words */
	size_t n_words;
	unsigned opts; /* OPT_BITs beside OPT_COMMON */
	const char *brief;
	const char *help;                  /* more sentences, or "" */
	const char *conflict_remedy;       /* what to do about KODA_CONFLICT, or NULL */
	int (*run)(const struct cli *cli); /* returns an exit_status */
};

int cmd_read(const struct cli *cli);
int cmd_write(const struct cli *cli);
int cmd_edit(const struct cli *cli);
int cmd_stat(const struct cli *cli);
int cmd_list(const struct cli *cli);
int cmd_mkdir(const struct cli *cli);
int cmd_rm(const struct cli *cli);
int cmd_mv(const struct cli *cli);
int cmd_explain_read(const struct cli *cli);
int cmd_explain_write(const struct cli *cli);
int cmd_policy(const struct cli *cli);
int cmd_doctor(const struct cli *cli);

#endif
