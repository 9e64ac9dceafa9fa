/*
 * The content half of a search: compiled patterns, and their matches in one open file at a time. Knows no path, no
 * policy, no frame.
 *
 *	sweep.h    what is done to every byte, by SIMD where the processor has it. Pure.
 *	literal.h  where in these bytes is that text. Pure.
 *	syntax.h   what can be told from the text of a pattern: texts of which every match contains one (texts.h), what touches
 *	           the end of a line. Made of reader.h and class.h. Pure.
 *	program.h  PCRE2 (JIT) with limits.
 *	plan.h     options and patterns -> which of these is used, and how. Pure.
 *	pattern.h  where the next match is. Pure.
 *	decode.h   UTF-16 -> UTF-8. Pure.
 *	window.h   a descriptor -> pieces of whole lines, in bounded memory.
 *	tell.h     which lines are told: numbers, context, what is cut.
 *	grep.h     all of it: limits, counts, binary files.
 */
#ifndef KODA_SEARCH_GREP_H
#define KODA_SEARCH_GREP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Of one line that is held to be matched or told, with multiline of one file; what is longer is matched in pieces of this
 * size, and the answer says so (grep_file.long_line). Each piece of a line counts as a line that matches or does not. */
#define GREP_LINE_MAX (4u << 20)
/* Of the lines before one that matches: what begins further back is not told as context. */
#define GREP_BEFORE_BYTES_MAX (4u << 20)
/* Of one line; what matches behind them is not marked. */
#define GREP_SPANS_MAX 16384
/* All patterns together. */
#define GREP_PATTERN_BYTES_MAX (256u << 10)

struct grep;

struct grep_options {
	unsigned flags; /* enum koda_search_flags; others than those of grep are ignored */
	const char *const *patterns;
	size_t n_patterns;
	unsigned before, after;
	uint64_t max_per_file; /* 0: all */
	unsigned max_columns;  /* never 0 */
};

/* NULL with *err set: KODA_INVALID (what is wrong with the pattern, and where), KODA_TOO_LARGE. */
struct grep *grep_new(const struct grep_options *options, struct koda_error *err);
void grep_free(struct grep *grep);

struct grep_span {
	size_t start, end;
};

struct grep_line {
	bool is_match; /* else it is context */
	uint64_t line; /* from 1 */
	uint64_t
	    offset; /* of the whole line in the file; of decoded text, where an encoding was undone */
	const char *text; /* without the line's end; cut to max_columns */
	size_t len;
	uint64_t cut_before, cut_after;
	const struct grep_span *spans; /* in text, rising, not overlapping */
	size_t n_spans;
};

/* What one file came to. */
struct grep_file {
	uint64_t
	    matches; /* lines that match (for a match over several lines: the lines that it touches) */
	/* KODA_SEARCH_COUNT_MATCHES: matches; KODA_SEARCH_COUNT: lines, or matches where one may go over several, as ripgrep
	 * has it. Inverted: lines. */
	uint64_t count;
	uint64_t bytes; /* searched */
	bool
	    binary; /* a NUL was found: passed over from there, or, when named, matched without its lines */
	uint64_t nul_at;
	bool more; /* `line` stopped it, or max_per_file did and it was not looked at to its end */
	bool long_line; /* see GREP_LINE_MAX */
};

/* Non-zero: stop, there is no room for more. Not called in the modes that tell files or counts. */
typedef int grep_line_fn(void *data, const struct grep_line *line);

/*
 * fd: a regular file, at its beginning, not blocking; read by pread, never mapped (it may shrink meanwhile). named: the
 * caller asked for this very file, which then is searched also when it is binary. 0 with *ret filled; -1 with *err set:
 * KODA_IO (with errnum) for this file alone; KODA_TOO_LARGE when the pattern went past its limits, which ends the search.
 */
int grep_file(struct grep *grep, int fd, uint64_t size, bool named, grep_line_fn *line, void *data,
    struct grep_file *ret, struct koda_error *err);

/*
 * Is a match under way right now, and since how many calls of this? For a timer's signal handler: async-signal-safe. Counts up
 * with each call while PCRE2 works at one and the same line (or lines that it was given together), and is 0 outside of it.
 */
unsigned grep_ticks(struct grep *grep);

#endif
