/* SPDX-License-Identifier: Apache-2.0 */
/* stage2/growth.c: which memory of a process is its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "stage2/growth.h"

/* first, second: what two looks see of process 7. bytes: the memory that it had when it was first
 * seen, as the second look reports it. */
static const struct {
	const char *label;
	struct proc first, second;
	uint64_t swapped, bytes;
} rows[] = {
	/* clang-format off */
	{ "it grew",                  { .start = 5, .resident = 100 }, { .start = 5, .resident = 900 }, 0, 100 },
	{ "it shrank and grew again", { .start = 5, .resident = 900 }, { .start = 5, .resident = 500 }, 0, 900 },
	{ "what was swapped counts",  { .start = 5, .resident = 100 }, { .start = 5, .resident = 900 }, 50, 150 },
	{ "another with its number",  { .start = 5, .resident = 100 }, { .start = 6, .resident = 900 }, 0, 900 },
	{ "without its first thread", { .start = 5, .resident = 0, .threads = 2 }, { .start = 5, .resident = 900, .threads = 2 }, 0, GROWTH_UNKNOWN },
	/* clang-format on */
};

static void
is_first(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		/* Its neighbours come and go. */
		struct proc before[] = { { .pid = 3 }, { .pid = 5 }, rows[i].first, { .pid = 9 } };
		struct proc after[] = { { .pid = 5 }, { .pid = 6 }, rows[i].second, { .pid = 12 } };
		struct procs p = { before, N_ELEMENTS(before), 0 };
		struct procs q = { after, N_ELEMENTS(after), 0 };
		struct growth g = { NULL, 0 };

		before[2].pid = after[2].pid = 7;
		growth_note(&g, &p, rows[i].swapped);
		growth_note(&g, &q, rows[i].swapped);
		if (after[2].first != rows[i].bytes)
			fail_msg("%s: %llu", rows[i].label, (unsigned long long)after[2].first);
		growth_done(&g);
	}
}

/* A process that was away counts as new when its number is back. */
static void
is_forgotten(void **state)
{
	struct proc one = { .pid = 7, .start = 5, .resident = 100 };
	struct procs p = { &one, 1, 0 }, none = PROCS_EMPTY;
	struct growth g = { NULL, 0 };

	(void)state;
	growth_note(&g, &p, 0);
	growth_note(&g, &none, 0);
	one.resident = 300;
	growth_note(&g, &p, 0);
	assert_int_equal(one.first, 300);
	growth_done(&g);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_first),
		cmocka_unit_test(is_forgotten),
	};

	return cmocka_run_group_tests_name("growth", tests, NULL, NULL);
}
