/* SPDX-License-Identifier: Apache-2.0 */
/* mcp/latency.c: a histogram that may report a quarter too much, and never too little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mcp/latency.h"
#include "shared/base/cleanup.h"

static const struct {
	const char *label;
	uint64_t us[8];
	size_t n;
	unsigned per_mille;
	uint64_t want;
} cases[] = {
	/* clang-format off */
	{ "nothing",                  { 0 }, 0, 500, 0 },
	{ "one that took no time",    { 0 }, 1, 990, 0 },
	{ "one",                      { 3 }, 1, 500, 3 },
	{ "four begin a doubling",    { 4 }, 1, 500, 4 },
	{ "its end",                  { 9 }, 1, 500, 9 },
	{ "rounded up",               { 8 }, 1, 500, 9 },
	{ "a millisecond",            { 1000 }, 1, 500, 1023 },
	{ "the middle of three",      { 1, 2, 1000 }, 3, 500, 2 },
	{ "the middle of four",       { 1, 2, 3, 1000 }, 4, 500, 2 },
	{ "p99 of few is the most",   { 1, 2, 3, 1000 }, 4, 990, 1023 },
	{ "zero per mille is the first", { 2, 1000 }, 2, 0, 2 },
	{ "longer than it can tell",  { UINT64_MAX }, 1, 500, UINT32_MAX },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct latency latency = { 0 };

	for (size_t k = 0; k < cases[i].n; k++)
		latency_add(&latency, cases[i].us[k]);
	assert_int_equal(latency.calls, cases[i].n);
	assert_int_equal(latency_quantile(&latency, cases[i].per_mille), cases[i].want);
}

static void
test_never_too_little(void **state)
{
	for (uint64_t us = 1; us < UINT32_MAX; us += us / 7 + 1) {
		struct latency latency = { 0 };
		uint64_t told;

		latency_add(&latency, us);
		told = latency_quantile(&latency, 500);
		assert_true(told >= us);
		assert_true(told <= us + us / 4);
	}
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + 1];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	tests[N_ELEMENTS(cases)] = (struct CMUnitTest)cmocka_unit_test(test_never_too_little);
	return cmocka_run_group_tests_name("latency", tests, NULL, NULL);
}
