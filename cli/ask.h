/*
 * The question to the user, on the terminal itself: standard input may be the content, standard
 * output a pipe. Shows what the worker found, never what the request claimed, and nothing raw.
 */
#ifndef KODA_CLI_ASK_H
#define KODA_CLI_ASK_H

#include <stdbool.h>
#include <stdio.h>

#include "include/koda/sandbox.h"

struct ask {
	bool nobody;      /* somebody was to be asked, and there was no terminal */
	const char *base; /* the current directory: paths below it are also shown as relative */
	const void
	    *preview; /* the beginning of what is written, when the question does not carry it */
	size_t preview_len;
	unsigned long long preview_of;
	const char *command; /* what wants to reach a host: its text, or its first word */
};

/* Anything but a clear yes is no. For the session: a host only. */
enum koda_scope ask_scope(struct ask *ask, const struct koda_question *question);
bool ask_yes(struct ask *ask, const struct koda_question *question);

/* Ask, and answer it. */
void ask_user(struct ask *ask, const struct koda_question *question);

/* As differences of lines, each replacement with the line it begins in where lines[] tells. */
void ask_print_edits(FILE *f, bool colour, const struct koda_edit *edits, const uint64_t *lines,
    size_t n_lines, size_t n_edits);

#endif
