/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-sandbox: the library's first user. Finds the command that the words name, in the table of
 * cli/commands.c, and calls its function.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/output.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static int (*const run_of[])(const struct cli *cli) = {
	[COMMAND_READ] = cmd_read,
	[COMMAND_WRITE] = cmd_write,
	[COMMAND_EDIT] = cmd_edit,
	[COMMAND_STAT] = cmd_stat,
	[COMMAND_LIST] = cmd_list,
	[COMMAND_GLOB] = cmd_glob,
	[COMMAND_GREP] = cmd_grep,
	[COMMAND_TREE] = cmd_tree,
	[COMMAND_MKDIR] = cmd_mkdir,
	[COMMAND_RM] = cmd_rm,
	[COMMAND_MV] = cmd_mv,
	[COMMAND_EXPLAIN_READ] = cmd_explain_read,
	[COMMAND_EXPLAIN_WRITE] = cmd_explain_write,
	[COMMAND_EXPLAIN_NET] = cmd_explain_net,
	[COMMAND_RUN] = cmd_run,
	[COMMAND_SHELL] = cmd_shell,
	[COMMAND_DRAFTS] = cmd_drafts,
	[COMMAND_DRAFT_DIFF] = cmd_draft_diff,
	[COMMAND_DRAFT_APPLY] = cmd_draft_apply,
	[COMMAND_DRAFT_DISCARD] = cmd_draft_discard,
	[COMMAND_DRAFT_RUN] = cmd_draft_run,
	[COMMAND_DRAFT_SHELL] = cmd_draft_shell,
	[COMMAND_HISTORY] = cmd_history,
	[COMMAND_UNDO] = cmd_undo,
	[COMMAND_REDO] = cmd_redo,
	[COMMAND_QUARANTINE_LIST] = cmd_quarantine_list,
	[COMMAND_QUARANTINE_SHOW] = cmd_quarantine_show,
	[COMMAND_QUARANTINE_DELETE] = cmd_quarantine_delete,
	[COMMAND_QUARANTINE_RESTORE] = cmd_quarantine_restore,
	[COMMAND_CACHES_LIST] = cmd_caches_list,
	[COMMAND_CACHES_CLEAR] = cmd_caches_clear,
	[COMMAND_TOP] = cmd_top,
	[COMMAND_AUDIT_VERIFY] = cmd_audit_verify,
	[COMMAND_POLICY] = cmd_policy,
	[COMMAND_MCP] = cmd_mcp,
	[COMMAND_DOCTOR] = cmd_doctor,
	[COMMAND_COMPLETION] = cmd_completion,
};
_Static_assert(N(run_of) == N_COMMANDS, "a function for each row");

static bool
is_group(const char *word)
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (commands[i].group != NULL && strcmp(commands[i].group, word) == 0)
			return true;
	}
	return false;
}

static const struct subcommand *
find(const char *group, const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (command_same_group(commands[i].group, group) &&
		    strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static const struct opt_table *
options_of_words(char *const *words, size_t n_words)
{
	const struct subcommand *command = NULL;

	if (n_words == 1 && !is_group(words[0]))
		command = find(NULL, words[0]);
	else if (n_words == 2 && is_group(words[0]))
		command = find(words[0], words[1]);
	return command != NULL ? command->own : NULL;
}

static int
unknown_command(const struct cli *cli, const char *group, const char *word)
{
	const char *names[2 * N_COMMANDS + 1], *near;
	size_t n = 0;

	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (command_same_group(commands[i].group, group))
			names[n++] = commands[i].name;
	}
	for (size_t i = 0; group == NULL && i < N_COMMANDS; i++) {
		if (command_group_begins(&commands[i]))
			names[n++] = commands[i].group;
	}
	if (group == NULL)
		names[n++] = "help";
	near = args_closest(word, names, n);
	if (near != NULL)
		return output_usage(cli, "unknown command '%s%s%s', did you mean '%s'?",
		    group != NULL ? group : "", group != NULL ? " " : "", word, near);
	/* 'koda-sandbox read x': the name is right, the group is missing. */
	for (size_t i = 0; group == NULL && i < N_COMMANDS; i++) {
		if (commands[i].group != NULL && strcmp(commands[i].name, word) == 0)
			return output_usage(cli, "unknown command '%s', did you mean '%s %s'?",
			    word, commands[i].group, word);
	}
	return output_usage(cli, "unknown command '%s%s%s'", group != NULL ? group : "",
	    group != NULL ? " " : "", word);
}

/*
 * Finds the row that the words name, for cli->command; cli->words is then what follows it. Without
 * a row and without an error (only a group was named, in cli->group, or nothing) the caller shows
 * help.
 */
static int
choose(struct cli *cli, char **words)
{
	cli->words = words;
	if (words[0] == NULL)
		return EXIT_DONE;
	if (!is_group(words[0])) {
		cli->command = find(NULL, words[0]);
		cli->words = words + 1;
		return cli->command != NULL ? EXIT_DONE : unknown_command(cli, NULL, words[0]);
	}
	cli->group = words[0];
	if (words[1] == NULL)
		return EXIT_DONE;
	cli->command = find(words[0], words[1]);
	cli->words = words + 2;
	return cli->command != NULL ? EXIT_DONE : unknown_command(cli, words[0], words[1]);
}

static int
show_help(const struct cli *cli)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = args_has(&cli->args, OPT_JSON) ? open_memstream(&text, &size) : stdout;
	json_t *object;
	int status;

	if (f == NULL)
		output_no_memory();
	if (cli->command != NULL)
		help_command(f, cli->command);
	else
		help_overview(f, cli->group);
	if (f == stdout)
		return output_done(EXIT_DONE);
	if (fclose(f) != 0)
		output_no_memory();
	object = output_object();
	json_object_set_new(object, "help", json_stringn(text, size));
	status = output_json(object);
	free(text);
	return status;
}

static int
show_version(const struct cli *cli)
{
	json_t *object;

	if (!args_has(&cli->args, OPT_JSON)) {
		printf("koda-sandbox %s\n", koda_version());
		return output_done(EXIT_DONE);
	}
	object = output_object();
	json_object_set_new(object, "version", json_string(koda_version()));
	return output_json(object);
}

/* Does the row take these options and this number of words? */
static int
check(const struct cli *cli)
{
	const struct subcommand *command = cli->command;
	char buf[COMMAND_NAME_MAX];
	const char *name = command_full_name(command, buf);
	uint64_t strange = cli->args.given & ~(command->opts | OPT_COMMON);
	size_t n = 0;

	for (size_t i = 0; i < N_OPTS; i++) {
		const struct opt_spec *spec = &opt_specs[i];

		if (!(strange & OPT_BIT(i)))
			continue;
		/* The user may have typed the letter and meant another option, as ripgrep's -f. */
		if (spec->letter != 0)
			return output_usage(cli, "%s does not take -%c (%s)", name, spec->letter,
			    spec->name);
		return output_usage(cli, "%s does not take %s", name, spec->name);
	}
	while (cli->words[n] != NULL)
		n++;
	if (command->n_words != WORDS_ANY && n < command->n_words && command->synopsis[0] != '[')
		return output_usage(cli, "%s needs %s", name, command->synopsis);
	if (command->n_words != WORDS_ANY && n > command->n_words)
		return output_usage(cli,
		    "%s: unexpected argument '%s'; quote a name that has spaces", name,
		    cli->words[command->n_words]);
	return EXIT_DONE;
}

static int
run(struct cli *cli)
{
	char **words = cli->args.words;
	bool help = args_has(&cli->args, OPT_HELP);
	int status;

	if (args_has(&cli->args, OPT_VERSION))
		return show_version(cli);
	if (words[0] != NULL && strcmp(words[0], "help") == 0) {
		help = true;
		words++;
	}
	status = choose(cli, words);
	if (status != EXIT_DONE)
		return status;
	if (help)
		return show_help(cli);
	if (cli->command == NULL && cli->group != NULL)
		return output_usage(cli, "%s needs a command", cli->group);
	if (cli->command == NULL)
		return output_usage(cli, "no command given");
	status = check(cli);
	return status != EXIT_DONE ? status : run_of[cli->command - commands](cli);
}

int
main(int argc, char **argv)
{
	struct cli cli = { 0 };
	char why[ARGS_WHY_MAX];
	int status;

	output_init();
	if (args_parse(argc, argv, options_of_words, &cli.args, why) < 0)
		status = output_usage(&cli, "%s", why);
	else
		status = run(&cli);
	args_done(&cli.args);
	return status;
}
