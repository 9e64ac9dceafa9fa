/*
 * Parses text found in a git directory: a configuration (its variables, which of them are inert,
 * what they name), a gitfile, the todo list of a rebase. Pure: reads no file.
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

/*
 * Returns true if the variable, whatever its value, makes git run nothing, write nothing elsewhere,
 * and reach nothing in another way. This is an allow-list: a key that is not on it is not inert.
 */
bool gitconfig_is_inert(const struct gitconfig_var *v);

/* Returns true for an address that an ordinary transport serves: https, http, ssh, git, file,
 * host:path, a path. */
bool gitconfig_is_plain_url(const char *url);

/* Writes the variables for which keep() returns true as a new configuration. Returns 0, with *ret
 * owned by the caller, or -1 with ENOMEM. */
int gitconfig_write(const struct gitconfig *c, bool (*keep)(void *, const struct gitconfig_var *),
    void *data, char **ret, size_t *ret_len);

enum gitconfig_names {
	GITCONFIG_NAMES_NOTHING,
	/* The value is a path relative to the file that holds the configuration. */
	GITCONFIG_NAMES_FILE,
	/* The value is a path relative to the directory in which git runs the program: the
	 * worktree. */
	GITCONFIG_NAMES_PATH,
	/* The value is a command line; split it with gitconfig_word(). */
	GITCONFIG_NAMES_PROGRAM,
};
enum gitconfig_names gitconfig_names(const struct gitconfig_var *v);

/* Stores the next word of a command line that could name a file, without quotes and escapes.
 * Returns false at the end. */
bool gitconfig_word(const char **line, char *ret, size_t size);

/* Finds the path in the text of a gitfile ("gitdir: PATH"). Returns false if the text is not a
 * gitfile. */
bool gitconfig_gitfile(const char *text, size_t len, size_t *ret_start, size_t *ret_len);

/* Returns true if the todo list of a rebase has only steps that git performs itself: none that it
 * passes to a shell. */
bool gitconfig_todo_is_plain(const char *text, size_t len);

#endif
