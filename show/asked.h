/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escapes what a person is asked to approve. Stricter than visible.h: nothing may be pushed out of
 * sight, and nothing may look like something else. Pure; the same for the terminal and for MCP.
 *
 *	a long run of blanks     [37 spaces]
 *	letters of two scripts   pаypal[mixed scripts]
 *	too long a line or text  its beginning and its end, and how much is left out between
 *	a run of empty lines     the first few, and [33 more empty lines]
 *
 * If something is left out, the caller must say so in the first line, and must not offer an
 * approval for more than once.
 */
#ifndef KODA_SHOW_ASKED_H
#define KODA_SHOW_ASKED_H

#include <stdbool.h>
#include <stddef.h>

#include "show/visible.h"

/*
 * Columns of blanks that are shown as they are: at the start of a line (deep code), and in it
 * (tables).
 */
#define ASKED_INDENT_MAX 64
#define ASKED_BLANKS_MAX 32
#define ASKED_TAB        8
/* Consecutive empty lines that are shown. */
#define ASKED_EMPTY_MAX 4

/* What a reader can see at once and still reads. */
#define ASKED_LINES_HEAD 300
#define ASKED_LINES_TAIL 100
#define ASKED_LINES_MAX  (ASKED_LINES_HEAD + ASKED_LINES_TAIL)
#define ASKED_LINE_HEAD  1500
#define ASKED_LINE_TAIL  500
#define ASKED_LINE_MAX   (ASKED_LINE_HEAD + ASKED_LINE_TAIL)

/*
 * Shows all of the data, in one line. tabs: it is a line of a text, which may be indented and have
 * tabs; else they are escaped like every other control.
 */
void asked_show(const void *data, size_t len, bool tabs, visible_put_fn *put, void *to);

/*
 * Shows a line (without its newline), with its middle left out if it is too long. Returns how many
 * bytes were left out.
 */
size_t asked_line(const void *data, size_t len, visible_put_fn *put, void *to);
/*
 * Decides where a long line or word is cut: the bytes from head to tail are left out. Returns
 * false, and len for both, if nothing is.
 */
bool asked_split(const void *data, size_t len, size_t *ret_head, size_t *ret_tail);
#define ASKED_BYTES_CUT " [... %zu bytes are left out here ...] "

/*
 * Shows a name that stands between single quotes. Quotes and backslashes in it get a backslash:
 * otherwise one could look like the closing quote, and the text after it would be read as ours.
 */
void asked_name(const void *data, size_t len, visible_put_fn *put, void *to);
/*
 * Shows a word of a command, quoted as a shell needs it, with its middle left out if it is too
 * long. Returns how many bytes were left out.
 */
size_t asked_word(const char *word, visible_put_fn *put, void *to);
/* Returns how many of the first `most` bytes are whole characters. */
size_t asked_fits(const void *data, size_t len, size_t most);

/* Is line i (from 0) of n left out? And how many of n lines are? */
bool asked_is_hidden(size_t i, size_t n);
size_t asked_hidden(size_t n);

/*
 * Takes the next line of the text; NULL: the end of the text. Returns whether it is an empty line
 * that is counted instead of shown. *run is the length of the current run of empty lines (at first
 * 0). When a run ends, *ret_counted is the number of its lines that were counted, else 0.
 */
bool asked_counts(size_t *run, const void *line, size_t len, size_t *ret_counted);

#endif
