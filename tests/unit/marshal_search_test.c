/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/search/marshal_search.c: which searches can be requested, and which results of a
 * compromised search process the host rejects.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/search/marshal_search.h"
#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"
#include "tests/kit/cases.h"

static const char *const one[] = { "x" }, *const nothing[] = { NULL }, *const empty[] = { "" };
static const char *const no_type[] = { "no-such-type" }, *const c_type[] = { "c" };
static char over_long[PATH_LEN_MAX + 2];
static const char *const long_path[] = { over_long };

/* ---- requests ---- */

static const struct {
	const char *label;
	struct koda_search_options options;
	enum koda_code want;
	const char *says;
} asks[] = {
	{ "a glob", { .kind = KODA_SEARCH_GLOB, .globs = one, .n_globs = 1 }, KODA_OK, "" },
	{ "all files", { .kind = KODA_SEARCH_GLOB }, KODA_OK, "" },
	{ "a grep", { .kind = KODA_SEARCH_GREP, .patterns = one, .n_patterns = 1 }, KODA_OK, "" },
	{ "an empty pattern", { .kind = KODA_SEARCH_GREP, .patterns = empty, .n_patterns = 1 },
	    KODA_OK, "" },
	{ "a tree", { .kind = KODA_SEARCH_TREE }, KODA_OK, "" },
	{ "a type", { .kind = KODA_SEARCH_GLOB, .types = c_type, .n_types = 1 }, KODA_OK, "" },
	{ "no kind", { .n_globs = 0 }, KODA_INVALID, "no such kind of search" },
	{ "a kind that is none", { .kind = (enum koda_search_kind)4 }, KODA_INVALID,
	    "no such kind of search" },
	{ "a flag that is none", { .kind = KODA_SEARCH_GLOB, .flags = 1u << 30 }, KODA_INVALID,
	    "flag" },
	{ "counts and files",
	    { .kind = KODA_SEARCH_GREP,
		.flags = KODA_SEARCH_COUNT | KODA_SEARCH_FILES,
		.patterns = one,
		.n_patterns = 1 },
	    KODA_INVALID, "only one of" },
	{ "a grep for nothing", { .kind = KODA_SEARCH_GREP }, KODA_INVALID, "needs a pattern" },
	{ "a glob with a pattern", { .kind = KODA_SEARCH_GLOB, .patterns = one, .n_patterns = 1 },
	    KODA_INVALID, "for content" },
	{ "a pattern that is missing",
	    { .kind = KODA_SEARCH_GREP, .patterns = nothing, .n_patterns = 1 }, KODA_INVALID,
	    "NULL" },
	{ "paths that are missing", { .kind = KODA_SEARCH_GLOB, .n_paths = 1 }, KODA_INVALID,
	    "NULL" },
	{ "an empty path", { .kind = KODA_SEARCH_GLOB, .paths = empty, .n_paths = 1 }, KODA_INVALID,
	    "" },
	{ "an over-long path", { .kind = KODA_SEARCH_GLOB, .paths = long_path, .n_paths = 1 },
	    KODA_INVALID, "" },
	{ "a type that is none", { .kind = KODA_SEARCH_GLOB, .types = no_type, .n_types = 1 },
	    KODA_INVALID, "no file type 'no-such-type'" },
	{ "the same, not wanted",
	    { .kind = KODA_SEARCH_GLOB, .types_not = no_type, .n_types_not = 1 }, KODA_INVALID,
	    "no file type" },
	{ "too many paths",
	    { .kind = KODA_SEARCH_GLOB, .paths = one, .n_paths = SEARCH_PATHS_MAX + 1 },
	    KODA_TOO_LARGE, "the limit is 1024" },
	{ "too many globs",
	    { .kind = KODA_SEARCH_GLOB, .globs = one, .n_globs = SEARCH_GLOBS_MAX + 1 },
	    KODA_TOO_LARGE, "the limit is" },
	{ "too much context",
	    { .kind = KODA_SEARCH_GREP,
		.patterns = one,
		.n_patterns = 1,
		.after = SEARCH_CONTEXT_MAX + 1 },
	    KODA_TOO_LARGE, "context" },
	{ "lines that are too long",
	    { .kind = KODA_SEARCH_GREP,
		.patterns = one,
		.n_patterns = 1,
		.max_columns = SEARCH_COLUMNS_MAX + 1 },
	    KODA_TOO_LARGE, "max_columns" },
};

static void
check_ask(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct packed packed = { 0 };
	struct koda_error err = { 0 };
	int r = marshal_search(&asks[i].options, 2, &packed, &err);

	assert_int_equal(r, asks[i].want == KODA_OK ? 0 : -1);
	assert_int_equal(err.code, asks[i].want);
	if (r < 0 && strstr(err.message, asks[i].says) == NULL)
		fail_msg("%s", err.message);
	packed_done(&packed);
}

/* Defaults are filled in here: on the wire no zero means something else. */
static void
defaults(void **state)
{
	const struct koda_search_options o = { .kind = KODA_SEARCH_TREE };
	struct packed packed = { 0 };
	struct arena arena;
	Koda__Request *req;

	arena_init(&arena);
	assert_int_equal(marshal_search(&o, 2, &packed, NULL), 0);
	req = request_unpack(&packed, &arena);
	assert_non_null(req);
	assert_int_equal(req->id, 2);
	assert_int_equal(req->search->limit, KODA_SEARCH_LIMIT);
	assert_int_equal(req->search->max_columns, KODA_SEARCH_COLUMNS);
	packed_done(&packed);
	arena_done(&arena);
}

/* ---- results ---- */

static uint32_t spans[] = { 0, 1, 2, 3 }, half_span[] = { 0 }, far_span[] = { 0, 4 };
static uint32_t crossed[] = { 1, 3, 2, 3 }, backwards[] = { 2, 1 };

#define GREP                                                                                       \
	{                                                                                          \
		.kind = KODA_SEARCH_GREP, .max_columns = 8, .before = 2                            \
	}
#define COUNT                                                                                      \
	{                                                                                          \
		.kind = KODA_SEARCH_GREP, .flags = KODA_SEARCH_COUNT                               \
	}
#define GLOB                                                                                       \
	{                                                                                          \
		.kind = KODA_SEARCH_GLOB                                                           \
	}
#define TREE                                                                                       \
	{                                                                                          \
		.kind = KODA_SEARCH_TREE                                                           \
	}
#define ITEM(k, ...)                                                                               \
	{                                                                                          \
		.base = PROTOBUF_C_MESSAGE_INIT(&koda__found_item__descriptor),                    \
		.kind = KODA__FOUND_KIND__FOUND_##k, ##__VA_ARGS__                                 \
	}
#define AT(p)                                                                                      \
	.has_place = true, .has_path = true, .path = { sizeof(p) - 1, (uint8_t *)(uintptr_t)(p) }
#define LINE(t)                                                                                    \
	.has_line = true, .line = 1, .has_offset = true, .has_text = true,                         \
	.text = { sizeof(t) - 1, (uint8_t *)(uintptr_t)(t) }

static const struct {
	const char *label;
	struct koda_search_options asked;
	Koda__FoundItem item;
	bool believed;
} tells[] = {
	{ "a file", GLOB, ITEM(FILE, AT("a/b")), true },
	{ "the place itself", GLOB, ITEM(FILE, AT("")), true },
	{ "odd names", GLOB, ITEM(FILE, AT("..a/b../.c/\n")), true },
	{ "a line", GREP, ITEM(MATCH, AT("a"), LINE("abc"), .n_span = 4, .span = spans), true },
	{ "an empty line", GREP, ITEM(MATCH, AT("a"), LINE("")), true },
	{ "context", GREP, ITEM(CONTEXT, AT("a"), LINE("abc")), true },
	{ "binary", GREP, ITEM(BINARY, AT("a")), true },
	{ "a count", COUNT, ITEM(COUNT, AT("a"), .has_count = true, .count = 1), true },
	{ "a directory", TREE,
	    ITEM(ENTRY, AT("a"), .has_type = true, .type = KODA__FILE_TYPE__FILE_DIRECTORY,
		.has_size = true, .has_depth = true, .has_files = true),
	    true },
	{ "trouble", GLOB, ITEM(TROUBLE, AT("a"), .has_text = true), true },
	{ "no path", GLOB, ITEM(FILE), false },
	{ "a path without a place", GLOB, ITEM(FILE, .has_path = true), false },
	{ "a place without a path", GLOB, ITEM(FILE, .has_place = true), false },
	{ "a place that was not asked for", GLOB, ITEM(FILE, AT("a"), .place = 1), false },
	{ "an absolute path", GLOB, ITEM(FILE, AT("/etc")), false },
	{ "a path that goes up", GLOB, ITEM(FILE, AT("a/../../b")), false },
	{ "a path that stays", GLOB, ITEM(FILE, AT("a/./b")), false },
	{ "an empty name", GLOB, ITEM(FILE, AT("a//b")), false },
	{ "a slash at the end", GLOB, ITEM(FILE, AT("a/")), false },
	{ "a NUL in a path", GLOB, ITEM(FILE, AT("a\0b")), false },
	{ "an over-long path", GLOB, ITEM(FILE, AT(over_long)), false },
	{ "a file of a grep for lines", GREP, ITEM(FILE, AT("a")), false },
	{ "a line of a glob", GLOB, ITEM(MATCH, AT("a"), LINE("abc")), false },
	{ "a line of a count", COUNT, ITEM(MATCH, AT("a"), LINE("abc")), false },
	{ "an entry of a glob", GLOB, ITEM(ENTRY, AT("a")), false },
	{ "a line without a number", GREP,
	    ITEM(MATCH, AT("a"), .has_offset = true, .has_text = true), false },
	{ "line zero", GREP,
	    ITEM(MATCH, AT("a"), .has_line = true, .has_offset = true, .has_text = true), false },
	{ "a line without text", GREP,
	    ITEM(MATCH, AT("a"), .has_line = true, .line = 1, .has_offset = true), false },
	{ "a longer line than asked for", GREP, ITEM(MATCH, AT("a"), LINE("123456789")), false },
	{ "two lines", GREP, ITEM(MATCH, AT("a"), LINE("a\nb")), false },
	{ "half a span", GREP, ITEM(MATCH, AT("a"), LINE("abc"), .n_span = 1, .span = half_span),
	    false },
	{ "a span behind the line", GREP,
	    ITEM(MATCH, AT("a"), LINE("abc"), .n_span = 2, .span = far_span), false },
	{ "spans that cross", GREP, ITEM(MATCH, AT("a"), LINE("abc"), .n_span = 4, .span = crossed),
	    false },
	{ "a span backwards", GREP,
	    ITEM(MATCH, AT("a"), LINE("abc"), .n_span = 2, .span = backwards), false },
	{ "a match in context", GREP,
	    ITEM(CONTEXT, AT("a"), LINE("abc"), .n_span = 4, .span = spans), false },
	{ "a count of nothing", COUNT, ITEM(COUNT, AT("a"), .has_count = true), false },
	{ "an entry without a size", TREE,
	    ITEM(ENTRY, AT("a"), .has_type = true, .has_depth = true), false },
	{ "a file with files below it", TREE,
	    ITEM(ENTRY, AT("a"), .has_type = true, .type = KODA__FILE_TYPE__FILE_REGULAR,
		.has_size = true, .has_depth = true, .has_files = true),
	    false },
	{ "an entry in the depths", TREE,
	    ITEM(ENTRY, AT("a"), .has_type = true, .type = KODA__FILE_TYPE__FILE_REGULAR,
		.has_size = true, .has_depth = true, .depth = 1u << 31),
	    false },
	{ "trouble without a reason", GLOB, ITEM(TROUBLE, AT("a")), false },
};

static void
check_told(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct marshal_found m;
	struct koda_found found;
	struct koda_error err = { 0 };
	int r;

	marshal_found_init(&m, &tells[i].asked);
	marshal_found_page(&m);
	r = marshal_found_item(&m, &tells[i].item, &found, &err);
	assert_int_equal(r, tells[i].believed ? 0 : -1);
	assert_int_equal(err.code, tells[i].believed ? KODA_OK : KODA_PROTOCOL);
	marshal_found_done(&m);
}

/* An item without a path has the path of the item before on the same page, never of another
 * page. */
static void
same_path(void **state)
{
	const struct koda_search_options asked = GREP;
	const Koda__FoundItem first = ITEM(MATCH, AT("a/b"), LINE("abc")),
			      next = ITEM(MATCH, LINE("def"));
	struct marshal_found m;
	struct koda_found found;

	marshal_found_init(&m, &asked);
	marshal_found_page(&m);
	assert_int_equal(marshal_found_item(&m, &first, &found, NULL), 0);
	assert_int_equal(marshal_found_item(&m, &next, &found, NULL), 0);
	assert_string_equal(found.path, "a/b");
	marshal_found_page(&m);
	assert_int_equal(marshal_found_item(&m, &next, &found, NULL), -1);
	marshal_found_done(&m);
}

static void
one_too_many(void **state)
{
	const struct koda_search_options asked = { .kind = KODA_SEARCH_GLOB, .limit = 2 };
	const Koda__FoundItem item = ITEM(FILE, AT("a")),
			      trouble = ITEM(TROUBLE, AT("a"), .has_text = true);
	struct marshal_found m;
	struct koda_found found;

	marshal_found_init(&m, &asked);
	marshal_found_page(&m);
	assert_int_equal(marshal_found_item(&m, &item, &found, NULL), 0);
	assert_int_equal(marshal_found_item(&m, &trouble, &found, NULL), 0);
	assert_int_equal(marshal_found_item(&m, &item, &found, NULL), 0);
	assert_int_equal(marshal_found_item(&m, &item, &found, NULL), -1);
	marshal_found_done(&m);
}

/* Context and trouble, which the search's own limit does not count, are bounded too. */
static void
without_end(void **state)
{
	const struct koda_search_options asked = GREP;
	const Koda__FoundItem match = ITEM(MATCH, AT("a"), LINE("abc")),
			      context = ITEM(CONTEXT, AT("a"), LINE("abc")),
			      trouble = ITEM(TROUBLE, AT("a"), .has_text = true);
	struct marshal_found m;
	struct koda_found found;

	marshal_found_init(&m, &asked);
	marshal_found_page(&m);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(marshal_found_item(&m, &context, &found, NULL), 0);
		assert_int_equal(marshal_found_item(&m, &context, &found, NULL), 0);
		assert_int_equal(marshal_found_item(&m, &match, &found, NULL), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(marshal_found_item(&m, &context, &found, NULL), 0);
	assert_int_equal(marshal_found_item(&m, &context, &found, NULL), -1);
	for (int i = 0; i < SEARCH_TROUBLES_MAX; i++)
		assert_int_equal(marshal_found_item(&m, &trouble, &found, NULL), 0);
	assert_int_equal(marshal_found_item(&m, &trouble, &found, NULL), -1);
	/* A restarted search reports it again. */
	marshal_found_again(&m);
	assert_int_equal(marshal_found_item(&m, &trouble, &found, NULL), 0);
	marshal_found_done(&m);
}

static void
sums(void **state)
{
	const struct koda_search_options asked = GLOB;
	const Koda__FoundItem item = ITEM(FILE, AT("a"));
	Koda__Searched sum = KODA__SEARCHED__INIT;
	struct koda_search_result result;
	struct marshal_found m;
	struct koda_found found;

	marshal_found_init(&m, &asked);
	marshal_found_page(&m);
	assert_int_equal(marshal_found_item(&m, &item, &found, NULL), 0);
	assert_int_equal(marshal_searched(&m, &sum, &result, NULL), -1);
	sum.found = 1;
	sum.hidden = 3;
	assert_int_equal(marshal_searched(&m, &sum, &result, NULL), 0);
	assert_int_equal(result.found, 1);
	assert_int_equal(result.hidden, 3);
	m.troubles = 1;
	assert_int_equal(marshal_searched(&m, &sum, &result, NULL), -1);
	marshal_found_done(&m);
}

static void
shown_reason(void **state)
{
	const struct koda_search_options asked = GLOB;
	const Koda__FoundItem trouble = ITEM(TROUBLE, AT("a"), .has_text = true,
	    .text = { 4, (uint8_t *)(uintptr_t) "\x1b[2J" });
	struct marshal_found m;
	struct koda_found found;

	marshal_found_init(&m, &asked);
	marshal_found_page(&m);
	assert_int_equal(marshal_found_item(&m, &trouble, &found, NULL), 0);
	assert_string_equal(found.reason, "\\x1b[2J");
	marshal_found_done(&m);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(asks) + N_ELEMENTS(tells) + 9];
	size_t n = 0;

	memset(over_long, 'x', sizeof(over_long) - 1);
	CASES(asks, check_ask);
	CASES(tells, check_told);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(defaults);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(same_path);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(one_too_many);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(without_end);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(sums);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(shown_reason);
	return _cmocka_run_group_tests("marshal_search", tests, n, NULL, NULL);
}
