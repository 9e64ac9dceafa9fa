/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table of commands. Everything that is said of a command follows from its row. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/own_options.h"
#include "cli/search_args.h"

#define SEARCH_STATUS                                                                              \
	"\n\nStatus: 0 found something, 1 found nothing, 2 wrong usage, refused or failed."

/* clang-format off */
const struct subcommand commands[N_COMMANDS] = {
	[COMMAND_READ] = { "fs", "read", "PATH", 1, OPT_BIT(OPT_OFFSET) | OPT_BIT(OPT_MAX) | OPT_BIT(OPT_DIGEST),
	    "copy a file to standard output",
	    "Prints the content byte for byte; --digest prints the digest on standard error. With --json the\n"
	    "content is a string of at most 64 MiB, in base64 if it is not UTF-8 text.",
	    NULL, NULL },
	[COMMAND_WRITE] = { "fs", "write", "PATH", 1, OPT_MUTATION | OPT_BIT(OPT_IF_ABSENT) | OPT_BIT(OPT_DIGEST),
	    "write standard input to a file",
	    "Creates or replaces the file and creates missing directories. A reader sees either the old content\n"
	    "or the new one.",
	    "read the file again before you replace it", NULL },
	[COMMAND_EDIT] = { "fs", "edit", "PATH --old TEXT --new TEXT [--all] ...", 1,
	    OPT_MUTATION | OPT_BIT(OPT_OLD) | OPT_BIT(OPT_NEW) | OPT_BIT(OPT_ALL) | OPT_BIT(OPT_DIGEST),
	    "replace text in a file",
	    "Replacements are applied in order, each to the result of the one before. All of them happen or none.",
	    "read the file again; use a longer --old for one occurrence, or --all for every one",
	    NULL },
	[COMMAND_STAT] = { "fs", "stat", "PATH", 1, OPT_BIT(OPT_DIGEST),
	    "show the type, size and times of a name", "A symbolic link is not followed.", NULL, NULL },
	[COMMAND_LIST] = { "fs", "list", "[PATH]", 1, 0,
	    "list a directory",
	    "Without PATH it lists the current directory. Names that the policy hides are counted, not listed.",
	    NULL, NULL },
	[COMMAND_GLOB] = { "fs", "glob", "PATTERN [PATH]...", WORDS_ANY, OPT_BIT(OPT_TIMEOUT),
	    "find files by name",
	    "Prints the files below PATH, or below the current directory, that match PATTERN: '*.c' at any depth,\n"
	    "'src/**' below src. Links are not followed. Hidden files and ignored files (.gitignore and the like) are\n"
	    "left out unless PATTERN itself names them, as with rg -g." SEARCH_STATUS,
	    NULL, &search_glob_options },
	[COMMAND_GREP] = { "fs", "grep", "REGEX [PATH]...", WORDS_ANY, OPT_BIT(OPT_TIMEOUT),
	    "find lines by content",
	    "Prints the matching lines below PATH, or below the current directory. The options are ripgrep's; the\n"
	    "manual lists the differences. Links are not followed. Hidden files, binary files and ignored files\n"
	    "(.gitignore and the like) are left out. --json prints one object per line, and a summary at the end."
	    SEARCH_STATUS,
	    NULL, &search_grep_options },
	[COMMAND_TREE] = { "fs", "tree", "[PATH]...", WORDS_ANY, OPT_BIT(OPT_TIMEOUT),
	    "list a directory and everything below it",
	    "Sizes are in bytes. A directory shows the total size and number of the files listed below it."
	    SEARCH_STATUS, NULL, &search_tree_options },
	[COMMAND_MKDIR] = { "fs", "mkdir", "PATH", 1, OPT_MUTATION | OPT_BIT(OPT_PARENTS),
	    "make a directory", "", "--parents accepts an existing directory", NULL },
	[COMMAND_RM] = { "fs", "rm", "PATH", 1, OPT_MUTATION | OPT_BIT(OPT_RECURSIVE),
	    "remove a file, a link or a directory", "A symbolic link is removed, not its target.",
	    "read the file again before you remove it", NULL },
	[COMMAND_MV] = { "fs", "mv", "FROM TO", 2, OPT_MUTATION | OPT_BIT(OPT_OVERWRITE),
	    "rename or move", "TO is the new name itself, even if it is an existing directory.",
	    "--overwrite replaces what is there", NULL },
	[COMMAND_EXPLAIN_READ] = { "explain", "read", "PATH", 1, 0,
	    "show whether a path may be read, and why",
	    "Answers for file operations and for commands.\n\n"
	    "Status: 0 if file operations may do it, 3 if not, 1 failed, 2 wrong usage, 125 sandbox failed.", NULL,
	    NULL },
	[COMMAND_EXPLAIN_WRITE] = { "explain", "write", "PATH", 1, 0,
	    "show whether a path may be changed, and why",
	    "Answers for file operations and for commands.\n\n"
	    "Status: 0 if file operations may do it, 3 if not, 1 failed, 2 wrong usage, 125 sandbox failed.", NULL,
	    NULL },
	[COMMAND_EXPLAIN_NET] = { "explain", "net", "HOST[:PORT]", 1, 0,
	    "show whether a host may be reached, and why",
	    "The default port is 443. Nothing is looked up: the addresses of a name are checked when a command\n"
	    "connects.\n\n"
	    "Status: 0 if it may be reached, 3 if not or if the user is asked first, 1 failed, 2 wrong usage.", NULL,
	    NULL },
	[COMMAND_RUN] = { NULL, "run", "-c 'COMMAND LINE' | -- COMMAND [ARGUMENT]...", WORDS_ANY,
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
	    NULL, NULL },
	[COMMAND_SHELL] = { NULL, "shell", "", 0,
	    OPT_BIT(OPT_TIMEOUT) | OPT_BIT(OPT_TTY) | OPT_BIT(OPT_NO_TTY) | OPT_BIT(OPT_NO_SANDBOX) |
	    OPT_BIT(OPT_DRAFT) | OPT_BIT(OPT_NO_DRAFT) | OPT_BIT(OPT_CLONE),
	    "open a shell in the kernel sandbox",
	    "The shell is $SHELL if /etc/shells lists it, otherwise /bin/sh. --json cannot be given. With --draft,\n"
	    "and in safe mode without --no-draft, you decide on its changes when it ends, as for run.\n\n"
	    "Status: as for run.",
	    NULL, NULL },
	[COMMAND_DRAFTS] = { NULL, "drafts", "", 0, 0,
	    "list the drafts: changes of commands that did not reach the project",
	    "Prints the id, when it began and the root of each, oldest first; then the copies of the project, in\n"
	    "which agents work, with what decides on them.\n\n"
	    "Status: 0 done, 1 failed, 2 wrong usage.", NULL,
	    &drafts_options },
	[COMMAND_DRAFT_DIFF] = { "draft", "diff", "ID [PATH]...", WORDS_ANY, 0,
	    "show the changes in a draft",
	    "Shows all changes, or those of the paths: files, directories with everything below them, or globs.\n"
	    "What the policy refuses and what conflicts with the project is marked. If a conflict merges cleanly,\n"
	    "the diff is that of the merge. With --json it prints one object per line, and a summary at the end.\n"
	    "ID may be shortened. A clone becomes a draft first.",
	    NULL, &draft_diff_options },
	[COMMAND_DRAFT_APPLY] = { "draft", "apply", "ID [PATH]...", WORDS_ANY, OPT_BIT(OPT_DRY_RUN),
	    "apply a draft, or a part of it, to the project",
	    "Applies all changes, or those of the paths. What the policy refuses, and what changed in the project\n"
	    "too, is reported and stays in the draft, unless --take says what is to happen: 'merge' applies what\n"
	    "both changed in a text where they changed different lines. 'draft diff' shows whether that is so.\n"
	    "What it replaces is kept: 'undo' takes it back. With --json it prints one object per line, and a\n"
	    "summary at the end. ID may be shortened.\n\n"
	    "Status: 0 all was applied, 3 some of it was refused, 4 there were conflicts, 1 failed, 2 wrong usage,\n"
	    "125 sandbox failed.",
	    NULL, &draft_apply_options },
	[COMMAND_DRAFT_DISCARD] = { "draft", "discard", "ID [PATH]...", WORDS_ANY, 0,
	    "forget a draft, or a part of it",
	    "Forgets all changes, or those of the paths, for good; or a copy, with its branch. ID may be shortened.",
	    NULL, NULL },
	[COMMAND_DRAFT_RUN] = { "draft", "run", "ID -c 'COMMAND LINE' | ID -- COMMAND [ARGUMENT]...", WORDS_ANY,
	    OPT_BIT(OPT_COMMAND) | OPT_BIT(OPT_TIMEOUT) | OPT_BIT(OPT_TTY) | OPT_BIT(OPT_NO_TTY),
	    "run a command in a draft that was kept",
	    "The command sees the project with the draft's changes, and adds its own. Then as for run --draft.\n\n"
	    "Status: as for run.",
	    NULL, NULL },
	[COMMAND_DRAFT_SHELL] = { "draft", "shell", "ID", 1,
	    OPT_BIT(OPT_TIMEOUT) | OPT_BIT(OPT_TTY) | OPT_BIT(OPT_NO_TTY),
	    "open a shell in a draft that was kept", "As draft run.\n\nStatus: as for run.",
	    NULL, NULL },
	[COMMAND_HISTORY] = { NULL, "history", "[ID]", 1, 0,
	    "list what was changed and can be taken back",
	    "Lists the applied drafts and the sessions with file operations, oldest first; or the changes of one\n"
	    "of them. ID may be shortened.", NULL,
	    &history_options },
	[COMMAND_UNDO] = { NULL, "undo", "ID [PATH]... | --last [PATH]... | --since TIME [PATH]...", WORDS_ANY,
	    OPT_BIT(OPT_DRY_RUN),
	    "take changes back",
	    "Takes back the changes of an entry of the history, the last one first; or those of the paths. What\n"
	    "changed since is a conflict: it is reported and stays as it is. With --json it prints one object per\n"
	    "line, and a summary at the end.\n\n"
	    "Status: 0 all was taken back, 3 some of it was refused, 4 there were conflicts, 1 failed, 2 wrong\n"
	    "usage, 125 sandbox failed.",
	    NULL, &undo_options },
	[COMMAND_REDO] = { NULL, "redo", "ID [PATH]... | --last [PATH]...", WORDS_ANY, OPT_BIT(OPT_DRY_RUN),
	    "do again what undo took back", "As undo. --last is what was taken back last.\n\n"
	    "Status: as for undo.", NULL, &redo_options },
	[COMMAND_QUARANTINE_LIST] = { "quarantine", "list", "", 0, 0,
	    "list what commands planted and the sandbox took away",
	    "These are mostly git hooks and settings that a tool on the host would have run. Oldest first.\n\n"
	    "Status: 0 done, 1 failed, 2 wrong usage.", NULL,
	    &quarantine_list_options },
	[COMMAND_QUARANTINE_SHOW] = { "quarantine", "show", "NAME", 1, 0,
	    "show what was taken away",
	    "Shows its type, where it was, when and why it was taken away, and up to 64 KiB of its content. A command\n"
	    "wrote this content: nothing in it is run or followed, and misleading characters are escaped.", NULL,
	    NULL },
	[COMMAND_QUARANTINE_DELETE] = { "quarantine", "delete", "[NAME]...", WORDS_ANY, 0,
	    "permanently delete what was taken away",
	    "Deletes the named entries, or everything older than --older DAYS; --all includes every root.\n\n"
	    "Status: 0 done, 1 failed, 2 wrong usage, 3 in plan mode.", NULL,
	    &quarantine_delete_options },
	[COMMAND_QUARANTINE_RESTORE] = { "quarantine", "restore", "NAME", 1, 0,
	    "put back what was taken away", "NAME is the name in the list. Look at it first.", NULL,
	    NULL },
	[COMMAND_CACHES_LIST] = { "caches", "list", "", 0, 0,
	    "list what commands wrote to caches",
	    "What commands write to ~/.npm, ~/.cargo, ~/.cache and others is kept for the next session of the same\n"
	    "root, and never reaches the host's own caches.",
	    NULL, NULL },
	[COMMAND_CACHES_CLEAR] = { "caches", "clear", "[ROOT]", 1, 0,
	    "remove what commands wrote to caches", "Removes those of ROOT, or of all roots. Caches that a session is using stay.",
	    NULL, NULL },
	[COMMAND_TOP] = { NULL, "top", "", 0, OPT_BIT(OPT_ONCE) | OPT_BIT(OPT_INTERVAL),
	    "show what the user's MCP servers are doing",
	    "Shows sessions, workers, commands, connections, and how long calls take; 'q' ends it. With --json, or\n"
	    "if standard output is not a terminal, it prints once.",
	    NULL, NULL },
	[COMMAND_AUDIT_VERIFY] = { "audit", "verify", "FILE", 1, OPT_BIT(OPT_HEAD),
	    "check whether an audit log was changed",
	    "Finds and names any line that was changed, removed, inserted or moved. Lines missing at the end are\n"
	    "found only with --head, the value that the server prints when it ends.\n\n"
	    "Status: 0 if the log is as it was written, 1 if not, 2 wrong usage.",
	    NULL, NULL },
	[COMMAND_POLICY] = { NULL, "policy", "", 0, 0,
	    "print the mode's policy for the project",
	    "Then prints the arguments that the commands' sandbox is built with, each with its reason.", NULL,
	    NULL },
	[COMMAND_MCP] = { NULL, "mcp", "", 0, OPT_BIT(OPT_AUDIT) | OPT_BIT(OPT_CHILD) | OPT_BIT(OPT_DRAFT) |
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
	    NULL, NULL },
	[COMMAND_DOCTOR] = { NULL, "doctor", "", 0, 0,
	    "show what this machine can enforce",
	    "\nStatus: 0 if auto mode has everything it needs, otherwise 1.", NULL, NULL },
	[COMMAND_COMPLETION] = { NULL, "completion", "bash|zsh|fish", 1, 0,
	    "print what makes a shell complete koda-sandbox's words",
	    "'make install' and packages put it where the shells look. Without them:\n\n"
	    "  koda-sandbox completion bash >~/.local/share/bash-completion/completions/koda-sandbox\n"
	    "  koda-sandbox completion zsh >DIRECTORY/_koda-sandbox, with DIRECTORY in the shell's fpath\n"
	    "  koda-sandbox completion fish >~/.config/fish/completions/koda-sandbox.fish", NULL, NULL },
};
/* clang-format on */

const char command_usual_status[] = "Status: 0 done, 1 failed, 2 wrong usage, 3 refused or not "
				    "approved, 4 conflict, 125 sandbox failed.\n";

const char *
command_full_name(const struct subcommand *command, char buf[COMMAND_NAME_MAX])
{
	snprintf(buf, COMMAND_NAME_MAX, "%s%s%s", command->group != NULL ? command->group : "",
	    command->group != NULL ? " " : "", command->name);
	return buf;
}

bool
command_same_group(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

const char *
command_own_status(const struct subcommand *command)
{
	const char *status = strstr(command->help, "\nStatus: ");

	return status != NULL ? status + 1 : NULL;
}

bool
command_takes_letter(const struct opt_table *table, char letter)
{
	for (size_t i = 0; table != NULL && i < table->n; i++) {
		if ((table->allowed >> i & 1) != 0 && table->specs[i].letter == letter)
			return true;
	}
	return false;
}

bool
command_group_begins(const struct subcommand *command)
{
	if (command->group == NULL)
		return false;
	for (const struct subcommand *c = commands; c < command; c++) {
		if (command_same_group(c->group, command->group))
			return false;
	}
	return true;
}
