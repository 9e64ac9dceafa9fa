/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denials guessed from what a command printed (BSD and GNU tools, shells, language runtimes). Pure.
 * A guess is marked as one; stderr_parse_judge then drops those that the policy would have allowed.
 */
#ifndef KODA_HOST_COMMAND_STDERR_PARSE_H
#define KODA_HOST_COMMAND_STDERR_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "include/koda/sandbox.h"

/* How much of a line is examined: no tool prints more in one sentence. */
#define STDERR_LINE_MAX 4096

struct denial {
	enum koda_violation_kind kind;
	/* An absolute path or a host; "" if the line names none. */
	char target[KODA_PATH_SHOWN_MAX];
	/* Instead of an absolute path: a path relative to the command's directory at that time. */
	char relative[KODA_PATH_SHOWN_MAX];
};

/* Examines one line, without its newline. Returns true with *ret if it reports a denial. */
bool stderr_parse_line(const char *line, size_t len, struct denial *ret);

/* Calls fn for each line of the text that reports a denial. Stops when fn returns non-zero and
 * returns that value, 0 otherwise. */
typedef int stderr_denial_fn(void *data, const struct denial *denial);
int stderr_parse(const char *text, size_t len, stderr_denial_fn *fn, void *data);

/* What fails in a draft and not outside. */
enum stderr_failure {
	STDERR_CROSS_DEVICE, /* a rename or a link led from one file system to another (EXDEV) */
	STDERR_OVERFLOW,     /* an owner or a group cannot be expressed (EOVERFLOW) */
};

/* Finds the first line that reports that failure. Returns true with what the line names in *ret, as
 * stderr_parse_line() does. */
bool stderr_parse_failure(enum stderr_failure failure, const char *text, size_t len,
    struct denial *ret);

/*
 * Can the sandbox be the cause of the denial? Not if the view allows using the target that way:
 * then the file's own permissions are the cause. cwd: the directory in which the command started,
 * for a relative target (which is made absolute), or NULL. A denial without a target is kept: it
 * remains a guess.
 */
struct view;
bool stderr_parse_judge(struct denial *denial, const struct view *view, const char *cwd);

#endif
