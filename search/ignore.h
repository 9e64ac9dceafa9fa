/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of rules, of which the last matching one decides: the rules of one ignore file, in the
 * syntax of a .gitignore as git reads it, or the globs of a search. Checking a name is cheap,
 * however many rules there are: rules that end in plain text, or in a star and plain text with a
 * dot in it, are found by hash. Pure.
 */
#ifndef KODA_SEARCH_IGNORE_H
#define KODA_SEARCH_IGNORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "search/glob.h"

struct ignore;

enum ignore_verdict {
	IGNORE_NONE,  /* no rule matches */
	IGNORE_MATCH, /* the last matching rule has no '!' */
	IGNORE_KEEP,  /* the last matching rule has a '!' */
};

/* The name to judge, hashed once for all lists. */
struct ignore_name {
	const char *path; /* relative to any directory above it; no slash at the end */
	size_t len;
	size_t name; /* offset in path of its last component */
	bool is_dir;
	uint32_t name_hash;
	uint32_t suffix_hash; /* of the part from the last dot on; of nothing, if there is none */
};

void ignore_name_init(struct ignore_name *ret, const char *path, size_t len, size_t name,
    bool is_dir);

/* Returns an empty list, the caller's; NULL if memory is short. */
struct ignore *ignore_new(void);
void ignore_free(struct ignore *list);

/*
 * Adds the rules of a file. Lines that are invalid to git are skipped. Returns 0, or -1 with errno:
 * ENOMEM, or E2BIG if there would be more than max rules; then the list must not be used any more.
 */
int ignore_add_file(struct ignore *list, const char *text, size_t len, size_t max);

/*
 * Adds a glob of a search: like a line of an ignore file ('!', slashes), but with braces, without
 * comments, and with spaces kept. flags: GLOB_IGNORE_CASE or 0. Returns NULL, or what is wrong.
 */
const char *ignore_add_glob(struct ignore *list, const char *text, unsigned flags, size_t max);
/* Adds a glob of a file type, which matches names. negated: as with a '!' before it. Returns
 * NULL, or what is wrong. */
const char *ignore_add_name(struct ignore *list, const char *text, bool negated, size_t max);

/* Has to be called after the last rule was added and before the first name is judged. Returns 0,
 * or -1 if memory is short. */
int ignore_ready(struct ignore *list);

size_t ignore_count(const struct ignore *list);
/* Returns whether the list has a rule without '!'. */
bool ignore_has_match(const struct ignore *list);

/* base: offset in name->path of the directory that the rules are for. */
enum ignore_verdict ignore_judge(const struct ignore *list, const struct ignore_name *name,
    size_t base);

extern const char IGNORE_TOO_MANY[];

#endif
