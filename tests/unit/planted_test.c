/* How much a command may plant before the host ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "host/protect/planted.h"

static void
the_second_time_at_one_path(void **state)
{
	struct planted p = { 0 };

	assert_false(planted_add(&p, "/p/.envrc"));
	assert_false(planted_add(&p, "/p/.vscode"));
	assert_false(planted_add(&p, "/p/.envrc "));
	assert_false(p.over);
	assert_true(planted_add(&p, "/p/.envrc"));
	assert_true(p.over);
	/* From then on every path is too many. */
	assert_true(planted_add(&p, "/p/other"));
	planted_done(&p);
	assert_false(planted_add(&p, "/p/.envrc"));
	planted_done(&p);
}

static void
too_many(void **state)
{
	struct planted p = { 0 };
	char path[32];

	for (unsigned i = 0; i < PLANTED_MAX - 1; i++) {
		assert_int_equal(planted_left(&p), PLANTED_MAX - i);
		snprintf(path, sizeof(path), "/p/%u/.envrc", i);
		assert_false(planted_add(&p, path));
	}
	assert_true(planted_add(&p, "/p/last"));
	assert_int_equal(planted_left(&p), 0);
	assert_true(planted_add(&p, "/p/one more"));
	assert_int_equal(planted_left(&p), 0);
	planted_done(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_time_at_one_path),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests_name("planted", tests, NULL, NULL);
}
