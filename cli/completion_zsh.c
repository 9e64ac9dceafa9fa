/* SPDX-License-Identifier: Apache-2.0 */
/* A function for each command, which calls _arguments. */
#include "cli/completion.h"
#include "cli/completion_shells.h"

#include <string.h>

/* Prints text for a place within '...' where _arguments gives brackets and colons a meaning. */
static void
write_escaped(FILE *f, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			fputs("'\\'", f);
		else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
			fputc('\\', f);
		fputc(*text, f);
	}
}

/* What completes a kind, as an action of _arguments. */
static void
write_action(FILE *f, const char *kind)
{
	static const struct {
		const char *kind, *action;
	} actions[] = {
		{ "files", "_files" },
		{ "dirs", "_files -/" },
		{ "nothing", " " },
		{ "drafts", "{_koda_sandbox_first drafts}" },
		{ "history", "{_koda_sandbox_first history}" },
		{ "quarantine", "{_koda_sandbox_first quarantine list}" },
		{ "types", "{_koda_sandbox_first fs grep --type-list}" },
	};

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(actions[i].kind, kind) == 0) {
			fputs(actions[i].action, f);
			return;
		}
	}
	fputc('(', f);
	for (; *kind != '\0'; kind++)
		fputc(*kind == '|' ? ' ' : *kind, f);
	fputc(')', f);
}

struct zsh_option {
	FILE *f;
	const struct subcommand *command;
};

static void
write_spec(const struct zsh_option *to, const struct opt_spec *spec, const char *name,
    const char *ending)
{
	/* An option with a value may be repeated, and an error says where it may not. */
	fprintf(to->f, " \\\n\t    '%s%s%s[", spec->value != NULL ? "*" : "", name,
	    spec->value != NULL ? ending : "");
	write_escaped(to->f, spec->help);
	fputc(']', to->f);
	if (spec->value != NULL) {
		fprintf(to->f, ":%s:", spec->value);
		write_action(to->f, completion_kind(spec->value, to->command));
	}
	fputc('\'', to->f);
}

static void
write_option(void *data, const struct opt_spec *spec, char letter)
{
	const char name[] = { '-', letter, '\0' };

	write_spec(data, spec, spec->name, "=");
	if (letter != 0)
		write_spec(data, spec, name, "+");
}

static void
write_options(FILE *f, const struct subcommand *command)
{
	struct zsh_option to = { .f = f, .command = command };

	completion_options(command, write_option, &to);
}

/* "_fs_read" */
static void
write_function_name(FILE *f, const struct subcommand *command)
{
	fprintf(f, "_koda_sandbox_%s%s%s", command->group != NULL ? command->group : "",
	    command->group != NULL ? "_" : "", command->name);
}

static void
write_words(FILE *f, const struct completion_words *words)
{
	for (size_t i = 0; i < words->n; i++) {
		const struct completion_word *word = &words->words[i];
		const bool last = i + 1 == words->n;

		if (strcmp(word->kind, "command") == 0) {
			fprintf(f, " \\\n\t    '(-)%zu:%s:_command_names -e' '*::ARGUMENT:_normal'",
			    i + 1, word->name);
			return;
		}
		if (last && words->repeats)
			fprintf(f, " \\\n\t    '*:%s:", word->name);
		else
			fprintf(f, " \\\n\t    '%zu:%s:", i + 1,
			    strchr(word->name, '|') == NULL ? word->name : "word");
		write_action(f, word->kind);
		fputc('\'', f);
	}
}

static void
write_command(FILE *f, const struct subcommand *command)
{
	struct completion_words words;
	char unknown[32];

	if (completion_words(command, &words, unknown) < 0)
		return;
	write_function_name(f, command);
	fputs("() {\n\t_arguments -s -S", f);
	write_options(f, command);
	write_words(f, &words);
	fputs("\n}\n\n", f);
}

static void
write_named(FILE *f, const char *name, const char *help)
{
	fprintf(f, "\t    '%s:", name);
	write_escaped(f, help);
	fputs("'\n", f);
}

/* The functions for the words up to the command: `function` shows the names and calls one of them. */
static void
write_group(FILE *f, const char *group)
{
	static const struct subcommand none = { 0 };
	const char *dash = group != NULL ? "_" : "", *name = group != NULL ? group : "";

	fprintf(f, "_koda_sandbox%s%s_names() {\n\tlocal -a names=(\n", dash, name);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (command_same_group(commands[i].group, group))
			write_named(f, commands[i].name, commands[i].brief);
		else if (group == NULL && command_group_begins(&commands[i]))
			write_named(f, commands[i].group, "a group of commands");
	}
	if (group == NULL)
		write_named(f, "help", "explain a command");
	fprintf(f,
	    "\t)\n\t_describe -t commands command names\n}\n\n"
	    "_koda_sandbox%s%s() {\n"
	    "\tlocal curcontext=$curcontext state line\n"
	    "\ttypeset -A opt_args\n"
	    "\t_arguments -C -s -S",
	    dash, name);
	write_options(f, &none);
	fprintf(f,
	    " \\\n\t    '1:command:_koda_sandbox%s%s_names' '*:: :->rest'\n"
	    "\t[[ $state = rest ]] || return\n"
	    "\tif (( $+functions[_koda_sandbox%s%s_$words[1]] )); then\n"
	    "\t\t_koda_sandbox%s%s_$words[1]\n"
	    "\tfi\n"
	    "}\n\n",
	    dash, name, dash, name, dash, name);
}

void
completion_zsh(FILE *f)
{
	fputs(
	    "#compdef koda-sandbox\n"
	    "# zsh completion for koda-sandbox, generated from the table of its commands.\n\n"
	    "# The first word of each line that koda-sandbox prints.\n"
	    "_koda_sandbox_first() {\n"
	    "\tlocal -a found=(${${(f)\"$(_call_program list koda-sandbox $@ </dev/null 2>/dev/null)\"}%%[: ]*})\n"
	    "\tcompadd -a found\n"
	    "}\n\n"
	    "_koda_sandbox_help() {\n\t_koda_sandbox\n}\n\n",
	    f);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (command_group_begins(&commands[i]))
			write_group(f, commands[i].group);
		write_command(f, &commands[i]);
	}
	write_group(f, NULL);
	fputs("if [ \"$funcstack[1]\" = _koda-sandbox ]; then\n\t_koda_sandbox \"$@\"\nelse\n"
	      "\tcompdef _koda_sandbox koda-sandbox\nfi\n",
	    f);
}
