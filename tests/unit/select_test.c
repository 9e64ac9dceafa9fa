/* SPDX-License-Identifier: Apache-2.0 */
/* host/review/select.c: which changes a person selected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/review/select.h"
#include "shared/base/cleanup.h"

static const struct {
	const char *selected, *path;
	bool expected;
} rows[] = {
	{ "a", "/p/a", true },
	{ "a", "/p/a/b/c", true },
	{ "a", "/p/ab", false },
	{ "a", "/p/b/a", false },
	{ "a/", "/p/a/b", true },
	{ "./a//b/.", "/p/a/b", true },
	{ "a/../b", "/p/b", true },
	{ "../x", "/x/y", true },
	{ "../../../x", "/x", true },
	{ ".", "/p/anything", true },
	{ "/p/a", "/p/a/b", true },
	{ "/p", "/p/a", true },
	{ "/", "/p/a", true },
	{ "/q", "/p/a", false },
	/* A glob without a slash: any file of that name. */
	{ "*.c", "/p/a/b.c", true },
	{ "*.c", "/p/b.h", false },
	{ "x?", "/p/dir/xy", true },
	{ "[ab]", "/p/b", true },
	/* With a slash: relative to the root, or absolute. */
	{ "src/*.c", "/p/src/a.c", true },
	{ "src/*.c", "/p/lib/src/a.c", false },
	{ "/p/src/*", "/p/src/a.c", true },
	{ "/q/*", "/p/a", false },
	/* Hidden names are names like others. */
	{ "*", "/p/.hidden", true },
};

static void
selected(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		struct selection s;
		struct koda_error err;

		assert_int_equal(selection_take(&s, "/p", &rows[i].selected, 1, &err), 0);
		if (selection_has(&s, rows[i].path) != rows[i].expected)
			fail_msg("'%s' and '%s'", rows[i].selected, rows[i].path);
		assert_int_equal(selection_unused(&s) == NULL, rows[i].expected);
		selection_done(&s);
	}
}

static void
nothing_is_everything(void **state)
{
	struct selection s;
	struct koda_error err;

	assert_int_equal(selection_take(&s, "/p", NULL, 0, &err), 0);
	assert_true(selection_has(&s, "/anything"));
	assert_null(selection_unused(&s));
	selection_done(&s);
}

static void
which_matched_nothing(void **state)
{
	const char *const paths[] = { "a", "b", "*.c" };
	struct selection s;
	struct koda_error err;

	assert_int_equal(selection_take(&s, "/", paths, 3, &err), 0);
	assert_true(selection_has(&s, "/a/x"));
	assert_string_equal(selection_unused(&s), "/b");
	assert_true(selection_has(&s, "/b"));
	assert_string_equal(selection_unused(&s), "*.c");
	assert_true(selection_has(&s, "/x/y.c"));
	assert_null(selection_unused(&s));
	selection_done(&s);
}

static void
empty_text(void **state)
{
	const char *const paths[] = { "a", "" };
	struct selection s;
	struct koda_error err;

	assert_int_equal(selection_take(&s, "/p", paths, 2, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(selected),
		cmocka_unit_test(nothing_is_everything),
		cmocka_unit_test(which_matched_nothing),
		cmocka_unit_test(empty_text),
	};

	return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
