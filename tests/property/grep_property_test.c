/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grep with all its shortcuts (searching for literal text first, many lines at once, ASCII without
 * UTF) against a model without any: PCRE2 with the pattern as given, in each line alone, or over
 * the whole text with multiline. Over random patterns and texts every line, its number, its offset
 * and each span have to be the same.
 */
#include "tests/kit/patterns.h"

#include <sys/mman.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "search/grep.h"

#define TEXTS         6
#define TEXT_SIZE     400
#define LISTING_SIZE  (64 * TEXT_SIZE)
#define LIMITED_STEPS 100000

struct tree_listing {
	char text[LISTING_SIZE];
	size_t len;
};

static proof_unused __attribute__((format(printf, 2, 3))) void
list(struct tree_listing *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	l->len += (size_t)vsnprintf(l->text + l->len, sizeof(l->text) - l->len, fmt, ap);
	va_end(ap);
	assert_true(l->len < sizeof(l->text));
}

/* ---- the model ---- */

struct model {
	pcre2_code *code;   /* with the JIT, for UTF-8 */
	pcre2_code *broken; /* without, for invalid UTF-8: the two differ in the text next to it */
	pcre2_match_data *match;
	pcre2_match_context *context;
	bool limited; /* it hit a limit */
};

static pcre2_code *
model_compile(const char *pattern, uint32_t options)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	pcre2_code *code;
	size_t offset;
	int error;

	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	code =
	    pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), options, &error, &offset, context);
	pcre2_compile_context_free(context);
	return code;
}

static bool
model_init(struct model *m, const char *pattern, unsigned flags)
{
	uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
	const char *before = "", *behind = "";
	char whole[PATTERN_SIZE + 32];

	if ((flags & KODA_SEARCH_IGNORE_CASE) != 0)
		options |= PCRE2_CASELESS;
	if ((flags & KODA_SEARCH_MULTILINE) != 0 && (flags & KODA_SEARCH_DOTALL) != 0)
		options |= PCRE2_DOTALL;
	if ((flags & KODA_SEARCH_WORD) != 0) {
		before = "(?<!\\w)(?:";
		behind = ")(?!\\w)";
	} else if ((flags & KODA_SEARCH_WHOLE_LINE) != 0) {
		before = "^(?:";
		behind = ")$";
	}
	snprintf(whole, sizeof(whole), "%s%s%s", before, pattern, behind);
	*m = (struct model){ .match = pcre2_match_data_create(1, NULL),
		.context = pcre2_match_context_create(NULL),
		.code = model_compile(whole, options),
		.broken = model_compile(whole, options | PCRE2_MATCH_INVALID_UTF) };
	pcre2_set_match_limit(m->context, LIMITED_STEPS);
	if (m->code != NULL)
		pcre2_jit_compile(m->code, PCRE2_JIT_COMPLETE);
	return m->code != NULL;
}

static void
model_done(struct model *m)
{
	pcre2_code_free(m->code);
	pcre2_code_free(m->broken);
	pcre2_match_data_free(m->match);
	pcre2_match_context_free(m->context);
}

/* Matches in order: none overlaps the previous one, and none is empty where that one ended,
 * except at the beginning of a line. */
struct matches {
	const char *text;
	size_t len, at, last;
	const pcre2_code *code;
};

static struct matches
model_begin(const struct model *m, const char *text, size_t len)
{
	int r = pcre2_match(m->code, (PCRE2_SPTR)text, len, 0, 0, m->match, m->context);
	bool broken = r <= PCRE2_ERROR_UTF8_ERR1 && r >= PCRE2_ERROR_UTF8_ERR21;

	return (struct matches){ text, len, 0, SIZE_MAX, broken ? m->broken : m->code };
}

static bool
model_next(struct model *m, struct matches *all, struct grep_span *ret)
{
	const size_t *found = pcre2_get_ovector_pointer(m->match);

	while (all->at <= all->len) {
		int r = pcre2_match(all->code, (PCRE2_SPTR)all->text, all->len, all->at, 0,
		    m->match, m->context);

		if (r < 0) {
			m->limited |= r != PCRE2_ERROR_NOMATCH;
			return false;
		}
		ret->end = found[1];
		ret->start = found[0] > found[1] ? found[1]
		    : found[0] < all->at         ? all->at
						 : found[0];
		if (ret->start < ret->end) {
			all->at = all->last = ret->end;
			return true;
		}
		all->at = ret->end + 1;
		while (all->at < all->len && (unsigned char)all->text[ret->end] >= 0xc0 &&
		    ((unsigned char)all->text[all->at] & 0xc0) == 0x80)
			all->at++;
		if (ret->end != all->last || (ret->end > 0 && all->text[ret->end - 1] == '\n')) {
			all->last = ret->end;
			return true;
		}
	}
	return false;
}

static void
model_lines(struct model *m, const char *text, size_t len, struct tree_listing *ret)
{
	unsigned number = 1;

	for (size_t at = 0; at < len; number++) {
		const char *newline = memchr(text + at, '\n', len - at);
		size_t end = newline != NULL ? (size_t)(newline - text) : len;
		struct matches all = model_begin(m, text + at, end - at);
		struct grep_span span;
		bool any = false;

		while (model_next(m, &all, &span)) {
			if (!any)
				list(ret, "%u@%zu", number, at);
			list(ret, " %zu-%zu", span.start, span.end);
			any = true;
		}
		list(ret, any ? "\n" : "");
		at = newline != NULL ? end + 1 : len;
	}
}

static void
model_whole(struct model *m, const char *text, size_t len, struct tree_listing *ret)
{
	struct grep_span spans[TEXT_SIZE + 2];
	struct matches all = model_begin(m, text, len);
	unsigned number = 1;
	size_t n = 0;

	while (model_next(m, &all, &spans[n]) && spans[n].start < len + (text[len - 1] != '\n'))
		n++;
	for (size_t at = 0; at < len; number++) {
		const char *newline = memchr(text + at, '\n', len - at);
		size_t end = newline != NULL ? (size_t)(newline - text) : len;
		size_t next = newline != NULL ? end + 1 : len;
		bool any = false;

		for (size_t i = 0; i < n; i++) {
			size_t from = spans[i].start > at ? spans[i].start : at;
			size_t to = spans[i].end < end ? spans[i].end : end;

			if (spans[i].start > end || (spans[i].end <= at && spans[i].start < at))
				continue;
			if (!any)
				list(ret, "%u@%zu", number, at);
			list(ret, " %zu-%zu", from - at, to - at);
			any = true;
		}
		list(ret, any ? "\n" : "");
		at = next;
	}
}

/* ---- the implementation ---- */

static int
list_line(void *data, const struct grep_line *line)
{
	struct tree_listing *l = data;

	assert_true(line->is_match);
	list(l, "%llu@%llu", (unsigned long long)line->line, (unsigned long long)line->offset);
	for (size_t i = 0; i < line->n_spans; i++)
		list(l, " %zu-%zu", line->spans[i].start, line->spans[i].end);
	list(l, "\n");
	return 0;
}

struct counts {
	const char *pattern; /* the pattern under test */
	unsigned flags;
	unsigned patterns, refused, texts, matched, limited;
};

static int memory = -1; /* the file that is searched */

static void
put_text(const char *text, size_t len)
{
	assert_int_equal(ftruncate(memory, 0), 0);
	assert_int_equal(pwrite(memory, text, len, 0), (ssize_t)len);
}

static void
check_text(struct grep *grep, struct model *m, struct rng *rng, bool multiline,
    struct counts *counts)
{
	static struct tree_listing want, got;
	char text[TEXT_SIZE];
	struct grep_file file;
	struct koda_error err;
	/* Matches next to a byte that is not UTF-8 depend on whether the text is split into
	 * lines; the line is what counts. */
	size_t len = text_random(rng, text, sizeof(text), multiline);
	int r;

	want.len = got.len = 0;
	want.text[0] = got.text[0] = '\0';
	put_text(text, len);
	m->limited = false;
	if (len > 0) {
		if (multiline)
			model_whole(m, text, len, &want);
		else
			model_lines(m, text, len, &want);
	}
	r = grep_file(grep, memory, len, true, list_line, &got, &file, &err);
	counts->texts++;
	if (m->limited || r < 0) {
		counts->limited++;
		return;
	}
	counts->matched += want.len > 0;
	if (strcmp(got.text, want.text) != 0) {
		fprintf(stderr, "# flags %#x pattern %s\n# text: ", counts->flags, counts->pattern);
		for (size_t i = 0; i < len; i++)
			fprintf(stderr, text[i] >= ' ' && text[i] < 127 ? "%c" : "\\x%02x",
			    (unsigned char)text[i]);
		fprintf(stderr, "\n# wanted:\n%s# got:\n%s", want.text, got.text);
		fail_msg("not what PCRE2 finds");
	}
}

static void
check_pattern(struct rng *rng, struct counts *counts)
{
	static const unsigned some[] = { 0, 0, 0, KODA_SEARCH_IGNORE_CASE, KODA_SEARCH_IGNORE_CASE,
		KODA_SEARCH_WORD, KODA_SEARCH_WHOLE_LINE, KODA_SEARCH_MULTILINE,
		KODA_SEARCH_MULTILINE | KODA_SEARCH_DOTALL,
		KODA_SEARCH_MULTILINE | KODA_SEARCH_IGNORE_CASE };
	struct pattern_text p;
	unsigned flags = pick_from(rng, some);
	const char *patterns[1] = { p.text };
	struct grep_options options = { .flags = flags,
		.patterns = patterns,
		.n_patterns = 1,
		.max_columns = TEXT_SIZE };
	struct koda_error err;
	struct grep *grep;
	struct model m;
	bool understood;

	pattern_random(&p, rng, DIALECT_PCRE2);
	counts->patterns++;
	understood = model_init(&m, p.text, flags);
	grep = grep_new(&options, &err);
	if (grep == NULL) {
		/* A pattern that PCRE2 accepts is refused only for a reason of grep's own. */
		if (understood && strstr(err.message, "end of its line") == NULL &&
		    strstr(err.message, "callouts") == NULL &&
		    strstr(err.message, "settings") == NULL)
			fail_msg("refused: %s", err.message);
		counts->refused++;
		model_done(&m);
		return;
	}
	if (!understood)
		fail_msg("not refused: '%s'", p.text);
	counts->pattern = p.text;
	counts->flags = flags;
	for (unsigned i = 0; i < TEXTS; i++)
		check_text(grep, &m, rng, (flags & KODA_SEARCH_MULTILINE) != 0, counts);
	grep_free(grep);
	model_done(&m);
}

static void
check_all(void **state)
{
	const uint64_t n = proof_number("KODA_TEST_PATTERNS", 4000);
	struct rng rng = { proof_seed() };
	struct counts counts = { .patterns = 0 };

	memory = memfd_create("text", MFD_CLOEXEC);
	assert_true(memory >= 0);
	for (uint64_t i = 0; i < n; i++)
		check_pattern(&rng, &counts);
	close(memory);
	fprintf(stderr, "# %u patterns, %u refused; %u texts, %u with a match, %u beyond limits\n",
	    counts.patterns, counts.refused, counts.texts, counts.matched, counts.limited);
	assert_true(counts.refused < counts.patterns / 2);
	assert_true(counts.matched > counts.texts / 4 && counts.matched < counts.texts);
	assert_true(counts.limited < counts.texts / 50);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(check_all) };

	return cmocka_run_group_tests_name("grep finds what PCRE2 finds", tests, NULL, NULL);
}
