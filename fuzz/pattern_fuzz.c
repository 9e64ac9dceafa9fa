/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input: a pattern and a text. No pattern causes a crash; matches ascend, do not overlap, stay in
 * their line, and are those that PCRE2 finds in each line with the original pattern.
 */
#include "fuzz/fuzz.h"
#include "search/decode.h"
#include "search/pattern.h"
#include "shared/base/cleanup.h"

/* These keep each input fast: every byte of the text may use up the whole limit of steps. */
#define PATTERN_MAX 200
#define TEXT_MAX    48

static const unsigned flag_of[] = { KODA_SEARCH_FIXED, KODA_SEARCH_IGNORE_CASE,
	KODA_SEARCH_SMART_CASE, KODA_SEARCH_WORD, KODA_SEARCH_WHOLE_LINE, KODA_SEARCH_MULTILINE,
	KODA_SEARCH_DOTALL };

struct model {
	struct program *utf8, *broken;
};

static void
model_init(struct model *m, const char *pattern, unsigned flags)
{
	unsigned how = (flags & KODA_SEARCH_IGNORE_CASE) != 0 ? PROGRAM_IGNORE_CASE : 0;

	m->utf8 = program_new(pattern, strlen(pattern), PROGRAM_UTF8, how, 0, NULL);
	m->broken = program_new(pattern, strlen(pattern), PROGRAM_BROKEN, how, 0, NULL);
}

/* Find the first matching line from *at on. Returns 1 with *ret, 0, or -1 if it cannot decide. */
static int
model_next(struct model *m, const char *text, size_t len, size_t *at, struct grep_span *ret)
{
	while (*at <= len) {
		const char *end = memchr(text + *at, '\n', len - *at);
		size_t n = (end != NULL ? (size_t)(end - text) : len) - *at;
		struct program *p = decode_is_utf8(text + *at, n) ? m->utf8 : m->broken;
		int r = program_match(p, text + *at, n, 0, &ret->start, &ret->end, NULL);

		ret->start += *at;
		ret->end += *at;
		*at += n + 1;
		if (r != 0)
			return r;
	}
	return 0;
}

/* Compare the first match of each line that has one. */
static void
check_lines(struct pattern *p, struct model *m, const char *text, size_t len)
{
	struct pattern_cursor c;
	struct grep_span want, got;
	size_t at = 0;
	int w, g;

	pattern_begin(&c, text, len, false);
	do {
		w = model_next(m, text, len, &at, &want);
		g = pattern_next(p, &c, &got, NULL);
		/* Either way may reach a limit first: that is not an error. */
		if (w < 0 || g < 0)
			return;
		must(w == g);
		must(w == 0 || (want.start == got.start && want.end == got.end));
		pattern_go_to(&c, at);
	} while (w > 0);
}

static void
check_all(struct pattern *p, const char *text, size_t len, bool multiline)
{
	struct pattern_cursor c;
	struct grep_span span = { 0, 0 };
	size_t end = 0, n = 0;

	pattern_begin(&c, text, len, false);
	while (pattern_next(p, &c, &span, NULL) > 0) {
		must(span.start <= span.end && span.end <= len);
		must(n == 0 || span.start >= end);
		must(multiline || memchr(text + span.start, '\n', span.end - span.start) == NULL);
		must(++n <= 2 * len + 2);
		end = span.end;
	}
	must(pattern_ticks(p) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 2 ? memchr(data + 1, '\0', size - 1) : NULL;
	const char *pattern = (const char *)data + 1;
	struct grep_options options = { .patterns = &pattern, .n_patterns = 1, .max_columns = 80 };
	cleanup_free char *text = NULL;
	struct pattern *p;
	struct model m = { NULL, NULL };
	size_t len;

	if (nul == NULL || nul - data > PATTERN_MAX)
		return 0;
	for (size_t i = 0; i < N_ELEMENTS(flag_of); i++)
		if ((data[0] >> i & 1) != 0)
			options.flags |= flag_of[i];
	p = pattern_new(&options, NULL);
	if (p == NULL)
		return 0;
	len = size - (size_t)(nul + 1 - data);
	len = len < TEXT_MAX ? len : TEXT_MAX;
	/* Exactly as long as the text, so that a sanitizer sees a read beyond its end. */
	text = malloc(len + 1);
	must(text != NULL);
	memcpy(text, nul + 1, len);
	check_all(p, text, len, pattern_is_multiline(p));
	if ((options.flags & ~(unsigned)KODA_SEARCH_IGNORE_CASE) == 0 && pattern[0] != '(') {
		model_init(&m, pattern, options.flags);
		if (m.utf8 != NULL && m.broken != NULL)
			check_lines(p, &m, text, len);
	}
	program_free(m.utf8);
	program_free(m.broken);
	pattern_free(p);
	return 0;
}
