/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the commands as a `case`, and a function that walks the words. */
#include "cli/completion.h"
#include "cli/completion_shells.h"

static const char walk[] =
    "# The first word of each line that koda-sandbox prints.\n"
    "_koda_sandbox_first() {\n"
    "\t\"${COMP_WORDS[0]}\" \"$@\" 2>/dev/null </dev/null | sed 's/[: ].*//'\n"
    "}\n"
    "\n"
    "_koda_sandbox_reply() { # KIND\n"
    "\tlocal list\n"
    "\tcase $1 in\n"
    "\tnothing) return ;;\n"
    "\tfiles)\n"
    "\t\tcompopt -o filenames 2>/dev/null\n"
    "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "\t\treturn ;;\n"
    "\tdirs)\n"
    "\t\tcompopt -o filenames 2>/dev/null\n"
    "\t\tmapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
    "\t\treturn ;;\n"
    "\tcommand)\n"
    "\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\" | sort -u)\n"
    "\t\treturn ;;\n"
    "\tdrafts) list=$(_koda_sandbox_first drafts \"${root[@]}\") ;;\n"
    "\thistory) list=$(_koda_sandbox_first history \"${root[@]}\") ;;\n"
    "\tquarantine) list=$(_koda_sandbox_first quarantine list \"${root[@]}\") ;;\n"
    "\ttypes) list=$(_koda_sandbox_first fs grep --type-list) ;;\n"
    "\t*) list=${1//|/ } ;;\n"
    "\tesac\n"
    "\tmapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$cur\")\n"
    "}\n"
    "\n"
    "# Sets kind to that of the option's value. Fails if it takes none, or does not exist.\n"
    "_koda_sandbox_value() { # OPTION\n"
    "\tlocal option\n"
    "\tfor option in $options; do\n"
    "\t\t[ \"${option%%:*}\" = \"$1\" ] || continue\n"
    "\t\tkind=${option#*:}\n"
    "\t\t[ \"$kind\" != \"$option\" ]\n"
    "\t\treturn\n"
    "\tdone\n"
    "\treturn 1\n"
    "}\n"
    "\n"
    "# Sets kind to that of the word that the cursor is at, after n others.\n"
    "_koda_sandbox_word() {\n"
    "\tlocal -a all\n"
    "\tread -ra all <<<\"$words\"\n"
    "\tkind=nothing\n"
    "\tif ((n < ${#all[@]})); then\n"
    "\t\tkind=${all[n]}\n"
    "\telif ((${#all[@]} > 0)) && [[ ${all[-1]} = *... ]]; then\n"
    "\t\tkind=${all[-1]}\n"
    "\tfi\n"
    "\tkind=${kind%...}\n"
    "}\n"
    "\n"
    "_koda_sandbox() {\n"
    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} option kind options words\n"
    "\tlocal command='' complete='' ended='' expect=''\n"
    "\tlocal -i i n=0\n"
    "\tlocal -a root=()\n"
    "\tCOMPREPLY=()\n"
    "\t[ \"$cur\" != = ] || cur=''\n"
    "\t_koda_sandbox_row ''\n"
    "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
    "\t\tlocal word=${COMP_WORDS[i]}\n"
    "\t\t[ \"$word\" != = ] || continue\n"
    "\t\tif [ -n \"$expect\" ]; then\n"
    "\t\t\t[ \"$option\" != --root ] || root=(--root \"$word\")\n"
    "\t\t\texpect=''\n"
    "\t\telif [ -z \"$ended\" ] && [ \"$word\" = -- ]; then\n"
    "\t\t\tended=y\n"
    "\t\telif [ -z \"$ended\" ] && [[ $word = -?* ]]; then\n"
    "\t\t\toption=$word\n"
    "\t\t\t! _koda_sandbox_value \"$word\" || expect=$kind\n"
    "\t\telif [ -n \"$complete\" ]; then\n"
    "\t\t\t_koda_sandbox_word\n"
    "\t\t\tif [ \"$kind\" = command ]; then\n"
    "\t\t\t\t# The rest belongs to that command.\n"
    "\t\t\t\tif declare -F _command_offset >/dev/null; then\n"
    "\t\t\t\t\t_command_offset \"$i\"\n"
    "\t\t\t\telse\n"
    "\t\t\t\t\t_koda_sandbox_reply files\n"
    "\t\t\t\tfi\n"
    "\t\t\t\treturn\n"
    "\t\t\tfi\n"
    "\t\t\tn+=1\n"
    "\t\telif [ -n \"$command\" ] || [ \"$word\" != help ]; then\n"
    "\t\t\tcommand=\"${command:+$command }$word\"\n"
    "\t\t\t_koda_sandbox_row \"$command\" || return 0\n"
    "\t\tfi\n"
    "\tdone\n"
    "\tif [ -n \"$expect\" ]; then\n"
    "\t\t_koda_sandbox_reply \"$expect\"\n"
    "\telif [ -z \"$ended\" ] && [[ $cur = -* ]]; then\n"
    "\t\tlocal names=''\n"
    "\t\tfor option in $options; do\n"
    "\t\t\tnames+=\" ${option%%:*}\"\n"
    "\t\tdone\n"
    "\t\tmapfile -t COMPREPLY < <(compgen -W \"$names\" -- \"$cur\")\n"
    "\telse\n"
    "\t\t_koda_sandbox_word\n"
    "\t\t_koda_sandbox_reply \"$kind\"\n"
    "\tfi\n"
    "}\n"
    "complete -F _koda_sandbox koda-sandbox\n";

struct bash_option {
	FILE *f;
	const struct subcommand *command;
};

static void
write_option(void *data, const struct opt_spec *spec, char letter)
{
	const struct bash_option *to = data;
	const char *kind = spec->value != NULL ? completion_kind(spec->value, to->command) : NULL;
	const char *colon = kind != NULL ? ":" : "";

	fprintf(to->f, " %s%s%s", spec->name, colon, kind != NULL ? kind : "");
	if (letter != 0)
		fprintf(to->f, " -%c%s%s", letter, colon, kind != NULL ? kind : "");
}

static void
write_options(FILE *f, const struct subcommand *command)
{
	struct bash_option to = { .f = f, .command = command };

	fputs("options='", f);
	completion_options(command, write_option, &to);
	fputs("'", f);
}

/* The commands of a group, or, for NULL, the groups and the other commands. */
static void
write_names(FILE *f, const char *group)
{
	const char *bar = "";

	for (size_t i = 0; i < N_COMMANDS; i++) {
		const struct subcommand *c = &commands[i];
		const char *name = command_same_group(c->group, group) ? c->name
		    : group == NULL && command_group_begins(c)         ? c->group
								       : NULL;

		if (name == NULL)
			continue;
		fprintf(f, "%s%s", bar, name);
		bar = "|";
	}
}

/* Only a name so far: the options are those of all commands. */
static void
write_group(FILE *f, const char *group)
{
	static const struct subcommand none = { 0 };

	fprintf(f, "\t'%s') ", group != NULL ? group : "");
	write_options(f, &none);
	fputs(" words='", f);
	write_names(f, group);
	fputs(group == NULL ? "|help' ;;\n" : "' ;;\n", f);
}

static void
write_command(FILE *f, const struct subcommand *command)
{
	char name[COMMAND_NAME_MAX], unknown[32];
	struct completion_words words;

	if (completion_words(command, &words, unknown) < 0)
		return;
	fprintf(f, "\t'%s') complete=y ", command_full_name(command, name));
	write_options(f, command);
	fputs(" words='", f);
	for (size_t i = 0; i < words.n; i++)
		fprintf(f, "%s%s%s", i > 0 ? " " : "", words.words[i].kind,
		    words.repeats && i + 1 == words.n ? "..." : "");
	fputs("' ;;\n", f);
}

void
completion_bash(FILE *f)
{
	fputs(
	    "# bash completion for koda-sandbox, generated from the table of its commands.\n"
	    "# shellcheck shell=bash disable=SC2034\n\n"
	    "# What a command takes: options with the kind of their values, and the kinds of words.\n"
	    "_koda_sandbox_row() { # COMMAND\n\tcase $1 in\n",
	    f);
	write_group(f, NULL);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (command_group_begins(&commands[i]))
			write_group(f, commands[i].group);
		write_command(f, &commands[i]);
	}
	fprintf(f, "\t*) return 1 ;;\n\tesac\n}\n\n%s", walk);
}
