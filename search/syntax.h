/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analyses the text of a regular expression without PCRE2: which text every match has to contain,
 * and whether a match can touch the end of a line. Pure.
 *
 * Careful rather than clever: what is not certain is `unknown`, which costs only speed.
 * tests/property/grep_property_test.c checks the results against PCRE2.
 */
#ifndef KODA_SEARCH_SYNTAX_H
#define KODA_SEARCH_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

#include "search/texts.h"

/* Maximal nesting of groups. PCRE2 is given the same limit, so a compiled pattern is never
 * deeper. */
#define SYNTAX_NEST_MAX 250

struct syntax_options {
	bool ignore_case;
	bool multiline; /* a match may touch the end of a line */
	bool dotall;
	bool ascii; /* to be used without UTF, for text that is only ASCII */
};

struct syntax {
	bool unknown; /* the other fields say nothing */
	bool newline; /* names the end of a line: without multiline it could never match */
	bool crosses; /* multiline: some part of it can match the end of a line */
	bool ascii;   /* means the same without UTF, for text that is only ASCII */
	bool plain;   /* is exactly the one required text */
	struct texts required;
	/* Without multiline: the same expression, in which nothing matches the end of a line. In a
	 * text of several whole lines it finds the same matches as in each line alone. */
	char *within;
	size_t within_len;
};

/* Analyses a pattern that PCRE2 accepts. Returns 0, or -1 if memory is short; the caller calls
 * syntax_done() in both cases. */
int syntax_read(const char *pattern, size_t len, const struct syntax_options *options,
    struct syntax *ret);
void syntax_done(struct syntax *syntax);

#endif
