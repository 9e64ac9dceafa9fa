/* SPDX-License-Identifier: Apache-2.0 */
#include "show/asked.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/utf8.h"

#define MARK_SIZE 64 /* of one of our marks, with its numbers */

/* ---- scripts ---- */

enum script {
	SCRIPT_NONE, /* not a letter, or of a script in which nothing looks like Latin */
	SCRIPT_LATIN,
	SCRIPT_GREEK,
	SCRIPT_CYRILLIC,
	SCRIPT_ARMENIAN,
	SCRIPT_CHEROKEE,
	SCRIPT_COPTIC,
	SCRIPT_LISU,
	SCRIPT_MATHEMATICAL,
	SCRIPT_WIDE,
};

static enum script
script_of(uint32_t c)
{
	static const struct {
		uint32_t first, last;
		enum script script;
	} ranges[] = {
		{ 'A', 'Z', SCRIPT_LATIN },
		{ 'a', 'z', SCRIPT_LATIN },
		{ 0xc0, 0xd6, SCRIPT_LATIN },
		{ 0xd8, 0xf6, SCRIPT_LATIN },
		{ 0xf8, 0x2af, SCRIPT_LATIN },
		{ 0x370, 0x3ff, SCRIPT_GREEK },
		{ 0x400, 0x52f, SCRIPT_CYRILLIC },
		{ 0x531, 0x58a, SCRIPT_ARMENIAN },
		{ 0x13a0, 0x13ff, SCRIPT_CHEROKEE },
		{ 0x1c80, 0x1c8f, SCRIPT_CYRILLIC },
		{ 0x1d00, 0x1d25, SCRIPT_LATIN },
		{ 0x1d26, 0x1d2a, SCRIPT_GREEK },
		{ 0x1d2b, 0x1d2b, SCRIPT_CYRILLIC },
		{ 0x1e00, 0x1eff, SCRIPT_LATIN },
		{ 0x1f00, 0x1fff, SCRIPT_GREEK },
		{ 0x2102, 0x2102, SCRIPT_MATHEMATICAL },
		{ 0x210a, 0x2115, SCRIPT_MATHEMATICAL },
		{ 0x2119, 0x211d, SCRIPT_MATHEMATICAL },
		{ 0x2124, 0x2124, SCRIPT_MATHEMATICAL },
		{ 0x2128, 0x2128, SCRIPT_MATHEMATICAL },
		{ 0x212a, 0x2139, SCRIPT_MATHEMATICAL },
		{ 0x2145, 0x2149, SCRIPT_MATHEMATICAL },
		{ 0x2160, 0x2188, SCRIPT_MATHEMATICAL }, /* Roman numerals */
		{ 0x2c60, 0x2c7f, SCRIPT_LATIN },
		{ 0x2c80, 0x2cff, SCRIPT_COPTIC },
		{ 0xa4d0, 0xa4ff, SCRIPT_LISU },
		{ 0xa640, 0xa69f, SCRIPT_CYRILLIC },
		{ 0xa720, 0xa7ff, SCRIPT_LATIN },
		{ 0xab30, 0xab6f, SCRIPT_LATIN },
		{ 0xab70, 0xabbf, SCRIPT_CHEROKEE },
		{ 0xff21, 0xff3a, SCRIPT_WIDE },
		{ 0xff41, 0xff5a, SCRIPT_WIDE },
		{ 0x1d400, 0x1d7ff, SCRIPT_MATHEMATICAL },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (c >= ranges[i].first && c <= ranges[i].last)
			return ranges[i].script;
	}
	return SCRIPT_NONE;
}

/*
 * A word is what a reader takes for one name: letters and digits, also with invisible characters
 * between them.
 */
struct word {
	enum script first;
	bool mixed;
};

static bool
is_in_word(uint32_t c, enum script script)
{
	/* Signs that visibly separate two words. */
	const bool sign = (c >= 0xa1 && c <= 0xbf) || (c >= 0x2010 && c <= 0x2027) ||
	    (c >= 0x2030 && c <= 0x205e) || (c >= 0x2190 && c <= 0x27ff) ||
	    (c >= 0x2900 && c <= 0x2bff) || (c >= 0x3001 && c <= 0x303f);

	return script != SCRIPT_NONE || (c >= '0' && c <= '9') || c == '_' || (c >= 0x80 && !sign);
}

static void
end_word(struct word *w, visible_put_fn *put, void *to)
{
	static const char mark[] = "[mixed scripts]";

	if (w->mixed)
		put(to, mark, sizeof(mark) - 1);
	*w = (struct word){ 0 };
}

static void
take_letter(struct word *w, enum script script)
{
	if (script == SCRIPT_NONE)
		return;
	if (w->first == SCRIPT_NONE)
		w->first = script;
	w->mixed = w->mixed || script != w->first;
}

/* ---- blanks ---- */

/* Shows the blanks at p, or how many there are. Returns how many bytes they have. */
static size_t
put_blanks(const uint8_t *p, size_t len, bool tabs, size_t most, visible_put_fn *put, void *to)
{
	size_t spaces = 0, n_tabs = 0, n = 0;
	char mark[MARK_SIZE];
	int k;

	for (; n < len && (p[n] == ' ' || (tabs && p[n] == '\t')); n++) {
		spaces += p[n] == ' ';
		n_tabs += p[n] == '\t';
	}
	if (spaces + n_tabs * ASKED_TAB <= most) {
		put(to, p, n);
		return n;
	}
	if (n_tabs == 0)
		k = snprintf(mark, sizeof(mark), "[%zu spaces]", spaces);
	else if (spaces == 0)
		k = snprintf(mark, sizeof(mark), "[%zu tabs]", n_tabs);
	else
		k = snprintf(mark, sizeof(mark), "[%zu blanks]", n);
	put(to, mark, (size_t)k);
	return n;
}

void
asked_show(const void *data, size_t len, bool tabs, visible_put_fn *put, void *to)
{
	const uint8_t *p = data;
	struct word word = { 0 };
	/* Only a line of a text is indented. */
	size_t most = tabs ? ASKED_INDENT_MAX : ASKED_BLANKS_MAX;

	while (len > 0) {
		char shown[VISIBLE_MAX];
		size_t used, n;
		uint32_t c = 0;

		if (p[0] == ' ' || (tabs && p[0] == '\t')) {
			end_word(&word, put, to);
			used = put_blanks(p, len, tabs, most, put, to);
		} else {
			enum script script;

			if (utf8_next(p, len, &c) == 0)
				c = 0xfffd;
			script = script_of(c);
			if (!is_in_word(c, script))
				end_word(&word, put, to);
			take_letter(&word, script);
			used = visible_escape(p, len, tabs, shown, &n);
			put(to, shown, n);
		}
		most = ASKED_BLANKS_MAX;
		p += used;
		len -= used;
	}
	end_word(&word, put, to);
}

/* ---- cutting what is too long ---- */

/* Cuts between characters: half a character would be shown as bytes. */
static size_t
whole_characters(const uint8_t *p, size_t n)
{
	size_t k = n;

	while (k > 0 && n - k < 3 && (p[k] & 0xc0) == 0x80)
		k--;
	return (p[k] & 0xc0) == 0x80 ? n : k; /* not valid UTF-8 */
}

bool
asked_split(const void *data, size_t len, size_t *ret_head, size_t *ret_tail)
{
	*ret_head = *ret_tail = len;
	if (len <= ASKED_LINE_MAX)
		return false;
	*ret_head = whole_characters(data, ASKED_LINE_HEAD);
	*ret_tail = whole_characters(data, len - ASKED_LINE_TAIL);
	return true;
}

size_t
asked_line(const void *data, size_t len, visible_put_fn *put, void *to)
{
	const uint8_t *p = data;
	char mark[MARK_SIZE];
	size_t head, tail;
	bool cut = asked_split(p, len, &head, &tail);
	int k;

	asked_show(p, head, true, put, to);
	if (!cut)
		return 0;
	k = snprintf(mark, sizeof(mark), ASKED_BYTES_CUT, tail - head);
	put(to, mark, (size_t)k);
	asked_show(p + tail, len - tail, true, put, to);
	return tail - head;
}

size_t
asked_fits(const void *data, size_t len, size_t most)
{
	return len > most ? whole_characters(data, most) : len;
}

/* ---- quotes ---- */

/* Shows the data with `instead` and a quoted character itself in place of each of `quoted`. */
static void
show_quoted(const char *p, size_t len, const char *quoted, const char *instead, visible_put_fn *put,
    void *to)
{
	const char *end = p + len;

	while (p < end) {
		size_t n = 0;

		while (p + n < end && (p[n] == '\0' || strchr(quoted, p[n]) == NULL))
			n++;
		asked_show(p, n, false, put, to);
		p += n;
		if (p < end) {
			put(to, instead, strlen(instead));
			put(to, p++, 1);
		}
	}
}

void
asked_name(const void *data, size_t len, visible_put_fn *put, void *to)
{
	show_quoted(data, len, "'\\", "\\", put, to);
}

size_t
asked_word(const char *word, visible_put_fn *put, void *to)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "%+,-./:=@_";
	const size_t len = strlen(word);
	size_t head, tail;
	char mark[MARK_SIZE];

	if (len > 0 && len <= ASKED_LINE_MAX && word[strspn(word, plain)] == '\0') {
		put(to, word, len);
		return 0;
	}
	put(to, "'", 1);
	if (asked_split(word, len, &head, &tail)) {
		show_quoted(word, head, "'", "'\\'", put, to);
		put(to, mark, (size_t)snprintf(mark, sizeof(mark), ASKED_BYTES_CUT, tail - head));
	}
	show_quoted(word + (head < tail ? tail : 0), head < tail ? len - tail : len, "'", "'\\'",
	    put, to);
	put(to, "'", 1);
	return tail - head;
}

/* ---- lines ---- */

size_t
asked_hidden(size_t n)
{
	return n > ASKED_LINES_MAX ? n - ASKED_LINES_MAX : 0;
}

bool
asked_is_hidden(size_t i, size_t n)
{
	return n > ASKED_LINES_MAX && i >= ASKED_LINES_HEAD && i < n - ASKED_LINES_TAIL;
}

/* Does the line consist of nothing but blanks? */
static bool
is_empty(const void *data, size_t len)
{
	const char *p = data;

	while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t' || p[len - 1] == '\r'))
		len--;
	return len == 0;
}

bool
asked_counts(size_t *run, const void *line, size_t len, size_t *ret_counted)
{
	*ret_counted = 0;
	if (line != NULL && is_empty(line, len))
		return ++*run > ASKED_EMPTY_MAX;
	if (*run > ASKED_EMPTY_MAX)
		*ret_counted = *run - ASKED_EMPTY_MAX;
	*run = 0;
	return false;
}
