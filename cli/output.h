/*
 * Everything that leaves the process: content and results on standard output, sentences on standard
 * error, and the exit status that goes with an error. Knows --json; knows no operation.
 */
#ifndef KODA_CLI_OUTPUT_H
#define KODA_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "cli/command.h"

#define OUTPUT_PROGRAM "koda-sandbox"

/* Descriptors 0 to 2 that the caller closed are filled so that using them fails; jansson is given
 * output_alloc. Before anything else. */
void output_init(void);

/* Memory, or the end of the process with EXIT_HOST: there is nothing better to do without. */
void *output_alloc(size_t size);
void output_no_memory(void) __attribute__((noreturn));

/* Is that a terminal that wants colours? */
bool output_colour(int fd);

/* An error, on standard error and with --json as object on standard output. Returns the exit
 * status. remedy: a sentence, or NULL for the usual one of that error. */
int output_error(const struct cli *cli, const struct koda_error *err, const char *remedy);
/* The command line is wrong. Returns EXIT_USAGE. */
int output_usage(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line on standard error that is no error. kind: "warning", or NULL. */
void output_note(const char *kind, const char *text);

/* {"ok": true}, to be added to. */
json_t *output_object(void);
/* Print and release it. Returns the exit status: EXIT_DONE, or EXIT_FAILED if it could not be
 * written. */
int output_json(json_t *object);

/* All of it, to standard output. 0, or -1 with errno. */
int output_bytes(const void *data, size_t len);
/* Flush what was printed to standard output. Returns status, or EXIT_FAILED if that fails. */
int output_done(int status);
/* Flush it. false: not all of it, ever, could be written; errno says why. */
bool output_is_whole(void);
/* Say that standard output could not be written (errno); quietly when nobody reads it any more. */
int output_lost(void);

/* Should the line that says what was done be printed? To a person, or with --verbose. */
bool output_wants_summary(const struct cli *cli);

#endif
