/*
 * Denials, guessed from what a command printed (BSD and GNU tools, shells, language runtimes). Pure. A guess is marked
 * as one; stderr_parse_judge then drops what the policy would have allowed.
 */
#ifndef KODA_HOST_STDERR_PARSE_H
#define KODA_HOST_STDERR_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "include/koda/sandbox.h"

struct denial {
	enum koda_violation_kind kind;
	char target[KODA_PATH_SHOWN_MAX]; /* "" when the line names none */
};

/* One line, without its end. Is it about a denial? */
bool stderr_parse_line(const char *line, size_t len, struct denial *ret);

/* Each line of the text; stops when fn returns non-zero. */
typedef int stderr_denial_fn(void *data, const struct denial *denial);
int stderr_parse(const char *text, size_t len, stderr_denial_fn *fn, void *data);

#endif
