/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a shell script in a kernel sandbox of its own: a session over the project's git directory
 * whose commands can write there and to the copy, reach no network and read nothing more than the
 * session's policy allows. git's configuration and hooks stay protected there. The scripts keep git
 * from running anything of the project; the sandbox is what holds if one of them missed something.
 */
#ifndef KODA_HOST_COPY_CONFINED_H
#define KODA_HOST_COPY_CONFINED_H

#include "host/context/context.h"

struct confined;

/* of: the session that the copy is made for. tree may not exist (NULL: there is no copy). Returns
 * NULL with *err set. */
struct confined *confined_new(const struct koda_session *of, const char *common, const char *tree,
    struct koda_error *err);
/* The same for a clone: what it runs reads the session's project, and writes to `into` alone. */
struct confined *confined_for_clone(const struct koda_session *of, const char *into,
    struct koda_error *err);
void confined_free(struct confined *c);

/* Run the script with these variables ("NAME=value", ends with NULL), and this descriptor as its
 * input. Returns its exit status with
 * what it printed in *ret, which the caller frees; -1 with *err set if it did not end by itself. */
int confined_run(struct confined *c, const char *script, const char *const *variables, int input,
    char **ret, struct koda_error *err);

/* Run a program in the same way. line (or NULL) is called now and then with the last line that it has
 * printed, until it returns false: then the program is stopped, and this fails with KODA_TIMEOUT. */
typedef bool confined_line_fn(void *data, const char *line);
int confined_run_program(struct confined *c, const char *const *argv, int input,
    confined_line_fn *line, void *data, char **ret, struct koda_error *err);

#endif
