/*
 * What stands in a git directory, as text: a configuration (what it holds, which of it is inert, what it names), a
 * gitfile, a list of a rebase. Pure: reads no file.
 *
 * A configuration that a command planted is never trusted to mean for git what it means here: what is kept of it
 * is written anew, in a form about which there are no two opinions.
 */
#ifndef KODA_WORKER_SCAN_GITCONFIG_H
#define KODA_WORKER_SCAN_GITCONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* Far beyond any configuration that a program wrote; it is read whole. */
#define GITCONFIG_BYTES_MAX (1u << 20)

struct gitconfig_var {
	const char *section;    /* lower case */
	const char *subsection; /* NULL: none */
	const char *key;        /* lower case */
	const char *value;      /* NULL: a key alone, which means true */
};

struct gitconfig {
	struct gitconfig_var *var;
	size_t n;
	char *text; /* what the variables point into */
};

/* As git reads it, and never more leniently. 0, or -1 with errno: EINVAL for what git refuses too. */
int gitconfig_parse(const char *text, size_t len, struct gitconfig *ret);
void gitconfig_done(struct gitconfig *c);

/*
 * Does nothing run, nothing get written elsewhere and nothing be reached in another way because of it, whatever its
 * value? An allow-list: each key that is not on it is not inert.
 */
bool gitconfig_is_inert(const struct gitconfig_var *v);

/* An address that an ordinary transport serves: https, http, ssh, git, file, host:path, a path. */
bool gitconfig_is_plain_url(const char *url);

/* The variables for which keep says yes, written anew. 0 with *ret the caller's, or -1 with ENOMEM. */
int gitconfig_write(const struct gitconfig *c, bool (*keep)(void *, const struct gitconfig_var *),
    void *data, char **ret, size_t *ret_len);

enum gitconfig_names {
	GITCONFIG_NAMES_NOTHING,
	GITCONFIG_NAMES_FILE, /* value is a path, relative to the file that holds the configuration */
	GITCONFIG_NAMES_PATH, /* value is a path, relative to where git runs what is there: the worktree */
	GITCONFIG_NAMES_PROGRAM, /* value is a command line: gitconfig_word */
};
enum gitconfig_names gitconfig_names(const struct gitconfig_var *v);

/* The next word of a command line that could name a file, quotes and escapes taken off; false at the end. */
bool gitconfig_word(const char **line, char *ret, size_t size);

/* "gitdir: PATH": where in the text the path is. */
bool gitconfig_gitfile(const char *text, size_t len, size_t *ret_start, size_t *ret_len);

/* Has the list of a rebase only steps that git takes itself: nothing that it gives to a shell? */
bool gitconfig_todo_is_plain(const char *text, size_t len);

#endif
