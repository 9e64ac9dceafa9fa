/*
 * A command's environment, made from nothing: the base list, the list of the tool that it starts, what the sandbox
 * itself sets, what the caller adds. Pure: a function of the environment that is given to it.
 *
 * A value that carries credentials in a URL, or is not text, is held back; TMPDIR and the like pass only when the
 * place can be written inside.
 */
#ifndef KODA_HOST_COMMAND_ENVIRONMENT_H
#define KODA_HOST_COMMAND_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct environment_input {
	const char *const *host;  /* environ */
	const char *const *extra; /* the caller's, or NULL; replaces what is there */
	const char *const *argv;  /* of the command; NULL: `shell` */
	const char *shell;
	const char *root; /* PWD; NULL: none */
	unsigned uid;
	unsigned egress_port; /* on 127.0.0.1; 0: there is no way out that a variable could name */
	const char *connect_helper; /* what takes ssh there; NULL or "": none */
	/* Of caches that the host does not have: variables, and the value of each. */
	const struct environment_spare {
		const char *name, *below; /* `below` spare_dir */
	} * spare;
	size_t n_spare;
	const char *spare_dir;
	const char *ca_file; /* certificates to trust; NULL: the system's */
	/* Is that a directory that commands can write, and that is there for them? (Of a private /tmp: it
	 * itself; what the host has in its own is not.) NULL: the private ones are all there is. */
	bool (*writable)(void *data, const char *path);
	void *data;
};

struct environment {
	char **v; /* "NAME=value", ends with NULL */
	size_t n;
	char **held_back; /* names, ends with NULL */
	size_t n_held_back;
};

int environment_make(const struct environment_input *in, struct environment *ret,
    struct koda_error *err);
void environment_done(struct environment *e);

/* The word by which the tool's list is chosen: the last component of the first word, "" when that is an
 * assignment, a parenthesis or nothing. */
const char *environment_tool(const char *shell, char *buf, size_t size);

/* The i-th of all names that may ever be passed on, tools' included; NULL beyond. For whoever checks the lists. */
const char *environment_listed(size_t i);

/* Would the value tell somebody a password? scheme://user:password@host. */
bool environment_has_credentials(const char *value);

#endif
