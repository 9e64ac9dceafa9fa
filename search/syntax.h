/*
 * What can be told from the text of a regular expression without being PCRE2: which text every match has to contain, and
 * whether a match can touch the end of a line. Pure.
 *
 * Careful rather than clever: what is not certain is `unknown`, which costs speed and nothing else. What it says is held
 * against PCRE2 by tests/property/grep_property_test.c.
 */
#ifndef KODA_SEARCH_SYNTAX_H
#define KODA_SEARCH_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

#include "search/texts.h"

/* How deep groups may be nested. PCRE2 is told the same, so that a compiled pattern is never deeper. */
#define SYNTAX_NEST_MAX 250

struct syntax_options {
	bool ignore_case;
	bool multiline; /* a match may touch the end of a line */
	bool dotall;
	bool ascii; /* it is to be used without UTF, for text that is ASCII alone */
};

struct syntax {
	bool unknown; /* nothing else is said */
	bool newline; /* names the end of a line: without multiline it could never match */
	bool crosses; /* multiline: some part of it can match the end of a line */
	bool ascii;   /* means the same without UTF, for text that is ASCII alone */
	bool plain;   /* is the one text that is required, and nothing else */
	struct texts required;
	/* Without multiline: the same expression, in which nothing matches the end of a line. In any number of whole lines it
	 * finds what it finds in each of them. */
	char *within;
	size_t within_len;
};

/* pattern: one that PCRE2 takes. 0, or -1 when there is no memory; syntax_done() in both cases. */
int syntax_read(const char *pattern, size_t len, const struct syntax_options *options,
    struct syntax *ret);
void syntax_done(struct syntax *syntax);

#endif
