/*
 * Denials, guessed from what a command printed (BSD and GNU tools, shells, language runtimes). Pure. A guess is marked
 * as one; stderr_parse_judge then drops what the policy would have allowed.
 */
#ifndef KODA_HOST_COMMAND_STDERR_PARSE_H
#define KODA_HOST_COMMAND_STDERR_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "include/koda/sandbox.h"

#define STDERR_LINE_MAX 4096 /* of a line so much is looked at: no tool says more in one sentence */

struct denial {
	enum koda_violation_kind kind;
	char
	    target[KODA_PATH_SHOWN_MAX]; /* an absolute path, a host; "" when the line names none */
	/* Instead of an absolute path: relative to the directory that the command was in then. */
	char relative[KODA_PATH_SHOWN_MAX];
};

/* One line, without its end. Is it about a denial? */
bool stderr_parse_line(const char *line, size_t len, struct denial *ret);

/* Each line of the text; stops when fn returns non-zero. */
typedef int stderr_denial_fn(void *data, const struct denial *denial);
int stderr_parse(const char *text, size_t len, stderr_denial_fn *fn, void *data);

/*
 * Can it be the sandbox that said no? Not when the view lets the target be used that way: then it was the file's own
 * permissions. cwd: where the command began, for a relative target (it becomes absolute), or NULL. One without a target
 * is kept: it stays a guess.
 */
struct view;
bool stderr_parse_judge(struct denial *denial, const struct view *view, const char *cwd);

#endif
