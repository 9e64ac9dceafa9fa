/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/scan/gitpacks.c: git's list of packs: a list that git itself wrote passes, and a name that
 * leads to another directory does not, however the list is laid out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "worker/scan/gitpacks.h"

#define NAMES_AT "\0\0\0\0\0\0\0\x24"
#define HEAD(n)  "MIDX\1\1\1\0\0\0\0" n "PNAM" NAMES_AT "\0\0\0\0\0\0\0\0\0\0\0"
#define T(text)  text, sizeof(text) - 1

/* clang-format off */
static const struct {
	const char *label, *text;
	size_t len;
	bool good;
} cases[] = {
	{ "two names and padding", T(HEAD("\2") "\x34" "a.idx\0" "b.idx\0\0\0\0\0"), true },
	{ "a name above", T(HEAD("\1") "\x30" "../../x.idx\0"), false },
	{ "an absolute name", T(HEAD("\1") "\x2c" "/x.idx\0\0"), false },
	{ "a slash after the names", T(HEAD("\1") "\x30" "a.idx\0" "../b\0\0"), false },
	{ "fewer names than packs", T(HEAD("\3") "\x30" "a.idx\0" "b.idx\0"), false },
	{ "a name without an end", T(HEAD("\1") "\x29" "a.idx"), false },
	{ "a name that begins with a dot", T(HEAD("\1") "\x2c" ".a.idx\0\0"), false },
	{ "an end before the beginning", T(HEAD("\1") "\x20" "a.idx\0\0\0"), false },
	{ "no list", T("PACK\0\0\0\2\0\0\0\0"), false },
	{ "cut in the table", T("MIDX\1\1\1\0\0\0\0\1PNAM" NAMES_AT), false },
	{ "no chunk of names", T("MIDX\1\1\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\x18"), false },
	{ "two chunks of names",
	    T("MIDX\1\1\2\0\0\0\0\1PNAM\0\0\0\0\0\0\0\x30" "PNAM\0\0\0\0\0\0\0\x30"
	      "\0\0\0\0\0\0\0\0\0\0\0\x38" "a.idx\0\0\0"),
	    false },
};
/* clang-format on */

static void
test_lists(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		uint64_t at = 0, len = 0;
		uint32_t n = 0;
		bool good = gitpacks_find((const uint8_t *)cases[i].text, cases[i].len, &at, &len,
				&n) == 0 &&
		    at + len <= cases[i].len &&
		    gitpacks_are_plain(cases[i].text + at, (size_t)len, n);

		if (good != cases[i].good)
			fail_msg("'%s' is taken for %s", cases[i].label, good ? "good" : "bad");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
