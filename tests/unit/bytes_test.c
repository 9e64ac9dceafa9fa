/* SPDX-License-Identifier: Apache-2.0 */
/* shared/base/bytes.h: which paths the kernel could take, their forms, and bytes for a person. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define S(text) text, sizeof(text) - 1

/* ---- path_check ---- */

static const struct {
	const char *label, *path;
	size_t len;
	const char *want; /* part of the message; NULL: valid */
} checks[] = {
	{ "check: absolute", S("/a/b"), NULL },
	{ "check: relative", S("a/b"), NULL },
	{ "check: dot and dotdot are not judged here", S("./../a"), NULL },
	{ "check: slashes anywhere", S("//a//b/"), NULL },
	{ "check: invalid UTF-8", S("/\xff\xfe"), NULL },
	{ "check: newline", S("/a\nb"), NULL },
	{ "check: root", S("/"), NULL },
	{ "check: empty", S(""), "empty" },
	{ "check: NUL inside", S("/a\0b"), "NUL" },
	{ "check: NUL at the end", S("/a\0"), "NUL" },
	{ "check: only a NUL", S("\0"), "NUL" },
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_error err = { 0 };
	int r = path_check((const uint8_t *)checks[i].path, checks[i].len, &err);

	assert_int_equal(r, checks[i].want == NULL ? 0 : -1);
	assert_int_equal(err.code, checks[i].want == NULL ? KODA_OK : KODA_INVALID);
	if (checks[i].want != NULL)
		assert_non_null(strstr(err.message, checks[i].want));
}

static void
check_lengths(void **state)
{
	struct koda_error err;
	uint8_t path[PATH_LEN_MAX + 2];

	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 == 0 ? '/' : 'a';
	assert_int_equal(path_check(path, PATH_LEN_MAX, &err), 0);
	assert_int_equal(path_check(path, PATH_LEN_MAX + 1, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);

	memset(path, 'n', sizeof(path));
	assert_int_equal(path_check(path, NAME_LEN_MAX, &err), 0);
	assert_int_equal(path_check(path, NAME_LEN_MAX + 1, &err), -1);
	assert_non_null(strstr(err.message, "256"));
	path[0] = '/';
	path[NAME_LEN_MAX + 1] = '/';
	assert_int_equal(path_check(path, NAME_LEN_MAX + 4, &err), 0);
	path[NAME_LEN_MAX + 1] = 'n';
	path[NAME_LEN_MAX + 2] = '/';
	assert_int_equal(path_check(path, NAME_LEN_MAX + 4, &err), -1);
}

/* ---- path_is_inside ---- */

static const struct {
	const char *label, *path, *dir;
	bool want;
} insides[] = {
	{ "inside: the same place", "/a/b", "/a/b", true },
	{ "inside: a child", "/a/b/c", "/a/b", true },
	{ "inside: far below", "/a/b/c/d/e", "/a", true },
	{ "inside: a name that only begins so", "/a/bc", "/a/b", false },
	{ "inside: a sibling", "/a/c", "/a/b", false },
	{ "inside: the parent", "/a", "/a/b", false },
	{ "inside: anything in /", "/a", "/", true },
	{ "inside: / in itself", "/", "/", true },
	{ "inside: / not in a child", "/", "/a", false },
};

static void
inside_case(void **state)
{
	size_t i = (uintptr_t)*state;

	assert_int_equal(path_is_inside(insides[i].path, insides[i].dir), insides[i].want);
}

/* ---- bytes_show ---- */

static const struct {
	const char *label, *data;
	size_t len;
	const char *want;
} shows[] = {
	{ "show: plain", S("/a b/c"), "/a b/c" },
	{ "show: nothing", S(""), "" },
	{ "show: UTF-8 stays", S("/gr\xc3\xbc\xc3\x9f/\xe2\x82\xac/\xf0\x9f\x98\x80"),
	    "/gr\xc3\xbc\xc3\x9f/\xe2\x82\xac/\xf0\x9f\x98\x80" },
	{ "show: newline, tab, NUL, DEL", S("a\nb\tc\0d\x7f"), "a\\x0ab\\x09c\\x00d\\x7f" },
	{ "show: escape sequence", S("\x1b]52;c;eA==\x07"), "\\x1b]52;c;eA==\\x07" },
	{ "show: C1 control as UTF-8", S("\xc2\x9b"), "\\u{9b}" },
	{ "show: bidi override", S("a\xe2\x80\xaetxt.exe\xe2\x80\xac"),
	    "a\\u{202e}txt.exe\\u{202c}" },
	{ "show: bidi isolate", S("\xe2\x81\xa6x\xe2\x81\xa9"), "\\u{2066}x\\u{2069}" },
	{ "show: arabic letter mark", S("\xd8\x9cx"), "\\u{61c}x" },
	{ "show: zero width space", S(".g\xe2\x80\x8bit"), ".g\\u{200b}it" },
	{ "show: byte order mark", S("\xef\xbb\xbfx"), "\\u{feff}x" },
	{ "show: soft hyphen",
	    S("a\xc2\xad"
	      "b"),
	    "a\\u{ad}b" },
	{ "show: what has no ink",
	    S("\xcd\x8f\xe1\x9e\xb4\xe2\xa0\x80\xf0\x9b\xb2\xa0\xf0\x9d\x85\xb3"),
	    "\\u{34f}\\u{17b4}\\u{2800}\\u{1bca0}\\u{1d173}" },
	{ "show: line separator", S("\xe2\x80\xa8"), "\\u{2028}" },
	{ "show: tag characters", S("\xf3\xa0\x81\x81"), "\\u{e0041}" },
	{ "show: lone continuation", S("\x80x"), "\\x80x" },
	{ "show: cut character", S("x\xe2\x82"), "x\\xe2\\x82" },
	{ "show: overlong slash", S("\xc0\xaf"), "\\xc0\\xaf" },
	{ "show: surrogate", S("\xed\xa0\x80"), "\\xed\\xa0\\x80" },
	{ "show: above Unicode", S("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80" },
	{ "show: 0xff", S("\xff"), "\\xff" },
};

static void
show_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char buf[128];
	size_t n = bytes_show(buf, sizeof(buf), shows[i].data, shows[i].len);

	assert_string_equal(buf, shows[i].want);
	assert_int_equal(n, strlen(shows[i].want));
}

/* For any size of the buffer: a prefix in whole pieces, a NUL, nothing written after it, and the
 * full length returned. */
static void
show_room(void **state)
{
	static const char text[] = "ab\n\xe2\x82\xac\xe2\x80\x8b!";
	static const char want[] = "ab\\x0a\xe2\x82\xac\\u{200b}!";
	static const size_t ends[] = { 0, 1, 2, 6, 9, 17, 18 };
	char buf[64];

	for (size_t size = 0; size < sizeof(want) + 2; size++) {
		size_t put = 0;

		memset(buf, '#', sizeof(buf));
		assert_int_equal(bytes_show(buf, size, text, sizeof(text) - 1), sizeof(want) - 1);
		assert_int_equal(buf[size], '#');
		if (size == 0)
			continue;
		for (size_t k = 0; k < N_ELEMENTS(ends); k++) {
			if (ends[k] < size)
				put = ends[k];
		}
		assert_int_equal(strlen(buf), put);
		assert_memory_equal(buf, want, put);
	}
}

static const struct {
	const char *label, *path;
	size_t len;
	bool relative, canonical;
} forms[] = {
	{ "form: nothing", S(""), false, false },
	{ "form: a name", S("a"), true, false },
	{ "form: names", S("a/..b/c.."), true, false },
	{ "form: the root", S("/"), false, true },
	{ "form: below the root", S("/a/b"), false, true },
	{ "form: a slash at the end", S("/a/"), false, false },
	{ "form: a slash at the end of names", S("a/"), false, false },
	{ "form: two slashes", S("/a//b"), false, false },
	{ "form: two slashes at the beginning", S("//a"), false, false },
	{ "form: dot", S("/a/./b"), false, false },
	{ "form: dot alone", S("."), false, false },
	{ "form: dotdot", S("a/../b"), false, false },
	{ "form: dotdot at the end", S("/a/.."), false, false },
	{ "form: a NUL", S("/a\0b"), false, false },
};

static void
form_case(void **state)
{
	size_t i = (uintptr_t)*state;

	assert_int_equal(path_is_relative(forms[i].path, forms[i].len), forms[i].relative);
	assert_int_equal(path_is_canonical(forms[i].path, forms[i].len), forms[i].canonical);
}

static void
form_lengths(void **state)
{
	char path[PATH_LEN_MAX + 2];

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	assert_true(path_is_canonical(path, 1 + NAME_LEN_MAX));
	assert_false(path_is_canonical(path, 2 + NAME_LEN_MAX));
	assert_false(path_is_relative(path + 1, 1 + NAME_LEN_MAX));
	for (size_t i = 0; i < sizeof(path); i += 2)
		path[i] = '/';
	assert_true(path_is_canonical(path, PATH_LEN_MAX - 1));
	path[PATH_LEN_MAX - 1] = 'a';
	assert_true(path_is_canonical(path, PATH_LEN_MAX));
	path[PATH_LEN_MAX] = 'a';
	assert_false(path_is_canonical(path, PATH_LEN_MAX + 1));
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(checks) + N_ELEMENTS(insides) + N_ELEMENTS(shows) +
	    N_ELEMENTS(forms) + 3];
	size_t n = 0;

	for (uintptr_t i = 0; i < N_ELEMENTS(checks); i++)
		tests[n++] =
		    (struct CMUnitTest){ checks[i].label, check_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(insides); i++)
		tests[n++] =
		    (struct CMUnitTest){ insides[i].label, inside_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(shows); i++)
		tests[n++] =
		    (struct CMUnitTest){ shows[i].label, show_case, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(forms); i++)
		tests[n++] =
		    (struct CMUnitTest){ forms[i].label, form_case, NULL, NULL, (void *)i };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_lengths);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(form_lengths);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(show_room);
	assert_int_equal(n, N_ELEMENTS(tests));
	return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
