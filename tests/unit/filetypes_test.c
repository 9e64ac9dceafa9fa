/* SPDX-License-Identifier: Apache-2.0 */
/* shared/base/filetypes.c: the names of types: sorted, each found, each with valid globs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "search/glob.h"
#include "shared/base/filetypes.h"

static void
test_sorted(void **state)
{
	assert_true(n_filetypes > 150);
	for (size_t i = 1; i < n_filetypes; i++)
		assert_true(strcmp(filetypes[i - 1].name, filetypes[i].name) < 0);
}

static void
test_found(void **state)
{
	for (size_t i = 0; i < n_filetypes; i++)
		assert_ptr_equal(filetype_find(filetypes[i].name), &filetypes[i]);
	assert_null(filetype_find(""));
	assert_null(filetype_find("no such type"));
	assert_null(filetype_find("C"));
}

static void
test_globs(void **state)
{
	for (size_t i = 0; i < n_filetypes; i++) {
		assert_non_null(filetypes[i].globs[0]);
		for (const char *const *glob = filetypes[i].globs; *glob != NULL; glob++) {
			struct glob g;

			assert_null(strpbrk(*glob, "/{}"));
			assert_null(glob_compile(*glob, strlen(*glob), GLOB_NAME, &g));
			glob_done(&g);
		}
	}
}

/* Three that people ask for most. */
static void
test_known(void **state)
{
	assert_string_equal(filetype_find("c")->globs[0], "*.[chH]");
	assert_string_equal(filetype_find("py")->globs[0], "*.py");
	assert_string_equal(filetype_find("rust")->globs[0], "*.rs");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sorted),
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_globs),
		cmocka_unit_test(test_known),
	};

	return cmocka_run_group_tests_name("filetypes", tests, NULL, NULL);
}
