/* SPDX-License-Identifier: Apache-2.0 */
/* host/protect/planted.c: how much a command may plant before the host ends it. */
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

	assert_false(planted_add(&p, "/p/.envrc", 0));
	assert_false(planted_add(&p, "/p/.vscode", 0));
	assert_false(planted_add(&p, "/p/.envrc ", 0));
	assert_false(p.over);
	assert_true(planted_add(&p, "/p/.envrc", 0));
	assert_true(p.over);
	/* From then on every path is too many. */
	assert_true(planted_add(&p, "/p/other", 0));
	planted_done(&p);
	assert_false(planted_add(&p, "/p/.envrc", 0));
	planted_done(&p);
}

/* What a neighbour plants there looks the same, but it does not plant for ever. */
static void
later_with_neighbours(void **state)
{
	struct planted p = { 0 };

	assert_false(planted_add(&p, "/p/.envrc", 2));
	assert_false(planted_add(&p, "/p/.vscode", 0));
	/* They are gone, but may have planted it before. */
	for (unsigned i = 0; i < 2 * PLANTED_BY_NEIGHBOUR; i++)
		assert_false(planted_add(&p, "/p/.envrc", i % 3 == 0 ? 2 : 0));
	assert_true(planted_add(&p, "/p/.envrc", 0));
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
		assert_false(planted_add(&p, path, 0));
	}
	assert_true(planted_add(&p, "/p/last", 0));
	assert_int_equal(planted_left(&p), 0);
	assert_true(planted_add(&p, "/p/one more", 0));
	assert_int_equal(planted_left(&p), 0);
	planted_done(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_time_at_one_path),
		cmocka_unit_test(later_with_neighbours),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests_name("planted", tests, NULL, NULL);
}
