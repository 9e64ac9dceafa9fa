/* SPDX-License-Identifier: Apache-2.0 */
/* cli/since.c: points in time as a user gives them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/since.h"

#define NOW 1767225600 /* 2026-01-01 00:00 UTC */

static const struct {
	const char *text;
	double when;
} good[] = {
	{ "0s", NOW },
	{ "90s", NOW - 90 },
	{ "30m", NOW - 30 * 60 },
	{ "2h", NOW - 2 * 3600 },
	{ "3d", NOW - 3 * 86400 },
	{ "1w", NOW - 7 * 86400 },
	{ "00:00", NOW },
	{ "23:30", NOW - 30 * 60 }, /* yesterday */
	{ "2025-12-31", NOW - 86400 },
	{ "2025-12-31 12:00", NOW - 43200 },
	{ "2025-12-31T12:00:05", NOW - 43200 + 5 },
	{ "@1000", 1000 },
};

static const char *const bad[] = { "", "m", "3", "3x", "3mm", "-3m", "24:01:x", "2025-13-01",
	"yesterday", "@", "@x", "@5x", "99999999999999999999d" };

static void
understood(void **state)
{
	char why[ARGS_WHY_MAX];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		double when = -1;

		if (since_parse(good[i].text, NOW, &when, why) != 0)
			fail_msg("%s: %s", good[i].text, why);
		if (when != good[i].when)
			fail_msg("%s: %f", good[i].text, when);
	}
}

static void
refused(void **state)
{
	char why[ARGS_WHY_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		double when = -1;

		if (since_parse(bad[i], NOW, &when, why) == 0)
			fail_msg("'%s' is %f", bad[i], when);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(understood),
		cmocka_unit_test(refused),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests_name("since", tests, NULL, NULL);
}
