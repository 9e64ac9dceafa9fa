/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2/pace.c: when a slot is measured again: never late near its limit, and rarely far from
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "stage2/pace.h"

#define MS  UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* A measurement of `bytes` and `tasks` that took a millisecond, with 16 GiB in use and 1000
 * forks so far. */
static struct pace
measured(uint64_t bytes_max, uint64_t bytes, uint64_t tasks_max, uint64_t tasks)
{
	struct pace p = { .bytes_max = bytes_max, .tasks_max = tasks_max };
	const struct pace_look look = { 16 * GIB, 1000 };

	pace_measured(&p, bytes, tasks, &look, 11 * MS, &(struct pace_cost){ MS, MS });
	return p;
}

static const struct {
	const char *label;
	uint64_t bytes_max, bytes, tasks_max, tasks;
	struct pace_look look;
	uint64_t after_ms; /* since the measurement ended */
	bool due;
} rows[] = {
	/* clang-format off */
	{ "nothing happens: not at once",        GIB, 0, 0, 0, { 16 * GIB, 1000 }, 50, false },
	{ "nothing happens: a hundredth of time", GIB, 0, 0, 0, { 16 * GIB, 1000 }, 100, true },
	{ "half of what is left is gone",        GIB, 0, 0, 0, { 16 * GIB + 512 * MIB, 1000 }, 4, true },
	{ "less than half is gone",              GIB, 0, 0, 0, { 16 * GIB + 500 * MIB, 1000 }, 4, false },
	{ "gone, but measured just now",         GIB, 0, 0, 0, { 17 * GIB, 1000 }, 3, false },
	{ "near the limit a little is enough",   GIB, GIB - MIB, 0, 0, { 16 * GIB + MIB, 1000 }, 4, true },
	{ "above it: always",                    GIB, 2 * GIB, 0, 0, { 16 * GIB, 1000 }, 4, true },
	{ "half is used up: rather often",       GIB, 512 * MIB, 0, 0, { 16 * GIB, 1000 }, 20, true },
	{ "but not all the time",                GIB, 512 * MIB, 0, 0, { 16 * GIB, 1000 }, 19, false },
	{ "less than half is",                   GIB, 511 * MIB, 0, 0, { 16 * GIB, 1000 }, 20, false },
	{ "others freed some",                   GIB, 0, 0, 0, { 12 * GIB, 1000 }, 4, false },
	{ "forks without a limit of tasks",      GIB, 0, 0, 0, { 16 * GIB, 9000 }, 4, false },
	{ "few forks",                           0, 0, 100, 10, { 16 * GIB, 1044 }, 4, false },
	{ "as many as half of what is left",     0, 0, 100, 10, { 16 * GIB, 1045 }, 4, true },
	{ "the numbers wrapped around",          0, 0, 100, 10, { 16 * GIB, 400 }, 4, true },
	{ "memory without a limit of memory",    0, 0, 100, 10, { 20 * GIB, 1000 }, 4, false },
	/* clang-format on */
};

static void
due(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		const struct pace p =
		    measured(rows[i].bytes_max, rows[i].bytes, rows[i].tasks_max, rows[i].tasks);

		if (pace_is_due(&p, &rows[i].look, (11 + rows[i].after_ms) * MS) != rows[i].due)
			fail_msg("%s", rows[i].label);
	}
}

static void
first(void **state)
{
	const struct pace_look look = { 0 };
	struct pace p = { .bytes_max = GIB };

	assert_true(pace_is_due(&p, &look, 0));
	p = measured(GIB, 0, 0, 0);
	pace_rest(&p, GIB - MIB);
	assert_true(pace_is_due(&p, &look, 11 * MS));
	/* Files in /tmp leave less for the next command. */
	assert_int_equal(pace_next(&p), PACE_LOOK_MIN_NS);
}

/* An expensive measurement is not put off for ever. */
static void
expensive(void **state)
{
	struct pace p = { .bytes_max = GIB };
	const struct pace_look look = { 16 * GIB, 0 }, taken = { 17 * GIB, 0 };

	pace_measured(&p, 0, 0, &look, 1000 * MS, &(struct pace_cost){ MS, 1000 * MS });
	assert_false(pace_is_due(&p, &look, 30000 * MS));
	assert_true(pace_is_due(&p, &look, 31000 * MS));
	/* It does not delay the first part of the next one either, when the limit may be passed. */
	assert_false(pace_is_due(&p, &taken, 1003 * MS));
	assert_true(pace_is_due(&p, &taken, 1004 * MS));
}

static void
next(void **state)
{
	struct pace p = measured(18 * GIB, GIB, 0, 0);

	assert_int_equal(pace_next(&p), PACE_LOOK_MAX_NS);
	/* Filling the rest at the highest rate takes twice as long. */
	p = measured(256 * MIB, 0, 0, 0);
	assert_int_equal(pace_next(&p), 256 * MIB / 2 / PACE_BYTES_PER_NS);
	p = measured(256 * MIB, 255 * MIB, 0, 0);
	assert_int_equal(pace_next(&p), PACE_LOOK_MIN_NS);
	p = measured(256 * MIB, 300 * MIB, 0, 0);
	assert_int_equal(pace_next(&p), PACE_LOOK_MIN_NS);
	p = measured(0, 0, 100, 0);
	assert_int_equal(pace_next(&p), PACE_LOOK_TASKS_NS);
	p = measured(UINT64_MAX, 0, 0, 0);
	assert_int_equal(pace_next(&p), PACE_LOOK_MAX_NS);
}

int
main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(due),
		cmocka_unit_test(first),
		cmocka_unit_test(expensive),
		cmocka_unit_test(next),
	};

	return cmocka_run_group_tests_name("pace", all, NULL, NULL);
}
