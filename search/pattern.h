/* Where the next match is, by the way that was chosen (plan.h). Pure. */
#ifndef KODA_SEARCH_PATTERN_H
#define KODA_SEARCH_PATTERN_H

#include "search/grep.h"
#include "search/program.h"
#include "search/texts.h"

struct pattern;

/* NULL with *err set: KODA_INVALID (what is wrong with the pattern, and where), KODA_TOO_LARGE. */
struct pattern *pattern_new(const struct grep_options *options, struct koda_error *err);
void pattern_free(struct pattern *pattern);

/* A match may go over lines. Otherwise it is one of a single line, which knows nothing of those beside it. */
bool pattern_is_multiline(const struct pattern *pattern);

/* Whole lines that are gone through. Without multiline: without the last one's end. */
struct pattern_cursor {
	const char *text;
	size_t len;
	bool ascii;  /* all of it */
	size_t at;   /* the next match begins here or later; behind len: there is none */
	size_t last; /* the end of the match before: an empty one there is none of its own */
	/* The pattern's. */
	size_t next_text
	    [TEXTS_MAX]; /* one behind where it is, when that is behind `at`; 0: not looked for yet */
	/* Lines that are all ASCII, or one; what PCRE2 is given. */
	bool has_part;
	size_t part, part_end;
	bool tried; /* it was given to PCRE2 already */
	enum program_text kind;
};
#define PATTERN_NO_LAST SIZE_MAX

void pattern_begin(struct pattern_cursor *cursor, const char *text, size_t len, bool ascii);
/* Go on at the beginning of a line, behind where it is. */
void pattern_go_to(struct pattern_cursor *cursor, size_t at);

/* The next match, in order, none overlapping. 1 with *ret, 0: there is none, -1 with *err set: KODA_TOO_LARGE. */
int pattern_next(struct pattern *pattern, struct pattern_cursor *cursor, struct grep_span *ret,
    struct koda_error *err);

/* As grep_ticks(). */
unsigned pattern_ticks(struct pattern *pattern);

#endif
