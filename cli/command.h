/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the table of commands, and the exit statuses of the process. */
#ifndef KODA_CLI_COMMAND_H
#define KODA_CLI_COMMAND_H

#include "cli/args.h"

enum exit_status {
	EXIT_DONE = 0,
	/* glob, grep and tree, as grep(1): */
	EXIT_NOTHING = 1, /* nothing was found */
	EXIT_TROUBLE = 2, /* any failure */
	/* The others: */
	EXIT_FAILED = 1, /* a system call failed, too large, an impossible path */
	EXIT_USAGE = 2,
	EXIT_REFUSED = 3, /* by the policy, or by the user */
	EXIT_CONFLICT = 4,
	/*
	 * run and shell: usually the command's own status, 128 + the number if a signal ended it.
	 * Else:
	 */
	EXIT_SETUP = 88,      /* the kernel sandbox could not be built: nothing was run */
	EXIT_TIMED_OUT = 124, /* as timeout(1) */
	EXIT_HOST = 125,      /* the sandbox itself failed; as env(1) and timeout(1) */
	EXIT_NOT_RUN = 126,   /* the command was found but could not be executed; as a shell */
	EXIT_NOT_FOUND = 127,
};

struct subcommand;

struct cli {
	struct args args;
	const struct subcommand *command; /* NULL until the words have been matched */
	const char *group;                /* the group that the words name, or NULL */
	char **words;                     /* after the command's own name */
};

#define WORDS_ANY SIZE_MAX

enum command_id {
	COMMAND_READ,
	COMMAND_WRITE,
	COMMAND_EDIT,
	COMMAND_STAT,
	COMMAND_LIST,
	COMMAND_GLOB,
	COMMAND_GREP,
	COMMAND_TREE,
	COMMAND_MKDIR,
	COMMAND_RM,
	COMMAND_MV,
	COMMAND_EXPLAIN_READ,
	COMMAND_EXPLAIN_WRITE,
	COMMAND_EXPLAIN_NET,
	COMMAND_RUN,
	COMMAND_SHELL,
	COMMAND_DRAFTS,
	COMMAND_DRAFT_DIFF,
	COMMAND_DRAFT_APPLY,
	COMMAND_DRAFT_DISCARD,
	COMMAND_DRAFT_RUN,
	COMMAND_DRAFT_SHELL,
	COMMAND_HISTORY,
	COMMAND_UNDO,
	COMMAND_REDO,
	COMMAND_QUARANTINE_LIST,
	COMMAND_QUARANTINE_SHOW,
	COMMAND_QUARANTINE_DELETE,
	COMMAND_QUARANTINE_RESTORE,
	COMMAND_CACHES_LIST,
	COMMAND_CACHES_CLEAR,
	COMMAND_TOP,
	COMMAND_AUDIT_VERIFY,
	COMMAND_POLICY,
	COMMAND_MCP,
	COMMAND_DOCTOR,
	COMMAND_COMPLETION,
	N_COMMANDS,
};

/* What a command is called, takes and does. Pure data: the program that makes the manual has it, too. */
struct subcommand {
	const char *group; /* "fs"; NULL: the command has no group */
	const char *name;
	const char *synopsis; /* its words */
	size_t n_words;       /* maximum; WORDS_ANY: no maximum */
	uint64_t opts;        /* OPT_BITs in addition to OPT_COMMON */
	const char *brief;
	const char *help;            /* more sentences, or "" */
	const char *conflict_remedy; /* what to do about KODA_CONFLICT, or NULL */
	const struct opt_table *own; /* its own options, or NULL */
};
extern const struct subcommand commands[N_COMMANDS];

#define COMMAND_NAME_MAX 40
/* Returns buf with "draft apply". */
const char *command_full_name(const struct subcommand *command, char buf[COMMAND_NAME_MAX]);
/* Are both NULL, or the same name? */
bool command_same_group(const char *a, const char *b);
/* Is this the first row of its group, which gives the group its place in a list? */
bool command_group_begins(const struct subcommand *command);
/*
 * Returns where the sentence on the exit status begins in the command's own help, or NULL: the usual
 * one, command_usual_status, applies.
 */
const char *command_own_status(const struct subcommand *command);
extern const char command_usual_status[];
/* Does the table have an option with that letter? */
bool command_takes_letter(const struct opt_table *table, char letter);

int cmd_read(const struct cli *cli);
int cmd_write(const struct cli *cli);
int cmd_edit(const struct cli *cli);
int cmd_stat(const struct cli *cli);
int cmd_list(const struct cli *cli);
int cmd_glob(const struct cli *cli);
int cmd_grep(const struct cli *cli);
int cmd_tree(const struct cli *cli);
int cmd_mkdir(const struct cli *cli);
int cmd_rm(const struct cli *cli);
int cmd_mv(const struct cli *cli);
int cmd_explain_read(const struct cli *cli);
int cmd_explain_write(const struct cli *cli);
int cmd_explain_net(const struct cli *cli);
int cmd_run(const struct cli *cli);
int cmd_shell(const struct cli *cli);
int cmd_drafts(const struct cli *cli);
int cmd_draft_diff(const struct cli *cli);
int cmd_draft_apply(const struct cli *cli);
int cmd_draft_discard(const struct cli *cli);
int cmd_draft_run(const struct cli *cli);
int cmd_draft_shell(const struct cli *cli);
int cmd_history(const struct cli *cli);
int cmd_undo(const struct cli *cli);
int cmd_redo(const struct cli *cli);
int cmd_quarantine_list(const struct cli *cli);
int cmd_quarantine_show(const struct cli *cli);
int cmd_quarantine_delete(const struct cli *cli);
int cmd_quarantine_restore(const struct cli *cli);
int cmd_caches_list(const struct cli *cli);
int cmd_caches_clear(const struct cli *cli);
int cmd_top(const struct cli *cli);
int cmd_audit_verify(const struct cli *cli);
int cmd_policy(const struct cli *cli);
int cmd_mcp(const struct cli *cli);
int cmd_doctor(const struct cli *cli);
int cmd_completion(const struct cli *cli);

#endif
