/*
 * koda-sandbox: the library's first user. The table of commands, finding the row that the words
 * name, and the help, which is generated from the same rows.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/search_args.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

#define SEARCH_STATUS                                                                              \
	"\n\nStatus: 0 found something, 1 found nothing, 2 wrong usage, refused or failed."

/* clang-format off */
static const struct subcommand commands[] = {
	{ "fs", "read", "PATH", 1, OPT_BIT(OPT_OFFSET) | OPT_BIT(OPT_MAX) | OPT_BIT(OPT_DIGEST),
	    "copy a file to standard output",
	    "Prints the content byte for byte; --digest prints the digest on standard error. With --json the\n"
	    "content is a string of at most 64 MiB, in base64 if it is not UTF-8 text.",
	    NULL, cmd_read },
	{ "fs", "write", "PATH", 1, OPT_MUTATION | OPT_BIT(OPT_IF_ABSENT) | OPT_BIT(OPT_DIGEST),
	    "write standard input to a file",
	    "Creates or replaces the file and creates missing directories. A reader sees either the old content\n"
	    "or the new one.",
	    "read the file again before you replace it", cmd_write },
	{ "fs", "edit", "PATH --old TEXT --new TEXT [--all] ...", 1,
	    OPT_MUTATION | OPT_BIT(OPT_OLD) | OPT_BIT(OPT_NEW) | OPT_BIT(OPT_ALL) | OPT_BIT(OPT_DIGEST),
	    "replace text in a file",
	    "Replacements are applied in order, each to the result of the one before. All of them happen or none.",
	    "read the file again; use a longer --old for one occurrence, or --all for every one",
	    cmd_edit },
	{ "fs", "stat", "PATH", 1, OPT_BIT(OPT_DIGEST),
	    "show the type, size and times of a name", "A symbolic link is not followed.", NULL, cmd_stat },
	{ "fs", "list", "[PATH]", 1, 0,
	    "list a directory",
	    "Without PATH it lists the current directory. Names that the policy hides are counted, not listed.",
	    NULL, cmd_list },
	{ "fs", "glob", "PATTERN [PATH]...", WORDS_ANY, OPT_BIT(OPT_TIMEOUT),
	    "find files by name",
	    "Prints the files below PATH, or below the current directory, that match PATTERN: '*.c' at any depth,\n"
	    "'src/**' below src. Links are not followed. Hidden files and ignored files (.gitignore and the like) are\n"
	    "left out unless PATTERN itself names them, as with rg -g." SEARCH_STATUS,
	    NULL, cmd_glob },
	{ "fs", "grep", "REGEX [PATH]...", WORDS_ANY, OPT_BIT(OPT_TIMEOUT),
	    "find lines by content",
	    "Prints the matching lines below PATH, or below the current directory. The options are ripgrep's; the\n"
	    "manual lists the differences. Links are not followed. Hidden files, binary files and ignored files\n"
	    "(.gitignore and the like) are left out. --json prints one object per line, and a summary at the end."
	    SEARCH_STATUS,
	    NULL, cmd_grep },
	{ "fs", "tree", "[PATH]...", WORDS_ANY, OPT_BIT(OPT_TIMEOUT),
	    "list a directory and everything below it",
	    "Sizes are in bytes. A directory shows the total size and number of the files listed below it."
	    SEARCH_STATUS, NULL, cmd_tree },
	{ "fs", "mkdir", "PATH", 1, OPT_MUTATION | OPT_BIT(OPT_PARENTS),
	    "make a directory", "", "--parents accepts an existing directory", cmd_mkdir },
	{ "fs", "rm", "PATH", 1, OPT_MUTATION | OPT_BIT(OPT_RECURSIVE),
	    "remove a file, a link or a directory", "A symbolic link is removed, not its target.",
	    "read the file again before you remove it", cmd_rm },
	{ "fs", "mv", "FROM TO", 2, OPT_MUTATION | OPT_BIT(OPT_OVERWRITE),
	    "rename or move", "TO is the new name itself, even if it is an existing directory.",
	    "--overwrite replaces what is there", cmd_mv },
	{ "explain", "read", "PATH", 1, 0,
	    "show whether a path may be read, and why",
	    "Answers for file operations and for commands.\n\n"
	    "Status: 0 if file operations may do it, 3 if not, 1 failed, 2 wrong usage, 125 sandbox failed.", NULL,
	    cmd_explain_read },
	{ "explain", "write", "PATH", 1, 0,
	    "show whether a path may be changed, and why",
	    "Answers for file operations and for commands.\n\n"
	    "Status: 0 if file operations may do it, 3 if not, 1 failed, 2 wrong usage, 125 sandbox failed.", NULL,
	    cmd_explain_write },
	{ "explain", "net", "HOST[:PORT]", 1, 0,
	    "show whether a host may be reached, and why",
	    "The default port is 443. Nothing is looked up: the addresses of a name are checked when a command\n"
	    "connects.\n\n"
	    "Status: 0 if it may be reached, 3 if not or if the user is asked first, 1 failed, 2 wrong usage.", NULL,
	    cmd_explain_net },
	{ NULL, "run", "-c 'COMMAND LINE' | -- COMMAND [ARGUMENT]...", WORDS_ANY,
	    OPT_BIT(OPT_COMMAND) | OPT_BIT(OPT_TIMEOUT) | OPT_BIT(OPT_TTY) | OPT_BIT(OPT_NO_TTY) |
	    OPT_BIT(OPT_NO_SANDBOX) | OPT_BIT(OPT_DRAFT) | OPT_BIT(OPT_JUDGED) |
	    OPT_BIT(OPT_NO_DRAFT) | OPT_BIT(OPT_CLONE),
	    "run a command in the kernel sandbox",
	    "The command can change only what the policy allows. It reaches no process and no socket outside, and\n"
	    "only the hosts that the policy names. Input, output and signals pass through. If standard input and\n"
	    "output are a terminal, the command gets a terminal of its own. Refusals are printed after the command's\n"
	    "standard error.\n"
	    "With --json the output is captured, so --tty and --no-sandbox cannot be given.\n\n"
	    "With --draft its changes do not reach the project: on a terminal you see them when it ends, and\n"
	    "apply, select, keep or discard them. Without a terminal, or with --json, the draft is kept.\n"
	    "Where there can be no draft, it works in a clone of a project that is not too large; --clone makes one\n"
	    "in any case.\n"
	    "With --judged (auto mode) its changes are held back too, and when it ends those that the policy allows\n"
	    "are applied. Nothing else ever reaches the project: what is refused, or changed in the project too, stays\n"
	    "in the draft.\n"
	    "Safe mode works in a draft where that is possible, and asks on the terminal for each host that the\n"
	    "command connects to. With --no-draft the command changes the project itself; the user is asked before\n"
	    "it runs, unless it was typed at a terminal.\n\n"
	    "Status: the command's, 128 + n if signal n ended it, 124 if it ran out of time, 125 if the host failed,\n"
	    "126 if it could not be executed, 127 if it was not found, 88 if the sandbox could not be built, 3 if it\n"
	    "was not approved.",
	    NULL, cmd_run },
	{ NULL, "shell", "", 0,
	    OPT_BIT(OPT_TIMEOUT) | OPT_BIT(OPT_TTY) | OPT_BIT(OPT_NO_TTY) | OPT_BIT(OPT_NO_SANDBOX) |
	    OPT_BIT(OPT_DRAFT) | OPT_BIT(OPT_NO_DRAFT) | OPT_BIT(OPT_CLONE),
	    "open a shell in the kernel sandbox",
	    "The shell is $SHELL if /etc/shells lists it, otherwise /bin/sh. --json cannot be given. With --draft,\n"
	    "and in safe mode without --no-draft, you decide on its changes when it ends, as for run.\n\n"
	    "Status: as for run.",
	    NULL, cmd_shell },
	{ NULL, "drafts", "", 0, 0,
	    "list the drafts: changes of commands that did not reach the project",
	    "Prints the id, when it began and the root of each, oldest first; then the copies of the project, in\n"
	    "which agents work, with what decides on them.\n\n"
	    "Status: 0 done, 1 failed, 2 wrong usage.", NULL,
	    cmd_drafts },
	{ "draft", "diff", "ID [PATH]...", WORDS_ANY, 0,
	    "show the changes in a draft",
	    "Shows all changes, or those of the paths: files, directories with everything below them, or globs.\n"
	    "What the policy refuses and what conflicts with the project is marked. If a conflict merges cleanly,\n"
	    "the diff is that of the merge. With --json it prints one object per line, and a summary at the end.\n"
	    "ID may be shortened. A clone becomes a draft first.",
	    NULL, cmd_draft_diff },
	{ "draft", "apply", "ID [PATH]...", WORDS_ANY, OPT_BIT(OPT_DRY_RUN),
	    "apply a draft, or a part of it, to the project",
	    "Applies all changes, or those of the paths. What the policy refuses, and what changed in the project\n"
	    "too, is reported and stays in the draft, unless --take says what is to happen: 'merge' applies what\n"
	    "both changed in a text where they changed different lines. 'draft diff' shows whether that is so.\n"
	    "What it replaces is kept: 'undo' takes it back. With --json it prints one object per line, and a\n"
	    "summary at the end. ID may be shortened.\n\n"
	    "Status: 0 all was applied, 3 some of it was refused, 4 there were conflicts, 1 failed, 2 wrong usage,\n"
	    "125 sandbox failed.",
	    NULL, cmd_draft_apply },
	{ "draft", "discard", "ID [PATH]...", WORDS_ANY, 0,
	    "forget a draft, or a part of it",
	    "Forgets all changes, or those of the paths, for good; or a copy, with its branch. ID may be shortened.",
	    NULL, cmd_draft_discard },
	{ "draft", "run", "ID -c 'COMMAND LINE' | ID -- COMMAND [ARGUMENT]...", WORDS_ANY,
	    OPT_BIT(OPT_COMMAND) | OPT_BIT(OPT_TIMEOUT) | OPT_BIT(OPT_TTY) | OPT_BIT(OPT_NO_TTY),
	    "run a command in a draft that was kept",
	    "The command sees the project with the draft's changes, and adds its own. Then as for run --draft.\n\n"
	    "Status: as for run.",
	    NULL, cmd_draft_run },
	{ "draft", "shell", "ID", 1,
	    OPT_BIT(OPT_TIMEOUT) | OPT_BIT(OPT_TTY) | OPT_BIT(OPT_NO_TTY),
	    "open a shell in a draft that was kept", "As draft run.\n\nStatus: as for run.",
	    NULL, cmd_draft_shell },
	{ NULL, "history", "[ID]", 1, 0,
	    "list what was changed and can be taken back",
	    "Lists the applied drafts and the sessions with file operations, oldest first; or the changes of one\n"
	    "of them. ID may be shortened.", NULL,
	    cmd_history },
	{ NULL, "undo", "ID [PATH]... | --last [PATH]... | --since TIME [PATH]...", WORDS_ANY,
	    OPT_BIT(OPT_DRY_RUN),
	    "take changes back",
	    "Takes back the changes of an entry of the history, the last one first; or those of the paths. What\n"
	    "changed since is a conflict: it is reported and stays as it is. With --json it prints one object per\n"
	    "line, and a summary at the end.\n\n"
	    "Status: 0 all was taken back, 3 some of it was refused, 4 there were conflicts, 1 failed, 2 wrong\n"
	    "usage, 125 sandbox failed.",
	    NULL, cmd_undo },
	{ NULL, "redo", "ID [PATH]... | --last [PATH]...", WORDS_ANY, OPT_BIT(OPT_DRY_RUN),
	    "do again what undo took back", "As undo. --last is what was taken back last.\n\n"
	    "Status: as for undo.", NULL, cmd_redo },
	{ "quarantine", "list", "", 0, 0,
	    "list what commands planted and the sandbox took away",
	    "These are mostly git hooks and settings that a tool on the host would have run. Oldest first.\n\n"
	    "Status: 0 done, 1 failed, 2 wrong usage.", NULL,
	    cmd_quarantine_list },
	{ "quarantine", "show", "NAME", 1, 0,
	    "show what was taken away",
	    "Shows its type, where it was, when and why it was taken away, and up to 64 KiB of its content. A command\n"
	    "wrote this content: nothing in it is run or followed, and misleading characters are escaped.", NULL,
	    cmd_quarantine_show },
	{ "quarantine", "delete", "[NAME]...", WORDS_ANY, 0,
	    "permanently delete what was taken away",
	    "Deletes the named entries, or everything older than --older DAYS; --all includes every root.\n\n"
	    "Status: 0 done, 1 failed, 2 wrong usage, 3 in plan mode.", NULL,
	    cmd_quarantine_delete },
	{ "quarantine", "restore", "NAME", 1, 0,
	    "put back what was taken away", "NAME is the name in the list. Look at it first.", NULL,
	    cmd_quarantine_restore },
	{ "caches", "list", "", 0, 0,
	    "list what commands wrote to caches",
	    "What commands write to ~/.npm, ~/.cargo, ~/.cache and others is kept for the next session of the same\n"
	    "root, and never reaches the host's own caches.",
	    NULL, cmd_caches_list },
	{ "caches", "clear", "[ROOT]", 1, 0,
	    "remove what commands wrote to caches", "Removes those of ROOT, or of all roots. Caches that a session is using stay.",
	    NULL, cmd_caches_clear },
	{ NULL, "top", "", 0, OPT_BIT(OPT_ONCE) | OPT_BIT(OPT_INTERVAL),
	    "show what the user's MCP servers are doing",
	    "Shows sessions, workers, commands, connections, and how long calls take; 'q' ends it. With --json, or\n"
	    "if standard output is not a terminal, it prints once.",
	    NULL, cmd_top },
	{ "audit", "verify", "FILE", 1, OPT_BIT(OPT_HEAD),
	    "check whether an audit log was changed",
	    "Finds and names any line that was changed, removed, inserted or moved. Lines missing at the end are\n"
	    "found only with --head, the value that the server prints when it ends.\n\n"
	    "Status: 0 if the log is as it was written, 1 if not, 2 wrong usage.",
	    NULL, cmd_audit_verify },
	{ NULL, "policy", "", 0, 0,
	    "print the mode's policy for the project",
	    "Then prints the arguments that the commands' sandbox is built with, each with its reason.", NULL,
	    cmd_policy },
	{ NULL, "mcp", "", 0, OPT_BIT(OPT_AUDIT) | OPT_BIT(OPT_CHILD) | OPT_BIT(OPT_DRAFT) |
	    OPT_BIT(OPT_JUDGED),
	    "serve tools to an agent: a Model Context Protocol server",
	    "Serves on standard input and output until the input ends; messages for the user go to standard error.\n"
	    "The agent gets tools for files and commands that do what the mode allows below the root, and nothing\n"
	    "else. In safe mode the user is asked before each change, through the agent's program. Turn that\n"
	    "program's own file and command tools off: they are not sandboxed.\n\n"
	    "  claude mcp add koda -- koda-sandbox mcp --root . --mode safe\n\n"
	    "With --draft the session and its children work in drafts: nothing reaches the project until the agent\n"
	    "calls draft_apply, or the user runs 'koda-sandbox draft apply'. At the end a draft with changes is\n"
	    "kept, and its id is printed.\n"
	    "With --judged (auto mode) each command in the foreground works in a draft of its own, and when it ends\n"
	    "what the policy allows is applied. It costs a command more time.\n\n"
	    "With --child it serves a session that another agent's open_child made; mode, root and log are that\n"
	    "session's.\n\n"
	    "Status: 0 ended by the client or a signal, 1 no such root or token, 2 wrong usage, or the log cannot be at\n"
	    "that place, 3 the token is no longer valid, 88 the sandbox could not be built, 125 the host failed.",
	    NULL, cmd_mcp },
	{ NULL, "doctor", "", 0, 0,
	    "show what this machine can enforce",
	    "\nStatus: 0 if auto mode has everything it needs, otherwise 1.", NULL, cmd_doctor },
};
/* clang-format on */

static const char status_help[] = "Status: 0 done, 1 failed, 2 wrong usage, 3 refused or not "
				  "approved, 4 conflict, 125 sandbox failed.\n";

/* The commands with options of their own. */
static const struct {
	int (*run)(const struct cli *cli);
	const struct opt_table *options;
} own[] = {
	{ cmd_glob, &search_glob_options },
	{ cmd_grep, &search_grep_options },
	{ cmd_tree, &search_tree_options },
	{ cmd_quarantine_list, &quarantine_list_options },
	{ cmd_quarantine_delete, &quarantine_delete_options },
	{ cmd_drafts, &drafts_options },
	{ cmd_draft_diff, &draft_diff_options },
	{ cmd_draft_apply, &draft_apply_options },
	{ cmd_history, &history_options },
	{ cmd_undo, &undo_options },
	{ cmd_redo, &redo_options },
};

static const struct opt_table *
own_options(const struct subcommand *command)
{
	for (size_t i = 0; i < N(own); i++) {
		if (command->run == own[i].run)
			return own[i].options;
	}
	return NULL;
}

/* Does the command's own help state its exit status, because it is not the usual one? */
static bool
has_own_status(const struct subcommand *command)
{
	return strstr(command->help, "\nStatus: ") != NULL;
}

static bool
same_group(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool
is_group(const char *word)
{
	for (size_t i = 0; i < N(commands); i++) {
		if (commands[i].group != NULL && strcmp(commands[i].group, word) == 0)
			return true;
	}
	return false;
}

static const struct subcommand *
find(const char *group, const char *name)
{
	for (size_t i = 0; i < N(commands); i++) {
		if (same_group(commands[i].group, group) && strcmp(commands[i].name, name) == 0)
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
	return command != NULL ? own_options(command) : NULL;
}

static int
unknown_command(const struct cli *cli, const char *group, const char *word)
{
	const char *names[N(commands) + 7], *near;
	size_t n = 0;

	for (size_t i = 0; i < N(commands); i++) {
		if (same_group(commands[i].group, group))
			names[n++] = commands[i].name;
	}
	if (group == NULL) {
		names[n++] = "fs";
		names[n++] = "explain";
		names[n++] = "draft";
		names[n++] = "quarantine";
		names[n++] = "caches";
		names[n++] = "audit";
		names[n++] = "help";
	}
	near = args_closest(word, names, n);
	if (near != NULL)
		return output_usage(cli, "unknown command '%s%s%s', did you mean '%s'?",
		    group != NULL ? group : "", group != NULL ? " " : "", word, near);
	/* 'koda-sandbox read x': the name is right, the group is missing. */
	for (size_t i = 0; group == NULL && i < N(commands); i++) {
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

#define FULL_NAME_MAX 40

static const char *
full_name(const struct subcommand *command, char buf[FULL_NAME_MAX])
{
	snprintf(buf, FULL_NAME_MAX, "%s%s%s", command->group != NULL ? command->group : "",
	    command->group != NULL ? " " : "", command->name);
	return buf;
}

/*
 * Widths of the column of names: the usual one, and the one for commands with a table of their own.
 */
#define OPTIONS_WIDTH     22
#define OPTIONS_WIDTH_OWN 27

static void
print_option(FILE *f, const struct opt_spec *spec, bool letter, int width)
{
	char left[48];

	snprintf(left, sizeof(left), "%c%c%s %s%s%s", letter ? '-' : ' ',
	    letter ? spec->letter : ' ', letter ? "," : " ", spec->name,
	    spec->value != NULL ? " " : "", spec->value != NULL ? spec->value : "");
	fprintf(f, "  %-*s %s\n", width, left, spec->help);
}

static bool
takes_letter(const struct opt_table *table, char letter)
{
	for (size_t i = 0; table != NULL && i < table->n; i++) {
		if ((table->allowed >> i & 1) != 0 && table->specs[i].letter == letter)
			return true;
	}
	return false;
}

/* Prints the general options, without the letters that the command uses for options of its own. */
static void
print_options(FILE *f, uint64_t opts, const struct opt_table *table, int width)
{
	for (size_t i = 0; i < N_OPTS; i++) {
		const struct opt_spec *spec = &opt_specs[i];

		if (opts & OPT_BIT(i))
			print_option(f, spec,
			    spec->letter != 0 && !takes_letter(table, spec->letter), width);
	}
}

static void
print_own_options(FILE *f, const struct opt_table *table, int width)
{
	for (size_t i = 0; table != NULL && i < table->n; i++) {
		if (table->allowed >> i & 1)
			print_option(f, &table->specs[i], table->specs[i].letter != 0, width);
	}
}

static void
print_command_help(FILE *f, const struct subcommand *command)
{
	char name[FULL_NAME_MAX];
	bool options_first = command->n_words == WORDS_ANY;
	const struct opt_table *table = own_options(command);
	int width = table != NULL ? OPTIONS_WIDTH_OWN : OPTIONS_WIDTH;

	fprintf(f, "usage: koda-sandbox %s%s%s%s%s\n\n%c%s.\n", full_name(command, name),
	    options_first ? " [OPTION]..." : "", command->synopsis[0] != '\0' ? " " : "",
	    command->synopsis, options_first ? "" : " [OPTION]...",
	    toupper((unsigned char)command->brief[0]), command->brief + 1);
	if (command->help[0] != '\0')
		fprintf(f, "%s\n", command->help);
	fputs("\n", f);
	print_own_options(f, table, width);
	print_options(f, command->opts, table, width);
	print_options(f, OPT_COMMON, table, width);
	fprintf(f, "      %-*s %s\n", width - 4, "--", "end of options");
	if (!has_own_status(command))
		fprintf(f, "\n%s", status_help);
}

/* group NULL: prints all commands. */
static void
print_overview(FILE *f, const char *group)
{
	fprintf(f, "usage: koda-sandbox %s COMMAND ... [OPTION]...\n\n",
	    group != NULL ? group : "[fs|explain|draft|quarantine|caches|audit]");
	for (size_t i = 0; i < N(commands); i++) {
		char name[FULL_NAME_MAX];

		if (group != NULL && !same_group(commands[i].group, group))
			continue;
		fprintf(f, "  %-22s %s\n", full_name(&commands[i], name), commands[i].brief);
	}
	if (group == NULL)
		fprintf(f, "  %-22s %s\n", "help COMMAND", "explain a command");
	fputs("\n", f);
	print_options(f, OPT_COMMON, NULL, OPTIONS_WIDTH);
	fprintf(f, "\n%s", status_help);
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
		print_command_help(f, cli->command);
	else
		print_overview(f, cli->group);
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
	char buf[FULL_NAME_MAX];
	const char *name = full_name(command, buf);
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
	return status != EXIT_DONE ? status : cli->command->run(cli);
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
