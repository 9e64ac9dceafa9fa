/* SPDX-License-Identifier: Apache-2.0 */
#include "show/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "show/asked.h"

/* A page has one thread, and most pieces are one character. */
static void
write_piece(struct page *page, const char *p, size_t len)
{
	if (len > 0 && fwrite_unlocked(p, 1, len, page->f) != len)
		page->failed = true;
}

/*
 * Returns how many columns the byte takes at that column. A character outside ASCII has two at
 * most: it is counted as two, so a row may end early, but never late.
 */
static unsigned
width_of(char byte, unsigned column)
{
	const unsigned char c = (unsigned char)byte;

	if (c == '\t')
		return 8 - column % 8;
	if (c >= 0xc0)
		return 2;
	return c < 0x20 || c >= 0x80 ? 0 : 1;
}

void
page_put(void *to, const void *data, size_t len)
{
	const char *p = data, *end = p + len;
	struct page *page = to;

	if (page->medium.columns < PAGE_COLUMNS_MIN) {
		write_piece(page, p, len);
		return;
	}
	for (; p < end; p++) {
		unsigned width = width_of(*p, page->column);

		if (page->column + width > page->medium.columns) {
			write_piece(page, "\n" PAGE_WRAPPED, sizeof("\n" PAGE_WRAPPED) - 1);
			page->column = sizeof(PAGE_WRAPPED) - 1;
			width = width_of(*p, page->column);
		}
		write_piece(page, p, 1);
		page->column += width;
	}
}

/* Follows our own text, which the terminal wraps. */
static void
count_columns(struct page *page, const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		unsigned width = width_of(*p, page->column);

		if (*p == '\033')
			p += strcspn(p, "m"); /* a colour */
		else if (*p == '\n')
			page->column = 0;
		else if (page->column + width > page->medium.columns)
			page->column = width;
		else
			page->column += width;
	}
}

void
page_print(struct page *page, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		page->failed = true;
		return;
	}
	write_piece(page, text, (size_t)n);
	if (page->medium.columns >= PAGE_COLUMNS_MIN)
		count_columns(page, text);
	free(text);
}

void
page_break(struct page *page, const char *indent, size_t columns)
{
	const unsigned edge = page->medium.columns;

	if (edge >= PAGE_COLUMNS_MIN && page->column + columns > edge)
		page_print(page, "\n%s", indent);
	else
		page_print(page, " ");
}

void
page_name(struct page *page, const char *name)
{
	const bool bold = page->medium.style == PAGE_COLOUR;

	page_print(page, "'%s", bold ? PAGE_BOLD : "");
	asked_name(name, strlen(name), page_put, page);
	page_print(page, "%s'", bold ? PAGE_PLAIN : "");
}

void
page_line(struct page *page, const void *data, size_t len)
{
	if (page->medium.whole)
		asked_show(data, len, true, page_put, page);
	else if (asked_line(data, len, page_put, page) > 0)
		page->cut = true;
}

void
page_word(struct page *page, const char *word)
{
	if (asked_word(word, page_put, page) > 0)
		page->cut = true;
}
