/* SPDX-License-Identifier: Apache-2.0 */
/* A line as a search of content reports it. */
#ifndef KODA_SEARCH_GREP_LINE_H
#define KODA_SEARCH_GREP_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The most bytes of one line (with multiline of one file) that are held for matching and
 * reporting. A longer line is matched in pieces of this size, and the reply says so
 * (grep_file.long_line). Each piece of a line counts as a line that matches or does not.
 */
#define GREP_LINE_MAX (4u << 20)
/* The most bytes of context before a match; lines that begin further back are not reported. */
#define GREP_BEFORE_BYTES_MAX (4u << 20)
/* Matches marked in one line; later ones are not marked. */
#define GREP_SPANS_MAX 16384

struct grep_span {
	size_t start, end;
};

struct grep_line {
	bool is_match; /* otherwise context */
	uint64_t line; /* from 1 */
	/* Offset of the whole line in the file; in the decoded text if the file is encoded. */
	uint64_t offset;
	const char *text; /* without the line's end; cut to max_columns */
	size_t len;
	uint64_t cut_before, cut_after;
	const struct grep_span *spans; /* in text, ascending, not overlapping */
	size_t n_spans;
};

/* Reports a line. Returns non-zero to stop, if there is no room for more. Not called in the
 * modes that report files or counts. */
typedef int grep_line_fn(void *data, const struct grep_line *line);

#endif
