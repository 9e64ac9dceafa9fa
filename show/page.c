#include "show/page.h"

#include <stdarg.h>
#include <string.h>

#include "show/asked.h"

void
page_put(void *to, const void *data, size_t len)
{
	struct page *page = to;

	/* A page has one thread, and most pieces are one character. */
	if (len > 0 && fwrite_unlocked(data, 1, len, page->f) != len)
		page->failed = true;
}

void
page_print(struct page *page, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vfprintf(page->f, fmt, ap) < 0)
		page->failed = true;
	va_end(ap);
}

void
page_name(struct page *page, const char *name)
{
	const bool bold = page->style == PAGE_COLOUR;

	page_print(page, "'%s", bold ? PAGE_BOLD : "");
	asked_name(name, strlen(name), page_put, page);
	page_print(page, "%s'", bold ? PAGE_PLAIN : "");
}

void
page_line(struct page *page, const void *data, size_t len)
{
	if (asked_line(data, len, page_put, page) > 0)
		page->cut = true;
}

void
page_word(struct page *page, const char *word)
{
	if (asked_word(word, page_put, page) > 0)
		page->cut = true;
}
