/* SPDX-License-Identifier: Apache-2.0 */
/* What git does with a variable of its configuration: does it run or reach anything, and what does
 * the value name? Pure. */
#ifndef KODA_WORKER_SCAN_GITVAR_H
#define KODA_WORKER_SCAN_GITVAR_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/scan/gitconfig.h"

/*
 * Returns true if the variable, whatever its value, makes git run nothing, write nothing elsewhere,
 * and reach nothing in another way. This is an allow-list: a key that is not on it is not inert.
 */
bool gitvar_is_inert(const struct gitconfig_var *v);

/* Returns true for an address that an ordinary transport serves: https, http, ssh, git, file,
 * host:path, a path. */
bool gitvar_is_plain_url(const char *url);

enum gitvar_names {
	GITVAR_NAMES_NOTHING,
	/* The value is a path relative to the file that holds the configuration. */
	GITVAR_NAMES_FILE,
	/* The value is a path relative to the directory in which git runs the program: the
	 * worktree. */
	GITVAR_NAMES_PATH,
	/* The value is a command line; split it with gitvar_word(). */
	GITVAR_NAMES_PROGRAM,
};
enum gitvar_names gitvar_names(const struct gitconfig_var *v);

/* Stores the next word of a command line that could name a file, without quotes and escapes.
 * Returns false at the end. */
bool gitvar_word(const char **line, char *ret, size_t size);

#endif
