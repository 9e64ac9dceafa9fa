/*
 * A text that a person reads before saying yes, while it is written. It goes to one of the places
 * where people are asked; what a place demands is told apart by its style alone, here, in diff.c and
 * in question.c, so what is escaped and what is cut is the same everywhere.
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
};

/* Begins a row that a text was wrapped to: no such row can look like one of ours. */
#define PAGE_WRAPPED     "        > "
#define PAGE_COLUMNS_MIN 24 /* a narrower terminal is not wrapped for */

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

/* Writes one of our own texts. What comes from elsewhere goes through one of the others. */
void page_print(struct page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Begins a row with an indentation, unless so many columns are left in this one: then a blank. */
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
