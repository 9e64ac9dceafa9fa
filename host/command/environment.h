/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command's environment, made from scratch: the base list, the list for the tool that the command
 * starts, what the sandbox itself sets, what the caller adds. Pure: a function of the environment
 * that is passed in.
 *
 * A value that contains credentials in a URL, or is not text, is held back. TMPDIR and the like are
 * passed on only if commands can write in the directory they name.
 */
#ifndef KODA_HOST_COMMAND_ENVIRONMENT_H
#define KODA_HOST_COMMAND_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct environment_input {
	const char *const *host;  /* environ */
	const char *const *extra; /* the caller's additions, or NULL; they replace earlier values */
	const char *const *argv;  /* of the command; NULL: `shell` is used */
	const char *shell;
	const char *root; /* PWD; NULL: none */
	unsigned uid;
	unsigned egress_port; /* the proxy's, on 127.0.0.1; 0: no proxy to name in variables */
	/* The helper that connects ssh through the proxy; NULL or "": none. */
	const char *connect_helper;
	/* Caches that the host does not have: the variable for each, and its value. */
	const struct environment_spare {
		const char *name, *below; /* below: relative to spare_dir */
	} * spare;
	size_t n_spare;
	const char *spare_dir;
	bool git_across;     /* git has to look above the root, which is a file system of its own */
	const char *ca_file; /* file of certificates to trust; NULL: the system's */
	/* Is path a directory that exists for commands to write in? In a private /tmp only /tmp
	 * itself is: what the host has in its own /tmp does not exist there. NULL: commands can
	 * write only in the private file systems. */
	bool (*writable)(void *data, const char *path);
	void *data;
};

struct environment {
	char **v; /* "NAME=value", ends with NULL */
	size_t n;
	char **held_back; /* names of variables, ends with NULL */
	size_t n_held_back;
};

int environment_make(const struct environment_input *in, struct environment *ret,
    struct koda_error *err);
void environment_done(struct environment *e);

/* The word that selects the tool's list: the last component of the first word, or "" if that word
 * is an assignment, a parenthesis or empty. */
const char *environment_tool(const char *shell, char *buf, size_t size);

/* The i-th of all names that may ever be passed on, including those for tools; NULL beyond the
 * last. For tests of the lists. */
const char *environment_listed(size_t i);

/* Does the value contain a password, as in scheme://user:password@host? */
bool environment_has_credentials(const char *value);

#endif
