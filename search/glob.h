/*
 * One glob, compiled: the syntax of a line in a .gitignore without what stands around it ('!', a slash at the ends). Bytes, not
 * characters: '?' and a class match one byte, as they do for git and ripgrep. Pure.
 *
 * Never exponential, whoever wrote it: a later star makes going back to an earlier one needless, in a name for '*', in a
 * path for a '**' between slashes. So two positions to go back to are enough, and time is bounded by the glob's length times
 * that of the path, for each directory of the path.
 */
#ifndef KODA_SEARCH_GLOB_H
#define KODA_SEARCH_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel takes no path longer than that. */
#define GLOB_BYTES_MAX 4096

enum glob_flags {
	GLOB_NAME = 1 << 0,        /* without a slash in it: of the last component alone */
	GLOB_IGNORE_CASE = 1 << 1, /* of ASCII letters */
	/* Exactly as git does it: nonsense never matches, and is no error; a '**' right behind text goes over slashes too,
	 * which git's manual does not say. */
	GLOB_GIT = 1 << 2,
};

/* What every name that it matches has in common: how a list of globs sorts them. */
enum glob_key {
	GLOB_KEY_NONE,
	GLOB_KEY_NAME,   /* is the key */
	GLOB_KEY_SUFFIX, /* ends with the key */
};

struct glob {
	uint8_t *program;
	unsigned flags;
	enum glob_key kind;
	bool whole; /* whatever has the key is matched */
	const uint8_t *key;
	size_t key_len;
};

#define GLOB_EMPTY ((struct glob){ .program = NULL })

/* NULL, or what is wrong with it, in a few words; then *ret is untouched. Out of memory is GLOB_NO_MEMORY. */
const char *glob_compile(const char *text, size_t len, unsigned flags, struct glob *ret);
extern const char GLOB_NO_MEMORY[];
void glob_done(struct glob *glob);

/* path: no slash at the ends; its last component begins at name. */
bool glob_match(const struct glob *glob, const char *path, size_t len, size_t name);

#endif
