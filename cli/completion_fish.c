/* SPDX-License-Identifier: Apache-2.0 */
/* A line `complete` for each word and option, under the condition that its command stands there. */
#include "cli/completion.h"
#include "cli/completion_shells.h"

#include <string.h>

static const char walk[] =
    "# The first word of each line that koda-sandbox prints.\n"
    "function __koda_sandbox_first\n"
    "\tkoda-sandbox $argv </dev/null 2>/dev/null | string replace -r '[: ].*' ''\n"
    "end\n"
    "\n"
    "# Succeeds if the words before the cursor name COMMAND; with N, if N words follow it, or, with\n"
    "# 'N+', at least N.\n"
    "function __koda_sandbox_at # COMMAND [N]\n"
    "\tset -l words (commandline -opc)[2..-1]\n"
    "\tset -l command\n"
    "\tset -l n 0\n"
    "\tset -l valued (__koda_sandbox_valued '')\n"
    "\tset -l skip 0\n"
    "\tset -l ended 0\n"
    "\tfor word in $words\n"
    "\t\tif test $skip = 1\n"
    "\t\t\tset skip 0\n"
    "\t\telse if test $ended = 0; and test \"$word\" = --\n"
    "\t\t\tset ended 1\n"
    "\t\telse if test $ended = 0; and string match -q -- '-?*' \"$word\"\n"
    "\t\t\tcontains -- \"$word\" $valued; and set skip 1\n"
    "\t\telse if __koda_sandbox_is_command \"$command\"\n"
    "\t\t\tset n (math $n + 1)\n"
    "\t\telse if test -n \"$command\"; or test \"$word\" != help\n"
    "\t\t\tset command (string trim -- \"$command $word\")\n"
    "\t\t\tset valued (__koda_sandbox_valued \"$command\")\n"
    "\t\tend\n"
    "\tend\n"
    "\ttest \"$command\" = \"$argv[1]\"; or return 1\n"
    "\tset -q argv[2]; or return 0\n"
    "\tif string match -q '*+' $argv[2]\n"
    "\t\ttest $n -ge (string trim -c + $argv[2])\n"
    "\telse\n"
    "\t\ttest $n -eq $argv[2]\n"
    "\tend\n"
    "end\n"
    "\n"
    "complete -c koda-sandbox -f\n";

static void
write_quoted(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text != '\0'; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', f);
		fputc(*text, f);
	}
	fputc('\'', f);
}

/* The arguments of `complete` for a kind. */
static void
write_kind(FILE *f, const char *kind)
{
	static const struct {
		const char *kind, *how;
	} hows[] = {
		{ "files", " -F" },
		{ "dirs", " -a '(__fish_complete_directories)'" },
		{ "nothing", "" },
		{ "command", " -a '(__fish_complete_command)'" },
		{ "drafts", " -a '(__koda_sandbox_first drafts)'" },
		{ "history", " -a '(__koda_sandbox_first history)'" },
		{ "quarantine", " -a '(__koda_sandbox_first quarantine list)'" },
		{ "types", " -a '(__koda_sandbox_first fs grep --type-list)'" },
	};

	for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
		if (strcmp(hows[i].kind, kind) == 0) {
			fputs(hows[i].how, f);
			return;
		}
	}
	fputs(" -a '", f);
	for (; *kind != '\0'; kind++)
		fputc(*kind == '|' ? ' ' : *kind, f);
	fputc('\'', f);
}

struct fish_option {
	FILE *f;
	const struct subcommand *command;
	const char *name;
};

static void
write_option(void *data, const struct opt_spec *spec, char letter)
{
	const struct fish_option *to = data;
	const char *kind;

	fprintf(to->f, "complete -c koda-sandbox -n '__koda_sandbox_at \"%s\"' -l %s", to->name,
	    spec->name + 2);
	if (letter != 0)
		fprintf(to->f, " -s %c", letter);
	if (spec->value != NULL) {
		kind = completion_kind(spec->value, to->command);
		fputs(strcmp(kind, "files") == 0 ? " -r" : " -x", to->f);
		write_kind(to->f, kind);
	}
	fputs(" -d ", to->f);
	write_quoted(to->f, spec->help);
	fputc('\n', to->f);
}

static void
write_valued(void *data, const struct opt_spec *spec, char letter)
{
	FILE *f = data;

	if (spec->value == NULL)
		return;
	fprintf(f, " %s", spec->name);
	if (letter != 0)
		fprintf(f, " -%c", letter);
}

static const struct subcommand no_command = { 0 };

/* The tables that __koda_sandbox_at walks by. */
static void
write_tables(FILE *f)
{
	char name[COMMAND_NAME_MAX];

	fputs("# The options of a command that take a value.\n"
	      "function __koda_sandbox_valued # COMMAND\n\tswitch \"$argv[1]\"\n",
	    f);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		fprintf(f, "\tcase '%s'\n\t\tstring split ' ' --",
		    command_full_name(&commands[i], name));
		completion_options(&commands[i], write_valued, f);
		fputc('\n', f);
	}
	fputs("\tcase '*'\n\t\tstring split ' ' --", f);
	completion_options(&no_command, write_valued, f);
	fputs(
	    "\n\tend\nend\n\nfunction __koda_sandbox_is_command # WORDS\n\tcontains -- \"$argv[1]\"",
	    f);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(f, " '%s'", command_full_name(&commands[i], name));
	fputs("\nend\n\n", f);
}

static void
write_name(FILE *f, const char *at, const char *name, const char *help)
{
	fprintf(f, "complete -c koda-sandbox -n '__koda_sandbox_at \"%s\"' -a %s -d ", at, name);
	write_quoted(f, help);
	fputc('\n', f);
}

static void
write_group(FILE *f, const char *group)
{
	const char *at = group != NULL ? group : "";
	struct fish_option to = { .f = f, .command = &no_command, .name = at };

	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (command_same_group(commands[i].group, group))
			write_name(f, at, commands[i].name, commands[i].brief);
		else if (group == NULL && command_group_begins(&commands[i]))
			write_name(f, at, commands[i].group, "a group of commands");
	}
	if (group == NULL)
		write_name(f, at, "help", "explain a command");
	completion_options(&no_command, write_option, &to);
}

static void
write_command(FILE *f, const struct subcommand *command)
{
	char name[COMMAND_NAME_MAX], unknown[32];
	struct fish_option to = { .f = f, .command = command };
	struct completion_words words;

	to.name = command_full_name(command, name);
	if (completion_words(command, &words, unknown) < 0)
		return;
	for (size_t i = 0; i < words.n; i++) {
		fprintf(f, "complete -c koda-sandbox -n '__koda_sandbox_at \"%s\" %zu%s'", name, i,
		    words.repeats && i + 1 == words.n ? "+" : "");
		write_kind(f, words.words[i].kind);
		fputc('\n', f);
	}
	completion_options(command, write_option, &to);
}

void
completion_fish(FILE *f)
{
	fputs("# fish completion for koda-sandbox, generated from the table of its commands.\n\n",
	    f);
	write_tables(f);
	fputs(walk, f);
	write_group(f, NULL);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (command_group_begins(&commands[i]))
			write_group(f, commands[i].group);
		write_command(f, &commands[i]);
	}
}
