/* SPDX-License-Identifier: Apache-2.0 */
/* show/visible.c: what is a character, and how a text with invalid bytes looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/base/utf8.h"
#include "show/visible.h"

#define BAD "\xef\xbf\xbd"

static const struct {
	const char *label, *in;
	size_t max;
	const char *out;
} cases[] = {
	/* clang-format off */
	{ "text", "plain", 99, "plain" },
	{ "of two, three and four bytes", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", 99, "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80" },
	{ "a byte that begins nothing", "a\xff" "b", 99, "a" BAD "b" },
	{ "a byte that goes on with nothing", "a\x80" "b", 99, "a" BAD "b" },
	{ "over-long", "\xc0\xaf\xe0\x80\xaf", 99, BAD BAD BAD BAD BAD },
	{ "a surrogate", "\xed\xa0\x80", 99, BAD BAD BAD },
	{ "above the last", "\xf4\x90\x80\x80", 99, BAD BAD BAD BAD },
	{ "half a character at the end", "a\xe2\x82", 99, "a" BAD BAD },
	{ "cut", "abc", 2, "ab" },
	{ "cut between characters", "a\xe2\x82\xac", 3, "a" },
	{ "cut to nothing", "\xe2\x82\xac", 2, "" },
	{ "nothing", "", 99, "" },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state, len = strlen(cases[i].in), n;
	char out[VISIBLE_LOSSY_SIZE(99)];

	n = visible_lossy(cases[i].in, len, cases[i].max, out);
	assert_string_equal(out, cases[i].out);
	assert_int_equal(n, strlen(cases[i].out));
	assert_true(utf8_is_valid(out, n));
	assert_int_equal(utf8_is_valid(cases[i].in, len), strstr(cases[i].out, BAD) == NULL);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("visible", tests, NULL, NULL);
}
