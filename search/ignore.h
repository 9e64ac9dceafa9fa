/*
 * A list of rules, the last that matches decides: of one ignore file, in the syntax of a .gitignore and with git's reading of
 * it, or of the globs that a search was given. A name costs little, however many rules there are: those that end in plain
 * text, or in a star and plain text with a dot in it, are found by hash. Pure.
 */
#ifndef KODA_SEARCH_IGNORE_H
#define KODA_SEARCH_IGNORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "search/glob.h"

struct ignore;

enum ignore_verdict {
	IGNORE_NONE,  /* no rule says anything */
	IGNORE_MATCH, /* the last rule that says something has no '!' */
	IGNORE_KEEP,  /* it has one */
};

/* What is asked about, hashed once for all lists. */
struct ignore_name {
	const char *path; /* from any directory above it; no slash at the end */
	size_t len;
	size_t name; /* where in path its last component begins */
	bool is_dir;
	uint32_t name_hash;
	uint32_t suffix_hash; /* of all from the last dot on; of nothing, if there is none */
};

void ignore_name_init(struct ignore_name *ret, const char *path, size_t len, size_t name,
    bool is_dir);

/* Empty. NULL: out of memory. */
struct ignore *ignore_new(void);
void ignore_free(struct ignore *list);

/*
 * Add the rules of a file. What makes no sense to git is no rule. 0, or -1 with errno: ENOMEM, or E2BIG when there would
 * be more than max, and then the list is of no use any more.
 */
int ignore_add_file(struct ignore *list, const char *text, size_t len, size_t max);

/*
 * Add one glob of a search: as a line of such a file ('!', slashes), but with braces, without comments, and spaces are
 * spaces. flags: GLOB_IGNORE_CASE or 0. NULL, or what is wrong with it.
 */
const char *ignore_add_glob(struct ignore *list, const char *text, unsigned flags, size_t max);
/* Add the glob of a type: of names, or (negated) as if it had a '!' before it. */
const char *ignore_add_name(struct ignore *list, const char *text, bool negated, size_t max);

/* After the last rule, before the first question. -1: out of memory. */
int ignore_ready(struct ignore *list);

size_t ignore_count(const struct ignore *list);
/* Has it a rule without '!'? */
bool ignore_has_match(const struct ignore *list);

/* base: where in name->path the directory begins that the rules are for. */
enum ignore_verdict ignore_judge(const struct ignore *list, const struct ignore_name *name,
    size_t base);

extern const char IGNORE_TOO_MANY[];

#endif
