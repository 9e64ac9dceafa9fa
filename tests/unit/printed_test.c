/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp/printed.c: which part of a command's output is shown from an offset on: the pieces are all
 * that was kept, and no character is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/printed.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

/* clang-format off */
static const struct {
	const char *label, *head, *tail;
	uint64_t left_out, from;
	size_t max;
	bool over;
	const char *want_head, *want_tail;
	uint64_t want_left_out, want_next;
	bool want_more;
} cases[] = {
	{ "nothing", "", "", 0, 0, 99, true, "", "", 0, 0, false },
	{ "all", "abc", "", 0, 0, 99, true, "abc", "", 0, 3, false },
	{ "head and tail are one", "abc", "def", 0, 0, 99, true, "abc", "def", 0, 6, false },
	{ "from the middle of the head", "abc", "def", 0, 1, 99, true, "bc", "def", 0, 6, false },
	{ "from the seam", "abc", "def", 0, 3, 99, true, "", "def", 0, 6, false },
	{ "from the middle of the tail", "abc", "def", 0, 5, 99, true, "", "f", 0, 6, false },
	{ "from the end", "abc", "def", 0, 6, 99, true, "", "", 0, 6, false },
	{ "from beyond the end", "abc", "def", 0, 99, 99, true, "", "", 0, 6, false },
	{ "bounded in the head", "abcdef", "gh", 0, 0, 4, true, "abcd", "", 0, 4, true },
	{ "bounded at the seam", "abcd", "efgh", 0, 0, 4, true, "abcd", "", 0, 4, true },
	{ "bounded in the tail", "abc", "def", 0, 0, 5, true, "abc", "de", 0, 5, true },
	{ "over what is missing", "abc", "def", 10, 0, 99, true, "abc", "def", 10, 16, false },
	{ "bounded before what is missing", "abcd", "def", 10, 0, 4, true, "abcd", "", 0, 4, true },
	{ "from the middle of what is missing", "abc", "def", 10, 7, 99, true, "", "def", 6, 16, false },
	{ "from the tail behind what is missing", "abc", "def", 10, 13, 99, true, "", "def", 0, 16, false },
	{ "half a character, the rest is to come", "ab\xe2\x82", "", 0, 0, 99, false, "ab", "", 0, 2, false },
	{ "half a character, and no more comes", "ab\xe2\x82", "", 0, 0, 99, true, "ab\xe2\x82", "", 0, 4, false },
	{ "half a character by the bound", "abc\xe2\x82\xac", "", 0, 0, 5, true, "abc", "", 0, 3, true },
	{ "half a character at the end of the tail", "ab", "c\xf0\x9f\x98", 0, 0, 99, false, "ab", "c", 0, 3, false },
	{ "a whole character", "ab\xe2\x82\xac", "", 0, 0, 99, false, "ab\xe2\x82\xac", "", 0, 5, false },
	{ "what begins no character", "ab\xff", "", 0, 0, 99, false, "ab\xff", "", 0, 3, false },
	{ "what continues none", "\x80\x80\x80\x80", "", 0, 0, 99, false, "\x80\x80\x80\x80", "", 0, 4, false },
};
/* clang-format on */

static struct koda_output
output_of(const char *head, const char *tail, uint64_t left_out)
{
	return (struct koda_output){ .head = head,
		.head_len = strlen(head),
		.tail = tail,
		.tail_len = strlen(tail),
		.left_out = left_out,
		.total = strlen(head) + strlen(tail) + left_out };
}

static void
same(const char *p, size_t len, const char *want)
{
	assert_int_equal(len, strlen(want));
	if (len > 0)
		assert_memory_equal(p, want, len);
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct koda_output all = output_of(cases[i].head, cases[i].tail, cases[i].left_out);
	struct printed p;

	printed_take(&all, cases[i].from, cases[i].max, cases[i].over, &p);
	same(p.head, p.head_len, cases[i].want_head);
	same(p.tail, p.tail_len, cases[i].want_tail);
	assert_int_equal(p.left_out, cases[i].want_left_out);
	assert_int_equal(p.next, cases[i].want_next);
	assert_int_equal(p.more, cases[i].want_more);
}

/* With any bound the pieces make up the whole, and the gap is reported once. */
static void
test_pieces(void **state)
{
	const char *head = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xff\x80",
		   *tail = "\xc3\xa9\xe2\x82\xac!";
	const struct koda_output all = output_of(head, tail, 7);

	for (size_t max = PRINTED_MIN; max < 32; max++) {
		struct text got = { 0 };
		uint64_t from = 0, left_out = 0;
		struct printed p = { .more = true };

		while (p.more) {
			printed_take(&all, from, max, true, &p);
			assert_true(p.next > from);
			assert_true(p.head_len + p.tail_len <= max);
			from = p.next;
			left_out += p.left_out;
			text_add(&got, p.head, p.head_len);
			text_add(&got, p.tail, p.tail_len);
		}
		assert_int_equal(left_out, 7);
		assert_int_equal(got.len, strlen(head) + strlen(tail));
		assert_memory_equal(got.p, head, strlen(head));
		assert_memory_equal(got.p + strlen(head), tail, strlen(tail));
		text_done(&got);
	}
}

static void
test_json(void **state)
{
	const struct printed whole = { .head = "a\xe2\x82",
		.head_len = 3,
		.tail = "\xac\0b",
		.tail_len = 3 };
	const struct printed holed = { .head = "a",
		.head_len = 1,
		.tail = "b\xff",
		.tail_len = 2,
		.left_out = 5 };
	json_t *json = printed_json(&whole);

	/* A character across the seam is whole, and a NUL is replaced. */
	assert_string_equal(json_string_value(json_object_get(json, "text")),
	    "a\xe2\x82\xac\xef\xbf\xbd"
	    "b");
	assert_null(json_object_get(json, "tail"));
	assert_null(json_object_get(json, "left_out"));
	json_decref(json);
	json = printed_json(&holed);
	assert_string_equal(json_string_value(json_object_get(json, "text")), "a");
	assert_string_equal(json_string_value(json_object_get(json, "tail")), "b\xef\xbf\xbd");
	assert_int_equal(json_integer_value(json_object_get(json, "left_out")), 5);
	json_decref(json);
}

static void
test_for_a_person(void **state)
{
	const struct printed p = { .head = "a\033[2J\tb\nc\r\n\xe2\x80\xae",
		.head_len = 14,
		.tail = "d\n",
		.tail_len = 2,
		.left_out = 3 };
	struct text t = { 0 };

	printed_show(&t, &p);
	same(t.p, t.len, "a\\x1b[2J\tb\nc\\x0d\n\\u{202e}\n[3 bytes left out]\nd\n");
	text_done(&t);
}

int
main(void)
{
	const struct CMUnitTest single[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_for_a_person),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(single)];
	size_t n = 0;

	for (; n < N_ELEMENTS(cases); n++)
		tests[n] = (struct CMUnitTest){ cases[n].label, check_case, NULL, NULL, (void *)n };
	OTHERS(single);
	return cmocka_run_group_tests_name("printed", tests, NULL, NULL);
}
