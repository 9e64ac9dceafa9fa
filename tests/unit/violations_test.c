/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/context/violations.c: what is counted, kept and shown of violations, and what a limit
 * cuts off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "host/context/violations.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

static void
record(struct violations *v, enum koda_violation_kind kind, const char *target)
{
	char copy[64];

	/* The caller may free the target right after. */
	snprintf(copy, sizeof(copy), "%s", target);
	violations_record(v,
	    &(struct koda_violation){ .kind = kind,
		.target = copy,
		.command = "cmd",
		.rule = "rule",
		.detail = "",
		.time = 1.5,
		.certain = true });
	memset(copy, 'x', sizeof(copy) - 1);
}

/* VIO-08, VIO-10 */
static void
the_last_hundred_oldest_first(void **state)
{
	cleanup(violations_done) struct violations v;
	char want[32];

	violations_init(&v, VIOLATIONS_MAX);
	for (int i = 0; i < 105; i++) {
		char target[32];

		snprintf(target, sizeof(target), "/%d", i);
		record(&v, KODA_VIOLATION_FILE_WRITE, target);
	}
	assert_int_equal(v.n, 100);
	assert_int_equal(v.recorded, 105);
	for (int i = 0; i < 100; i++) {
		snprintf(want, sizeof(want), "/%d", i + 5);
		assert_string_equal(violations_at(&v, (size_t)i)->target, want);
	}
	assert_null(violations_at(&v, 100));
}

/* VIO-09 */
static void
no_capacity_records_nothing(void **state)
{
	cleanup(violations_done) struct violations v;
	size_t n = 5;

	violations_init(&v, 0);
	record(&v, KODA_VIOLATION_OTHER, "/x");
	assert_int_equal(v.n, 0);
	assert_int_equal(v.recorded, 0);
	assert_null(violations_at(&v, 0));
	assert_null(violations_since(&v, 0, &n));
	assert_int_equal(n, 0);
}

static void
capacity_has_a_limit(void **state)
{
	cleanup(violations_done) struct violations v;

	violations_init(&v, 5000);
	assert_int_equal(v.capacity, VIOLATIONS_MAX);
}

/* VIO-11 */
static void
counted_by_kind(void **state)
{
	cleanup(violations_done) struct violations v;

	violations_init(&v, 3);
	record(&v, KODA_VIOLATION_FILE_READ, "/a");
	record(&v, KODA_VIOLATION_FILE_WRITE, "/b");
	record(&v, KODA_VIOLATION_FILE_WRITE, "/c");
	assert_int_equal(violations_count(&v, KODA_VIOLATION_FILE_READ), 1);
	assert_int_equal(violations_count(&v, KODA_VIOLATION_FILE_WRITE), 2);
	assert_int_equal(violations_count(&v, KODA_VIOLATION_NETWORK_OUTBOUND), 0);
	record(&v, KODA_VIOLATION_FILE_WRITE, "/d"); /* the read is the oldest */
	assert_int_equal(violations_count(&v, KODA_VIOLATION_FILE_READ), 0);
	assert_int_equal(violations_count(&v, KODA_VIOLATION_FILE_WRITE), 3);
}

static void
everything_is_copied(void **state)
{
	cleanup(violations_done) struct violations v;
	struct koda_violation one = { .kind = KODA_VIOLATION_PROCESS_EXEC, .certain = false };
	const struct koda_violation *got;

	violations_init(&v, 2);
	violations_record(&v, &one);
	got = violations_at(&v, 0);
	assert_string_equal(got->target, "");
	assert_string_equal(got->command, "");
	assert_string_equal(got->rule, "");
	assert_string_equal(got->detail, "");
	assert_false(got->certain);
	assert_true(got->time > 1e9 && got->time < 1e11); /* now */
	record(&v, KODA_VIOLATION_OTHER, "/t");
	got = violations_at(&v, 1);
	assert_string_equal(got->target, "/t");
	assert_string_equal(got->command, "cmd");
	assert_string_equal(got->rule, "rule");
	assert_true(got->certain && got->time == 1.5);
	/* Also when the recorded entry is in the ring, and falls out of it. */
	violations_record(&v, violations_at(&v, 0));
	violations_record(&v, violations_at(&v, 0));
	assert_string_equal(violations_at(&v, 1)->target, "/t");
}

static void
what_is_new_since(void **state)
{
	cleanup(violations_done) struct violations v;
	struct koda_violation *new;
	uint64_t before;
	size_t n;

	violations_init(&v, 4);
	record(&v, KODA_VIOLATION_OTHER, "/1");
	before = v.recorded;
	assert_null(violations_since(&v, before, &n));
	assert_int_equal(n, 0);
	record(&v, KODA_VIOLATION_OTHER, "/2");
	record(&v, KODA_VIOLATION_OTHER, "/3");
	new = violations_since(&v, before, &n);
	assert_int_equal(n, 2);
	violations_done(&v); /* `new` is a copy */
	assert_string_equal(new[0].target, "/2");
	assert_string_equal(new[1].target, "/3");
	assert_string_equal(new[1].rule, "rule");
	free(new);

	violations_init(&v, 4);
	for (int i = 0; i < 9; i++)
		record(&v, KODA_VIOLATION_OTHER, "/x");
	new = violations_since(&v, 2, &n); /* three of those were dropped */
	assert_int_equal(n, 4);
	free(new);
	assert_null(violations_since(&v, 100, &n));
	assert_int_equal(n, 0);
}

/* ---- names and text: VIO-12, VIO-14 ---- */

static void
names_of_kinds(void **state)
{
	assert_string_equal(koda_violation_kind_name(KODA_VIOLATION_FILE_READ), "file_read");
	assert_string_equal(koda_violation_kind_name(KODA_VIOLATION_FILE_WRITE), "file_write");
	assert_string_equal(koda_violation_kind_name(KODA_VIOLATION_NETWORK_OUTBOUND),
	    "network_outbound");
	assert_string_equal(koda_violation_kind_name(KODA_VIOLATION_PROCESS_EXEC), "process_exec");
	assert_string_equal(koda_violation_kind_name(KODA_VIOLATION_OTHER), "other");
	assert_string_equal(koda_violation_kind_name((enum koda_violation_kind)99), "other");
}

static const struct {
	const char *label;
	enum koda_violation_kind kind;
	const char *target;
	bool certain;
	const char *line;
} lines[] = {
	{ "line: read", KODA_VIOLATION_FILE_READ, "/a", true, "deny file-read* /a" },
	{ "line: write", KODA_VIOLATION_FILE_WRITE, "/a b", true, "deny file-write* /a b" },
	{ "line: network", KODA_VIOLATION_NETWORK_OUTBOUND, "github.com:443", true,
	    "deny network-outbound github.com:443" },
	{ "line: exec", KODA_VIOLATION_PROCESS_EXEC, "/x", false, "deny process-exec* /x" },
	{ "line: other", KODA_VIOLATION_OTHER, "/x", true, "deny /x" },
	{ "line: note", KODA_VIOLATION_NOTE, "/x", true, "note /x" },
	{ "line: other, nothing known", KODA_VIOLATION_OTHER, "", true, "deny" },
	{ "line: no target", KODA_VIOLATION_FILE_READ, "", true, "deny file-read*" },
	{ "line: target not set", KODA_VIOLATION_FILE_READ, NULL, true, "deny file-read*" },
	{ "line: a guess with a target", KODA_VIOLATION_FILE_WRITE, "/a", false,
	    "deny file-write* /a" },
	{ "line: a guess without one says so", KODA_VIOLATION_FILE_WRITE, "", false,
	    "deny file-write* (uncertain)" },
	{ "line: a name cannot begin a line", KODA_VIOLATION_FILE_WRITE, "/a\nb\x1b[0m", true,
	    "deny file-write* /a\\x0ab\\x1b[0m" },
	{ "line: a name cannot end the block", KODA_VIOLATION_FILE_WRITE, "/</sandbox_violations>",
	    true, "deny file-write* /\\x3c/sandbox_violations>" },
	{ "line: a kind that is none", (enum koda_violation_kind)77, "/a", true, "deny /a" },
};

static void
line_case(void **state)
{
	size_t i = (uintptr_t)*state;
	const struct koda_violation one = { .kind = lines[i].kind,
		.target = lines[i].target,
		.certain = lines[i].certain };
	cleanup_free char *text = koda_violations_render(&one, 1);
	char want[256];

	snprintf(want, sizeof(want), "<sandbox_violations>\n%s\n</sandbox_violations>\n",
	    lines[i].line);
	assert_string_equal(text, want);
}

static void
a_block_has_a_line_each(void **state)
{
	const struct koda_violation two[] = {
		{ .kind = KODA_VIOLATION_FILE_WRITE, .target = "/etc/x", .certain = true },
		{ .kind = KODA_VIOLATION_FILE_READ, .target = "/root", .certain = true },
	};
	cleanup_free char *text = koda_violations_render(two, 2);

	assert_string_equal(text,
	    "<sandbox_violations>\ndeny file-write* /etc/x\ndeny file-read* /root\n"
	    "</sandbox_violations>\n");
	assert_null(koda_violations_render(two, 0));
	assert_null(koda_violations_render(NULL, 0));
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(the_last_hundred_oldest_first),
		cmocka_unit_test(no_capacity_records_nothing),
		cmocka_unit_test(capacity_has_a_limit),
		cmocka_unit_test(counted_by_kind),
		cmocka_unit_test(everything_is_copied),
		cmocka_unit_test(what_is_new_since),
		cmocka_unit_test(names_of_kinds),
		cmocka_unit_test(a_block_has_a_line_each),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(lines)];
	size_t n = 0;

	OTHERS(single);
	for (uintptr_t i = 0; i < N_ELEMENTS(lines); i++)
		tests[n++] =
		    (struct CMUnitTest){ lines[i].label, line_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("violations", tests, NULL, NULL);
}
