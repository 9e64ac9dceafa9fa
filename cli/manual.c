/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manual.h"

#include <ctype.h>
#include <string.h>

#include "cli/completion.h"

/* Lines of text are filled to this width. */
#define LINE_MAX_CHARS 76

/* "fs-read" */
static void
write_joined(FILE *f, const struct subcommand *command, int (*change)(int))
{
	char name[COMMAND_NAME_MAX];

	for (const char *p = command_full_name(command, name); *p != '\0'; p++)
		fputc(*p == ' ' ? '-' : change(*p), f);
}

static int
unchanged(int c)
{
	return c;
}

const char *
manual_name(const struct subcommand *command, char buf[MANUAL_NAME_MAX])
{
	char name[COMMAND_NAME_MAX];

	snprintf(buf, MANUAL_NAME_MAX, "koda-sandbox-%s.1", command_full_name(command, name));
	for (char *p = buf; *p != '\0'; p++) {
		if (*p == ' ')
			*p = '-';
	}
	return buf;
}

/* A character that has a meaning for the formatter, or that it would print as another one. */
static void
write_char(FILE *f, char c)
{
	static const struct {
		char c;
		const char *as;
	} special[] = {
		{ '\\', "\\e" },
		{ '\'', "\\(aq" },
		{ '~', "\\(ti" },
		{ '^', "\\(ha" },
		{ '`', "\\(ga" },
		{ '-', "\\-" },
	};

	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
		if (special[i].c == c) {
			fputs(special[i].as, f);
			return;
		}
	}
	fputc(c, f);
}

static void
write_text(FILE *f, const char *text, size_t len)
{
	if (len > 0 && text[0] == '.')
		fputs("\\&", f);
	for (size_t i = 0; i < len; i++) {
		const bool in_word = i > 0 && isalnum((unsigned char)text[i - 1]) && i + 1 < len;

		/* A hyphen within a word may stay one; elsewhere it begins an option. */
		if (text[i] == '-' && in_word)
			fputc('-', f);
		else
			write_char(f, text[i]);
	}
}

static bool
ends_sentence(const char *word, size_t len)
{
	return len > 0 && strchr(".?!", word[len - 1]) != NULL;
}

/* Writes the words of a paragraph, each sentence on a line of its own. */
static void
write_filled(FILE *f, const char *text, size_t len)
{
	size_t column = 0, i = 0;

	while (i < len) {
		size_t n = 0;

		while (i + n < len && strchr(" \n", text[i + n]) == NULL)
			n++;
		if (n > 0) {
			if (column > 0 && column + 1 + n > LINE_MAX_CHARS) {
				fputc('\n', f);
				column = 0;
			}
			if (column > 0)
				fputc(' ', f);
			write_text(f, text + i, n);
			column += n + 1;
			if (ends_sentence(text + i, n)) {
				fputc('\n', f);
				column = 0;
			}
		}
		i += n + 1;
	}
	if (column > 0)
		fputc('\n', f);
}

/* Lines that begin with two spaces are an example. */
static void
write_example(FILE *f, const char *text, size_t len)
{
	fputs(".Bd -literal -offset indent\n", f);
	for (size_t i = 0; i < len;) {
		const char *end = memchr(text + i, '\n', len - i);
		const size_t n = end != NULL ? (size_t)(end - text) - i : len - i;
		const size_t skip = n >= 2 ? 2 : n;

		write_text(f, text + i + skip, n - skip);
		fputc('\n', f);
		i += n + 1;
	}
	fputs(".Ed\n", f);
}

static void
write_paragraphs(FILE *f, const char *text, const char *end)
{
	while (text < end) {
		const char *stop = strstr(text, "\n\n");
		size_t len =
		    stop != NULL && stop < end ? (size_t)(stop - text) : (size_t)(end - text);

		while (len > 0 && text[len - 1] == '\n')
			len--;
		if (len > 0 && text[0] == ' ') {
			write_example(f, text, len);
		} else if (len > 0) {
			fputs(".Pp\n", f);
			write_filled(f, text, len);
		}
		text = stop != NULL && stop < end ? stop + 2 : end;
	}
}

/* "PATH", "--old", "'COMMAND LINE'", "bash|zsh|fish", "...", within brackets or not. */
static void
write_atom(FILE *f, const char *p, size_t len)
{
	if (p[0] == '-') {
		fprintf(f, "Fl %.*s", (int)(len - 1), p + 1);
		return;
	}
	if (p[0] == '.') {
		fputs("\\&...", f);
		return;
	}
	fputs(memchr(p, '|', len) != NULL ? "Cm " : "Ar ", f);
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '|')
			fputs(" | ", f);
		else if (p[i] != '\'')
			fputc(p[i] == ' ' ? '-' : p[i], f);
	}
}

/* One word of a synopsis as the arguments of one macro line. */
static void
write_token(FILE *f, const char *p, size_t len)
{
	const char *open = memchr(p, '[', len);
	const size_t before = open != NULL ? (size_t)(open - p) : len;
	const bool dots = len > 3 && memcmp(p + len - 3, "...", 3) == 0;

	if (p[0] != '.')
		fputc('.', f);
	if (open == NULL) {
		write_atom(f, p, len);
	} else if (before > 0) {
		/* "HOST[:PORT]" */
		fprintf(f, "Ar %.*s Ns Op : Ns Ar %.*s", (int)before, p, (int)(len - before - 3),
		    p + before + 2);
	} else {
		fputs("Op ", f);
		write_atom(f, p + 1, len - 2 - (dots ? 3 : 0));
		if (dots)
			fputs(" ...", f);
	}
	fputc('\n', f);
}

static void
begin_synopsis(FILE *f, const struct subcommand *command)
{
	char name[COMMAND_NAME_MAX];

	fprintf(f, ".Nm koda-sandbox\n.Cm %s\n.Op Ar option ...\n",
	    command_full_name(command, name));
}

static void
write_synopsis(FILE *f, const struct subcommand *command)
{
	begin_synopsis(f, command);
	for (const char *p = command->synopsis; *p != '\0';) {
		const size_t len = completion_token_len(p);

		if (len == 1 && *p == '|')
			begin_synopsis(f, command);
		else
			write_token(f, p, len);
		p += len;
		p += strspn(p, " ");
	}
}

static void
write_option(void *data, const struct opt_spec *spec, char letter)
{
	FILE *f = data;

	fputs(".It", f);
	if (letter != 0)
		fprintf(f, " Fl %s%c ,", letter == '.' ? "\\&" : "", letter);
	fprintf(f, " Fl %s", spec->name + 1);
	if (spec->value != NULL)
		fprintf(f, " Ar %s", spec->value);
	fputc('\n', f);
	write_filled(f, spec->help, strlen(spec->help));
}

static void
write_status(FILE *f, const struct subcommand *command)
{
	static const char label[] = "Status: ";
	const char *status = command_own_status(command);
	size_t len;

	status = (status != NULL ? status : command_usual_status) + sizeof(label) - 1;
	len = strlen(status);
	fputs(".Sh EXIT STATUS\n", f);
	write_char(f, (char)toupper((unsigned char)status[0]));
	write_filled(f, status + 1, len - 1);
}

/* Returns the command of the group whose name follows `after` in the order of letters, or NULL. */
static const struct subcommand *
next_of_group(const char *group, const char *after)
{
	const struct subcommand *ret = NULL;

	for (size_t i = 0; i < N_COMMANDS; i++) {
		const struct subcommand *c = &commands[i];

		if (command_same_group(c->group, group) && strcmp(c->name, after) > 0 &&
		    (ret == NULL || strcmp(c->name, ret->name) < 0))
			ret = c;
	}
	return ret;
}

static void
write_see_also(FILE *f, const struct subcommand *command)
{
	const struct subcommand *c = NULL;

	fputs(".Sh SEE ALSO\n.Xr koda-sandbox 1", f);
	if (command->group != NULL)
		c = next_of_group(command->group, "");
	for (; c != NULL; c = next_of_group(c->group, c->name)) {
		if (c == command)
			continue;
		fputs(" ,\n.Xr koda-sandbox-", f);
		write_joined(f, c, unchanged);
		fputs(" 1", f);
	}
	fputc('\n', f);
}

void
manual_page(FILE *f, const struct subcommand *command, const char *date)
{
	const char *status = command_own_status(command);

	fprintf(f, ".\\\" Generated from the rows of cli/commands.c, as --help is.\n.Dd %s\n",
	    date);
	fputs(".Dt KODA-SANDBOX-", f);
	write_joined(f, command, toupper);
	fputs(" 1\n.Os\n.Sh NAME\n.Nm koda-sandbox-", f);
	write_joined(f, command, unchanged);
	fprintf(f, "\n.Nd %s\n.Sh SYNOPSIS\n", command->brief);
	write_synopsis(f, command);
	fputs(".Sh DESCRIPTION\n", f);
	write_char(f, (char)toupper((unsigned char)command->brief[0]));
	fprintf(f, "%s.\n", command->brief + 1);
	write_paragraphs(f, command->help,
	    status != NULL ? status - 1 : command->help + strlen(command->help));
	fputs(".Pp\nThe options are as follows:\n.Bl -tag -width Ds\n", f);
	completion_options(command, write_option, f);
	fputs(".El\n", f);
	write_status(f, command);
	write_see_also(f, command);
}
