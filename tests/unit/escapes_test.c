/* SPDX-License-Identifier: Apache-2.0 */
/* cli/escapes.c: what reaches the user's terminal, also when it comes in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/escapes.h"
#include "shared/base/cleanup.h"

static const struct {
	const char *label, *in, *out;
} cases[] = {
	/* clang-format off */
	{ "text", "plain \t\r\n text", "plain \t\r\n text" },
	{ "UTF-8", "gr\xc3\xbc\xc3\x9f \xc2\xa9 \xe2\x82\xac", "gr\xc3\xbc\xc3\x9f \xc2\xa9 \xe2\x82\xac" },
	{ "colour", "\033[1;31mred\033[0m", "\033[1;31mred\033[0m" },
	{ "cursor and modes", "\033[2J\033[10;5H\033[?1049h\033[?25l\033[6n\033[>c", "\033[2J\033[10;5H\033[?1049h\033[?25l\033[6n\033[>c" },
	{ "two-letter sequences", "\0337\0338\033M\033=\033(B", "\0337\0338\033M\033=\033(B" },
	{ "title", "a\033]0;evil\007b", "ab" },
	{ "clipboard", "a\033]52;c;ZXZpbA==\033\\b", "ab" },
	{ "link", "\033]8;;http://evil\033\\good\033]8;;\033\\", "good" },
	{ "DCS, APC, PM, SOS", "a\033Pq\033\\b\033_Gf=1\033\\c\033^x\033\\d\033Xy\033\\e", "abcde" },
	{ "window", "a\033[21t\033[8;1;1tb", "ab" },
	{ "printer", "a\033[5ib\033[?4ic", "abc" },
	{ "checksum of the screen", "a\033[1;1;1;1;5;5*yb", "ab" },
	{ "y without a star", "\033[2;1y", "\033[2;1y" },
	{ "answerback", "a\005b", "ab" },
	{ "C1 in UTF-8: OSC", "a\xc2\x9d" "52;c;x\xc2\x9c" "b", "ab" },
	{ "C1 in UTF-8: CSI", "a\xc2\x9b" "21tb\xc2\x9b" "1mc", "ab\xc2\x9b" "1mc" },
	{ "a string ended by another sequence", "a\033]0;x\033[1mb", "a\033[1mb" },
	{ "a string ended by CAN", "a\033]0;x\030b", "ab" },
	{ "a sequence in a sequence", "\033[1\033[21tb", "b" },
	{ "two ESC", "\033\033[21tx", "\033x" },
	{ "too long", "a\033[1111111111111111111111111111111111111111111111111111111111111111111111mb", "ab" },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state, len = strlen(cases[i].in);

	for (size_t piece = 1; piece <= len; piece++) {
		struct escapes e = { 0 };
		char out[512];
		size_t n = 0;

		for (size_t at = 0; at < len; at += piece)
			n += escapes_filter(&e, cases[i].in + at,
			    len - at < piece ? len - at : piece, out + n);
		assert_int_equal(n, strlen(cases[i].out));
		assert_memory_equal(out, cases[i].out, n);
	}
}

/* In one buffer, as the program uses it: writing never overtakes reading. */
static void
test_in_place(void **state)
{
	struct escapes e = { 0 };
	char buf[ESCAPES_HELD_MAX + 256];
	const char *held = "\033[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16",
		   *rest = "mabc\033]0;x\007def";
	size_t n;

	memcpy(buf + ESCAPES_HELD_MAX, held, strlen(held));
	assert_int_equal(escapes_filter(&e, buf + ESCAPES_HELD_MAX, strlen(held), buf), 0);
	memcpy(buf + ESCAPES_HELD_MAX, rest, strlen(rest));
	n = escapes_filter(&e, buf + ESCAPES_HELD_MAX, strlen(rest), buf);
	assert_int_equal(n, strlen(held) + 7);
	assert_memory_equal(buf, held, strlen(held));
	assert_memory_equal(buf + strlen(held), "mabcdef", 7);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + 1];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	tests[N_ELEMENTS(cases)] = (struct CMUnitTest)cmocka_unit_test(test_in_place);
	return cmocka_run_group_tests_name("escapes", tests, NULL, NULL);
}
