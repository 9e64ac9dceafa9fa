/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the text that a person reads before saying yes. The text goes to a terminal or into a
 * message; the style says which. Only page.c, diff.c and question.c depend on the style, so the
 * same characters are escaped, and the same parts cut, in every style.
 */
#ifndef KODA_SHOW_PAGE_H
#define KODA_SHOW_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum page_style {
	PAGE_TERMINAL, /* without colours */
	PAGE_COLOUR,   /* a terminal with colours */
	PAGE_MESSAGE,  /* a client of the MCP server, which shows the text as it is */
	PAGE_STYLES,
};

/* Where a text goes. */
struct page_medium {
	enum page_style style;
	/* of a terminal: text from elsewhere is wrapped before it reaches the edge; 0: unknown */
	unsigned columns;
	/* The user asked for the text itself, however long it is: no line of it is left out. */
	bool whole;
};

/* The beginning of each row after the first of a wrapped text: such a row cannot look like one of
 * our own. */
#define PAGE_WRAPPED     "        > "
#define PAGE_COLUMNS_MIN 24 /* for a narrower terminal nothing is wrapped */

#define PAGE_BOLD  "\033[1m"
#define PAGE_RED   "\033[31m"
#define PAGE_GREEN "\033[32m"
#define PAGE_CYAN  "\033[36m"
#define PAGE_PLAIN "\033[0m"

struct page {
	FILE *f;
	struct page_medium medium;
	unsigned column; /* where the next character stands, counted from 0; not beyond the edge */
	bool cut;        /* something was left out: see show/asked.h */
	bool failed;     /* not everything could be written: the text must not be shown */
};

/* Writes one of our own texts. Text from elsewhere goes through the other functions, which escape
 * it. */
void page_print(struct page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes a blank if this row has so many columns left; otherwise begins a new row with the
 * indentation. */
void page_break(struct page *page, const char *indent, size_t columns);
/* Writes a name in quotes (asked_name()), bold where there are colours. */
void page_name(struct page *page, const char *name);
/* Writes a line of a text, without its newline (asked_line()). */
void page_line(struct page *page, const void *data, size_t len);
/* Writes a word of a command (asked_word()). */
void page_word(struct page *page, const char *word);
/* The visible_put_fn of a page. */
void page_put(void *to, const void *data, size_t len);

#endif
