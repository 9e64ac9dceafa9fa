/*
 * What a person is shown before saying yes. More than visible.h does: nothing may be pushed out of sight, and nothing may
 * look like something else. Pure; the same for the terminal and for MCP.
 *
 *	a long run of blanks     [37 spaces]
 *	letters of two scripts   pаypal[mixed scripts]
 *	too long a line or text  its beginning and its end, and how much is left out between
 *	a run of empty lines     the first few, and [33 more empty lines]
 *
 * Who calls this says in the first line that something is left out and offers no longer yes than for once.
 */
#ifndef KODA_SHOW_ASKED_H
#define KODA_SHOW_ASKED_H

#include <stdbool.h>
#include <stddef.h>

/* Columns of blanks that are shown as they are: at the beginning of a line (deep code), and in it (tables). */
#define ASKED_INDENT_MAX 64
#define ASKED_BLANKS_MAX 32
#define ASKED_TAB        8
/* Lines that have nothing in them, one after the other. */
#define ASKED_EMPTY_MAX 4

/* What fits before a reader's eyes, and is still read. */
#define ASKED_LINES_HEAD 300
#define ASKED_LINES_TAIL 100
#define ASKED_LINES_MAX  (ASKED_LINES_HEAD + ASKED_LINES_TAIL)
#define ASKED_LINE_HEAD  1500
#define ASKED_LINE_TAIL  500
#define ASKED_LINE_MAX   (ASKED_LINE_HEAD + ASKED_LINE_TAIL)

typedef void asked_put_fn(void *to, const void *data, size_t len);

/* All of it, in one line. tabs: they stay; else they are escaped, as every other control is. */
void asked_show(const void *data, size_t len, bool tabs, asked_put_fn *put, void *to);

/* A line of a text without its newline, its middle left out if it is too long. Returns how many bytes that were. */
size_t asked_line(const void *data, size_t len, asked_put_fn *put, void *to);
/* Where such a line, or a word, is cut: what is from head to tail (both len if it is not) is left out. */
bool asked_split(const void *data, size_t len, size_t *ret_head, size_t *ret_tail);
#define ASKED_BYTES_CUT " [... %zu bytes are left out here ...] "

/* Is line i (from 0) of n left out, and how many of n are? */
bool asked_is_hidden(size_t i, size_t n);
size_t asked_hidden(size_t n);

/* Does the line have nothing but blanks? */
bool asked_is_empty(const void *data, size_t len);
/* Of a run of empty lines, *run of them so far: is the next line of the text one that is counted instead of shown? When
 * a run has ended, *ret_counted is how many were. line: NULL at the end of the text. */
bool asked_counts(size_t *run, const void *line, size_t len, size_t *ret_counted);

#endif
