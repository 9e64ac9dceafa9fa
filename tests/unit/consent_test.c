/* SPDX-License-Identifier: Apache-2.0 */
/* mcp/consent.c: what an answer for the session covers, and what it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/consent.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

static struct consent
content(char *dir)
{
	return (struct consent){ CONSENT_CONTENT, dir, strlen(dir), { { 0 } } };
}

static struct consent
command(char *text, uint64_t tree)
{
	return (struct consent){ CONSENT_COMMAND, text, strlen(text) + 1, { { tree, 1 } } };
}

static const struct {
	const char *label, *path;
	bool covered;
} paths[] = {
	{ "a file in it", "/p/d/a", true },
	{ "deeper", "/p/d/e/f", true },
	{ "the directory itself", "/p/d", false },
	{ "one whose name begins so", "/p/dd/a", false },
	{ "one above", "/p/a", false },
	{ "another", "/q/d/a", false },
};

static void
check_path(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct consents cs = { 0 };
	const struct consent of_content = content((char[]){ "/p/d" }),
			     of_command = command((char[]){ "/p" }, 1);

	assert_false(consents_have_content(&cs, paths[i].path));
	consents_add(&cs, &of_command);
	assert_false(consents_have_content(&cs, paths[i].path));
	consents_add(&cs, &of_content);
	assert_int_equal(consents_have_content(&cs, paths[i].path), paths[i].covered);
	consents_lapse(&cs);
	assert_int_equal(consents_have_content(&cs, paths[i].path), paths[i].covered);
	consents_done(&cs);
}

static void
test_command(void **state)
{
	struct consents cs = { 0 };
	const struct consent make = command((char[]){ "make" }, 1),
			     longer = command((char[]){ "make all" }, 1),
			     changed = command((char[]){ "make" }, 2),
			     of_content = content((char[]){ "make" });

	assert_false(consents_have_command(&cs, &make));
	consents_add(&cs, &of_content);
	assert_false(consents_have_command(&cs, &make));
	consents_add(&cs, &make);
	assert_true(consents_have_command(&cs, &make));
	assert_false(consents_have_command(&cs, &longer));
	assert_true(consents_have_command(&cs, &make));
	/* Once the tree has changed, the command is asked about again, even if the tree changes
	 * back. */
	assert_false(consents_have_command(&cs, &changed));
	assert_false(consents_have_command(&cs, &make));
	consents_add(&cs, &make);
	consents_lapse(&cs);
	assert_false(consents_have_command(&cs, &make));
	consents_done(&cs);
}

static void
test_many(void **state)
{
	struct consents cs = { 0 };
	char text[16];

	for (int i = 0; i < CONSENTS_MAX + 1; i++) {
		struct consent c;

		snprintf(text, sizeof(text), "c%d", i);
		c = command(text, 1);
		consents_add(&cs, &c);
	}
	assert_int_equal(cs.n, CONSENTS_MAX);
	for (int i = 0; i < CONSENTS_MAX + 1; i++) {
		struct consent c;

		snprintf(text, sizeof(text), "c%d", i);
		c = command(text, 1);
		assert_int_equal(consents_have_command(&cs, &c), i > 0);
	}
	consents_done(&cs);
}

int
main(void)
{
	const struct CMUnitTest single[] = {
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_many),
	};
	struct CMUnitTest tests[N_ELEMENTS(paths) + N_ELEMENTS(single)];
	size_t n = 0;

	for (; n < N_ELEMENTS(paths); n++)
		tests[n] = (struct CMUnitTest){ paths[n].label, check_path, NULL, NULL, (void *)n };
	OTHERS(single);
	return cmocka_run_group_tests_name("consent", tests, NULL, NULL);
}
