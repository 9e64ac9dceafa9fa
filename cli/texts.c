/* SPDX-License-Identifier: Apache-2.0 */
/*
 * texts: what is installed beside koda-sandbox and follows from its rows. It runs where it is built, so
 * that a build for another machine has it, too.
 *
 *	texts completion SHELL		the script for a shell, on standard output
 *	texts manual DATE DIR PAGE...	the pages of all commands, as files in DIR
 *	texts list			each command with its options, one command a line: "--glob,-g"
 */
#include <stdio.h>
#include <string.h>

#include "cli/completion.h"
#include "cli/manual.h"

#define PATH_BYTES 4096

static int
write_completion(const char *shell)
{
	char unknown[32] = "";
	int r = completion_write(stdout, shell, unknown);

	if (r == -2)
		fprintf(stderr,
		    "texts: '%s' is the name of a value without a row in cli/completion.c: say how it is completed\n",
		    unknown);
	else if (r == -1)
		fprintf(stderr, "texts: no completion for '%s'\n", shell);
	return r == 0 && fflush(stdout) == 0 ? 0 : 1;
}

static bool
is_listed(const char *page, int n, char **pages)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(page, pages[i]) == 0)
			return true;
	}
	return false;
}

static int
write_page(const char *dir, const char *page, const struct subcommand *command, const char *date)
{
	char path[PATH_BYTES];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, page);
	f = fopen(path, "we");
	if (f == NULL) {
		perror(path);
		return 1;
	}
	manual_page(f, command, date);
	if (fclose(f) == 0)
		return 0;
	perror(path);
	return 1;
}

/* The build has to know the names beforehand, so they are listed; the list has to be complete. */
static int
write_manual(const char *date, const char *dir, int n, char **pages)
{
	int status = 0;

	for (size_t i = 0; i < N_COMMANDS; i++) {
		char page[MANUAL_NAME_MAX];

		manual_name(&commands[i], page);
		if (!is_listed(page, n, pages)) {
			fprintf(stderr, "texts: add '%s' to man/meson.build\n", page);
			status = 1;
		} else {
			status |= write_page(dir, page, &commands[i], date);
		}
	}
	if (n != N_COMMANDS) {
		fputs("texts: man/meson.build lists a page of a command that does not exist\n",
		    stderr);
		status = 1;
	}
	return status;
}

static void
list_option(void *data, const struct opt_spec *spec, char letter)
{
	printf(" %s", spec->name);
	if (letter != 0)
		printf(",-%c", letter);
}

static int
list(void)
{
	char name[COMMAND_NAME_MAX];

	for (size_t i = 0; i < N_COMMANDS; i++) {
		printf("%s:", command_full_name(&commands[i], name));
		completion_options(&commands[i], list_option, NULL);
		putchar('\n');
	}
	return fflush(stdout) == 0 ? 0 : 1;
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "completion") == 0)
		return write_completion(argv[2]);
	if (argc >= 4 && strcmp(argv[1], "manual") == 0)
		return write_manual(argv[2], argv[3], argc - 4, argv + 4);
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	fputs("usage: texts completion SHELL | manual DATE DIR PAGE... | list\n", stderr);
	return 2;
}
