/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and writes a configuration of git. Pure: reads no file. gitvar.h knows what a variable
 * means.
 *
 * A configuration that a command planted is never trusted to mean to git what it means here: what
 * is kept of it is written again, in a form that has only one reading.
 */
#ifndef KODA_WORKER_SCAN_GITCONFIG_H
#define KODA_WORKER_SCAN_GITCONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* Far larger than any configuration that a program writes. The file is read whole. */
#define GITCONFIG_BYTES_MAX (1u << 20)

struct gitconfig_var {
	const char *section;    /* lower case */
	const char *subsection; /* NULL: none */
	const char *key;        /* lower case */
	const char *value;      /* NULL: the key stands alone, which means true */
};

struct gitconfig {
	struct gitconfig_var *var;
	size_t n;
	char *text; /* what the variables point into */
};

/* Parses a configuration as git does, and never more leniently. Returns 0, or -1 with errno: EINVAL
 * for text that git refuses too. Release with gitconfig_done(). */
int gitconfig_parse(const char *text, size_t len, struct gitconfig *ret);
void gitconfig_done(struct gitconfig *c);

/* Returns true for letters and digits alone: a value that needs no quotes. */
bool gitconfig_is_word(const char *s);

/* Writes the variables for which keep() returns true as a new configuration. Returns 0, with *ret
 * owned by the caller, or -1 with ENOMEM. */
int gitconfig_write(const struct gitconfig *c, bool (*keep)(void *, const struct gitconfig_var *),
    void *data, char **ret, size_t *ret_len);

#endif
