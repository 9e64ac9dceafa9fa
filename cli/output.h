/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All output of the process: content and results on standard output, messages on standard error,
 * and the exit status that belongs to an error. Knows --json; knows no operation.
 */
#ifndef KODA_CLI_OUTPUT_H
#define KODA_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "cli/command.h"

#define OUTPUT_PROGRAM "koda-sandbox"

/*
 * Fills those of the descriptors 0 to 2 that the caller closed, so that using them fails, and makes
 * jansson use output_alloc(). Call it before anything else.
 */
void output_init(void);

/*
 * Allocate memory. End the process with EXIT_HOST if there is none: it can do nothing without it.
 */
void *output_alloc(size_t size);
char *output_copy(const char *text);
void output_no_memory(void) __attribute__((noreturn));

/* Is fd a terminal that wants colours? */
bool output_colour(int fd);

/*
 * Prints an error on standard error, with --json also as an object on standard output. remedy: a
 * sentence, or NULL for the usual one of that error. Returns the exit status.
 */
int output_error(const struct cli *cli, const struct koda_error *err, const char *remedy);
/* Reports a wrong command line. Returns EXIT_USAGE. */
int output_usage(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line on standard error that is not an error. kind: "warning", or NULL. */
void output_note(const char *kind, const char *text);

/* Returns {"ok": true}, to which the caller adds members. */
json_t *output_object(void);
/* Prints and releases object. Returns EXIT_DONE, or EXIT_FAILED if it could not be written. */
int output_json(json_t *object);

/* Writes all of data to standard output. Returns 0, or -1 with errno. */
int output_bytes(const void *data, size_t len);
/* Flushes standard output. Returns status, or EXIT_FAILED if that fails. */
int output_done(int status);
/* Flushes standard output. Returns false if any write to it has ever failed, with errno. */
bool output_is_whole(void);
/*
 * Reports that standard output could not be written (errno), silently if its reader is gone.
 * Returns EXIT_FAILED.
 */
int output_lost(void);

/* Should the line that says what was done be printed? Yes for a person, or with --verbose. */
bool output_wants_summary(const struct cli *cli);

#endif
