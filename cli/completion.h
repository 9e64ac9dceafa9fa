/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a shell complete the words of koda-sandbox, written from the rows of the commands and of
 * their options. Pure.
 */
#ifndef KODA_CLI_COMPLETION_H
#define KODA_CLI_COMPLETION_H

#include <stdio.h>

#include "cli/command.h"

/*
 * How a word or a value is completed: "files", "dirs", "command" (a program and what follows it),
 * "nothing", one of the words of a list ("plan|safe|auto"), or what koda-sandbox lists: "drafts",
 * "history", "quarantine", "types".
 */
#define COMPLETION_WORDS_MAX 4

/* The words that a command takes, in order. */
struct completion_words {
	struct completion_word {
		char name[32]; /* "PATH" */
		const char *kind;
	} words[COMPLETION_WORDS_MAX];
	size_t n;
	bool repeats; /* the last one may be repeated */
};

/*
 * Reads the words from the command's synopsis, the alternative with the most of them. Returns 0, or -1
 * if it has a word for which there is no kind; *ret_unknown (32 bytes) is then that word.
 */
int completion_words(const struct subcommand *command, struct completion_words *ret,
    char ret_unknown[32]);

/* Returns the kind of an option's or a word's value, or NULL. */
const char *completion_kind(const char *value, const struct subcommand *command);

/* Calls fn for each option that the command takes, its own first. letter: 0 if it has none here. */
typedef void completion_option_fn(void *data, const struct opt_spec *spec, char letter);
void completion_options(const struct subcommand *command, completion_option_fn *fn, void *data);

/*
 * Writes the script for a shell: "bash", "zsh" or "fish". Returns 0, -1 if there is no such shell, or
 * -2 if a word or a value has no kind: *ret_unknown is that word.
 */
int completion_write(FILE *f, const char *shell, char ret_unknown[32]);

/* Returns the length of one word of a synopsis: from p to the next space outside of quotes. */
size_t completion_token_len(const char *p);

#endif
