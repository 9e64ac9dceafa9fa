/*
 * Asks the user, on the terminal itself: standard input may be the content, standard output a pipe.
 * Shows what the worker found, never what the request claimed, and nothing unescaped.
 */
#ifndef KODA_CLI_ASK_H
#define KODA_CLI_ASK_H

#include <stdbool.h>
#include <stdio.h>

#include "include/koda/sandbox.h"

struct ask {
	bool nobody;      /* set if a question came up and there was no terminal */
	const char *base; /* the current directory: paths below it are also shown as relative */
	/* the beginning of what is written, if the question does not carry it */
	const void *preview;
	size_t preview_len;
	unsigned long long preview_of;
	/* the command that wants to reach a host: its text, or its first word */
	const char *command;
};

/* Asks the user. Anything but a clear yes is no. Only a host can be allowed for the session. */
enum koda_scope ask_scope(struct ask *ask, const struct koda_question *question);
bool ask_yes(struct ask *ask, const struct koda_question *question);

/* Asks the user, and answers the question. */
void ask_user(struct ask *ask, const struct koda_question *question);

/* Prints each replacement as a diff, with the number of its first line if lines[] has it. */
void ask_print_edits(FILE *f, bool colour, const struct koda_edit *edits, const uint64_t *lines,
    size_t n_lines, size_t n_edits);

#endif
