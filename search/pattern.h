/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the next match, in the way that was chosen (plan.h). Pure. */
#ifndef KODA_SEARCH_PATTERN_H
#define KODA_SEARCH_PATTERN_H

#include "search/grep_line.h"
#include "search/grep_options.h"
#include "search/program.h"
#include "search/texts.h"

struct pattern;

/* Compiles the patterns. Returns an object that the caller frees with pattern_free(), or NULL
 * with *err set: KODA_INVALID (what is wrong with the pattern, and where), KODA_TOO_LARGE. */
struct pattern *pattern_new(const struct grep_options *options, struct koda_error *err);
void pattern_free(struct pattern *pattern);

/* Returns whether a match may span lines. If not, it is within one line, and independent of
 * other lines. */
bool pattern_is_multiline(const struct pattern *pattern);

/* A position in a text of whole lines. Without multiline, the text excludes the last line's end. */
struct pattern_cursor {
	const char *text;
	size_t len;
	bool ascii;  /* the whole text is ASCII */
	size_t at;   /* the next match begins here or later; beyond len: there is none */
	size_t last; /* end of the previous match; an empty match there does not count */
	/* Position of each text plus one, if that is beyond `at`; 0: not searched yet. */
	size_t next_text[TEXTS_MAX];
	/* The part of the text that PCRE2 is given: ASCII lines, or a single line. */
	bool has_part;
	size_t part, part_end;
	bool tried; /* PCRE2 was given this part already */
	enum program_text kind;
};
#define PATTERN_NO_LAST SIZE_MAX

void pattern_begin(struct pattern_cursor *cursor, const char *text, size_t len, bool ascii);
/* Continues at `at`, the beginning of a line beyond the current position. */
void pattern_go_to(struct pattern_cursor *cursor, size_t at);

/* Finds the next match, in order and not overlapping the previous one. Returns 1 with *ret; 0 if
 * there is none; -1 with *err set: KODA_TOO_LARGE. */
int pattern_next(struct pattern *pattern, struct pattern_cursor *cursor, struct grep_span *ret,
    struct koda_error *err);

/* See grep_ticks(). */
unsigned pattern_ticks(struct pattern *pattern);

#endif
