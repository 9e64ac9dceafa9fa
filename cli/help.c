/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <ctype.h>

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

/* Prints the general options, without the letters that the command uses for options of its own. */
static void
print_options(FILE *f, uint64_t opts, const struct opt_table *table, int width)
{
	for (size_t i = 0; i < N_OPTS; i++) {
		const struct opt_spec *spec = &opt_specs[i];

		if (opts & OPT_BIT(i))
			print_option(f, spec,
			    spec->letter != 0 && !command_takes_letter(table, spec->letter), width);
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

void
help_command(FILE *f, const struct subcommand *command)
{
	char name[COMMAND_NAME_MAX];
	bool options_first = command->n_words == WORDS_ANY;
	const struct opt_table *table = command->own;
	int width = table != NULL ? OPTIONS_WIDTH_OWN : OPTIONS_WIDTH;

	fprintf(f, "usage: koda-sandbox %s%s%s%s%s\n\n%c%s.\n", command_full_name(command, name),
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
	if (command_own_status(command) == NULL)
		fprintf(f, "\n%s", command_usual_status);
}

void
help_overview(FILE *f, const char *group)
{
	const char *bar = "[";

	fprintf(f, "usage: koda-sandbox %s", group != NULL ? group : "");
	for (size_t i = 0; group == NULL && i < N_COMMANDS; i++) {
		if (command_group_begins(&commands[i])) {
			fprintf(f, "%s%s", bar, commands[i].group);
			bar = "|";
		}
	}
	fprintf(f, "%s COMMAND ... [OPTION]...\n\n", group == NULL ? "]" : "");
	for (size_t i = 0; i < N_COMMANDS; i++) {
		char name[COMMAND_NAME_MAX];

		if (group != NULL && !command_same_group(commands[i].group, group))
			continue;
		fprintf(f, "  %-22s %s\n", command_full_name(&commands[i], name),
		    commands[i].brief);
	}
	if (group == NULL)
		fprintf(f, "  %-22s %s\n", "help COMMAND", "explain a command");
	fputs("\n", f);
	print_options(f, OPT_COMMON, NULL, OPTIONS_WIDTH);
	fprintf(f, "\n%s", command_usual_status);
}
