/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content half of a search: compiled patterns, and their matches in one open file at a time.
 * Knows no path, no policy, no frame.
 *
 *	grep_options.h  what is searched for, and how. Data.
 *	grep_line.h     a line as it is reported. Data.
 *	sweep.h         what is done to every byte, by SIMD where the processor has it. Pure.
 *	literal.h       finds a text in bytes. Pure.
 *	syntax.h        what the text of a pattern shows: texts of which every match contains one
 *	                (texts.h), what touches the end of a line. Uses reader.h and class.h. Pure.
 *	program.h       PCRE2 (JIT) with limits.
 *	plan.h          options and patterns -> which of these is used, and how. Pure.
 *	pattern.h       finds the next match. Pure.
 *	decode.h        UTF-16 -> UTF-8. Pure.
 *	window.h        a descriptor -> pieces of whole lines, in bounded memory.
 *	tell.h          which lines are reported: numbers, context, what is cut.
 *	grep.h          all of it: limits, counts, binary files.
 */
#ifndef KODA_SEARCH_GREP_H
#define KODA_SEARCH_GREP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "search/grep_line.h"
#include "search/grep_options.h"
#include "shared/base/err.h"

struct grep;

/* Compiles the patterns. Returns an object that the caller frees with grep_free(), or NULL with
 * *err set: KODA_INVALID (what is wrong with the pattern, and where), KODA_TOO_LARGE. */
struct grep *grep_new(const struct grep_options *options, struct koda_error *err);
void grep_free(struct grep *grep);

/* The result of one file. */
struct grep_file {
	/* Lines that match (for a match over several lines: all lines that it touches). */
	uint64_t matches;
	/* KODA_SEARCH_COUNT_MATCHES: matches. KODA_SEARCH_COUNT: lines, or matches where one may
	 * span several lines, as in ripgrep. Inverted: lines. */
	uint64_t count;
	uint64_t bytes; /* searched */
	/* A NUL was found: the file is skipped from there, or, if it was named, matched without
	 * reporting its lines. */
	bool binary;
	uint64_t nul_at;
	bool more; /* `line` stopped the search, or max_per_file did before the end of the file */
	bool long_line; /* see GREP_LINE_MAX */
};

/*
 * Searches one file. fd: a regular file, at its beginning, not blocking; read by pread, never
 * mapped (it may shrink meanwhile). named: the caller asked for this very file, which then is
 * searched even if it is binary. Returns 0 with *ret filled; -1 with *err set: KODA_IO (with
 * errnum) for this file only; KODA_TOO_LARGE if the pattern exceeded its limits, which ends the
 * search.
 */
int grep_file(struct grep *grep, int fd, uint64_t size, bool named, grep_line_fn *line, void *data,
    struct grep_file *ret, struct koda_error *err);

/*
 * Returns 0 if no match is running, otherwise how many calls of this function there were since
 * PCRE2 started on the current line (or the lines that it was given together). For a timer's signal
 * handler: async-signal-safe.
 */
unsigned grep_ticks(struct grep *grep);

#endif
