/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compiled glob: the syntax of a line in a .gitignore without a leading '!' or the slashes at its
 * ends. Works on bytes, not characters: '?' and a class match one byte, as in git and ripgrep.
 * Pure.
 *
 * Never takes exponential time, whatever the glob: after a later star, going back to an earlier one
 * is not needed, in a name for '*', in a path for a '**' between slashes. So two positions to go
 * back to are enough, and time is bounded by the length of the glob times that of the path, for
 * each directory of the path.
 */
#ifndef KODA_SEARCH_GLOB_H
#define KODA_SEARCH_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel accepts no longer path. */
#define GLOB_BYTES_MAX 4096

enum glob_flags {
	GLOB_NAME = 1 << 0,        /* has no slash: matches the last component only */
	GLOB_IGNORE_CASE = 1 << 1, /* of ASCII letters */
	/* Exactly as git does it: an invalid glob never matches, and is not an error; a '**'
	 * directly after text also matches slashes, which git's manual does not say. */
	GLOB_GIT = 1 << 2,
};

/* What all names that the glob matches have in common: lists of globs are indexed by it. */
enum glob_key {
	GLOB_KEY_NONE,
	GLOB_KEY_NAME,   /* the name is the key */
	GLOB_KEY_SUFFIX, /* the name ends with the key */
};

struct glob {
	uint8_t *program;
	unsigned flags;
	enum glob_key kind;
	bool whole; /* every name with the key matches */
	const uint8_t *key;
	size_t key_len;
};

#define GLOB_EMPTY ((struct glob){ .program = NULL })

/* Compiles a glob into *ret, which the caller frees with glob_done(). Returns NULL, or what is
 * wrong, in a few words, with *ret unchanged. Out of memory is GLOB_NO_MEMORY. */
const char *glob_compile(const char *text, size_t len, unsigned flags, struct glob *ret);
extern const char GLOB_NO_MEMORY[];
void glob_done(struct glob *glob);

/* path: without slashes at its ends; its last component begins at offset name. */
bool glob_match(const struct glob *glob, const char *path, size_t len, size_t name);

#endif
