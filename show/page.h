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

#define PAGE_BOLD  "\033[1m"
#define PAGE_RED   "\033[31m"
#define PAGE_GREEN "\033[32m"
#define PAGE_CYAN  "\033[36m"
#define PAGE_PLAIN "\033[0m"

struct page {
	FILE *f;
	enum page_style style;
	bool cut;    /* something was left out: see show/asked.h */
	bool failed; /* not everything could be written: the text must not be shown */
};

/* Writes one of our own texts. What comes from elsewhere goes through one of the others. */
void page_print(struct page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes a name in quotes (asked_name()), bold where there are colours. */
void page_name(struct page *page, const char *name);
/* Writes a line of a text, without its newline (asked_line()). */
void page_line(struct page *page, const void *data, size_t len);
/* Writes a word of a command (asked_word()). */
void page_word(struct page *page, const char *word);
/* The visible_put_fn of a page. */
void page_put(void *to, const void *data, size_t len);

#endif
