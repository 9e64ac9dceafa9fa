/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/base/err.c: the text of an error: what was attempted and why it failed, cut visibly
 * where it is too long.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/base/err.h"

static void
says_what_and_why(void **state)
{
	struct koda_error err = { .path = "old", .rule = "old" };

	assert_int_equal(err_set(&err, KODA_IO, ENOENT, "open '%s'", "a"), -1);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, ENOENT);
	assert_string_equal(err.message, "open 'a': No such file or directory");
	assert_string_equal(err.path, "");
	assert_string_equal(err.rule, "");
}

static void
without_errnum_the_text_alone(void **state)
{
	struct koda_error err;

	memset(&err, 0x55, sizeof(err));
	err_set(&err, KODA_INVALID, 0, "no %d", 7);
	assert_string_equal(err.message, "no 7");
	assert_int_equal(err.errnum, 0);
}

static void
unknown_errnum_is_said(void **state)
{
	struct koda_error err;

	err_set(&err, KODA_IO, 99999, "x");
	assert_string_equal(err.message, "x: unknown error");
	assert_int_equal(err.errnum, 99999);
}

static void
wrap_adds_in_front_and_keeps_the_rest(void **state)
{
	struct koda_error err;

	err_set(&err, KODA_CONFLICT, EBUSY, "b");
	err_about(&err, "/p", "r");
	assert_int_equal(err_wrap(&err, "a %d", 1), -1);
	assert_string_equal(err.message, "a 1: b: Device or resource busy");
	assert_int_equal(err.code, KODA_CONFLICT);
	assert_int_equal(err.errnum, EBUSY);
	assert_string_equal(err.path, "/p");
	assert_string_equal(err.rule, "r");
}

static void
a_long_text_is_cut_visibly_and_keeps_the_reason(void **state)
{
	struct koda_error err;
	char text[2 * KODA_MESSAGE_MAX];
	const char *end;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err_set(&err, KODA_IO, ENOSPC, "%s", text);
	assert_true(strlen(err.message) < KODA_MESSAGE_MAX);
	end = strstr(err.message, "...: No space left on device");
	assert_non_null(end);
	assert_int_equal(strlen(end), strlen("...: No space left on device"));
	err_wrap(&err, "%s", "front");
	assert_memory_equal(err.message, "front: xxx", 10);
	assert_true(strlen(err.message) < KODA_MESSAGE_MAX);
	assert_string_equal(err.message + strlen(err.message) - 3, "...");
}

static void
the_cut_is_never_inside_a_character(void **state)
{
	struct koda_error err;
	char text[2 * KODA_MESSAGE_MAX];

	for (size_t shift = 0; shift < 3; shift++) {
		size_t n = shift;

		memset(text, 'x', shift);
		while (n + 3 < sizeof(text)) {
			memcpy(text + n, "\xe2\x82\xac", 3);
			n += 3;
		}
		text[n] = '\0';
		err_set(&err, KODA_INVALID, 0, "%s", text);
		n = strlen(err.message) - 3;
		assert_string_equal(err.message + n, "...");
		assert_int_equal((n - shift) % 3, 0);
	}
}

static void
about_cuts_what_is_too_long(void **state)
{
	struct koda_error err;
	char path[2 * KODA_PATH_SHOWN_MAX];

	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(err_about(&err, path, NULL), -1);
	assert_int_equal(strlen(err.path), KODA_PATH_SHOWN_MAX - 1);
	assert_string_equal(err.rule, "");
}

static void
nobody_to_tell_is_fine(void **state)
{
	errno = EPERM;
	assert_int_equal(err_set(NULL, KODA_IO, EIO, "%s", "x"), -1);
	assert_int_equal(err_wrap(NULL, "%s", "x"), -1);
	assert_int_equal(err_about(NULL, "x", "y"), -1);
	err_clear(NULL);
	assert_int_equal(errno, EPERM);
}

static void
errno_survives(void **state)
{
	struct koda_error err;

	errno = EXDEV;
	err_set(&err, KODA_IO, ENOENT, "x");
	err_wrap(&err, "y");
	assert_int_equal(errno, EXDEV);
}

static void
clear_clears_all(void **state)
{
	struct koda_error err;

	err_set(&err, KODA_IO, EIO, "x");
	err_about(&err, "p", "r");
	err_clear(&err);
	assert_int_equal(err.code, KODA_OK);
	assert_int_equal(err.errnum, 0);
	assert_string_equal(err.message, "");
	assert_string_equal(err.path, "");
	assert_string_equal(err.rule, "");
}

static void
every_code_has_a_name_of_its_own(void **state)
{
	for (int i = KODA_OK; i <= KODA_INTERNAL; i++) {
		assert_true(strlen(koda_code_name((enum koda_code)i)) > 0);
		for (int k = KODA_OK; k < i; k++)
			assert_string_not_equal(koda_code_name((enum koda_code)i),
			    koda_code_name((enum koda_code)k));
	}
	assert_string_equal(koda_code_name(KODA_POLICY_DENIED), "policy_denied");
	assert_string_equal(koda_code_name(KODA_CONFLICT), "conflict");
	assert_string_equal(koda_code_name((enum koda_code)1000), "internal");
	assert_string_equal(koda_code_name((enum koda_code) - 1), "internal");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_and_why),
		cmocka_unit_test(without_errnum_the_text_alone),
		cmocka_unit_test(unknown_errnum_is_said),
		cmocka_unit_test(wrap_adds_in_front_and_keeps_the_rest),
		cmocka_unit_test(a_long_text_is_cut_visibly_and_keeps_the_reason),
		cmocka_unit_test(the_cut_is_never_inside_a_character),
		cmocka_unit_test(about_cuts_what_is_too_long),
		cmocka_unit_test(nobody_to_tell_is_fine),
		cmocka_unit_test(errno_survives),
		cmocka_unit_test(clear_clears_all),
		cmocka_unit_test(every_code_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
