/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/rules/names.c: the rules of deny_write_names: two ways to check them, which must agree.
 * (Their cases: access_test.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/rules/names.h"
#include "tests/kit/random.h"

#define DRAWS 200000

static void
check_case(void **state)
{
	static const struct {
		const char *rule;
		bool good;
	} cases[] = {
		{ ".vscode", true },
		{ ".github/hooks", true },
		{ "a/b/c/d", true },
		{ "*.code-workspace", true },
		{ "mise.*.toml", true },
		{ "a*/b*", true },
		{ "..x", true },
		{ "", false },
		{ "/a", false },
		{ "a/", false },
		{ "a//b", false },
		{ ".", false },
		{ "..", false },
		{ "a/..", false },
		{ "*", false },
		{ "*.", false },
		{ "a/*", false },
		{ "a*b*", false },
		{ "a/b/c/d/e", false },
	};
	char longest[NAMES_RULE_MAX + 2];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct koda_error err = { 0 };

		if ((names_check(cases[i].rule, &err) == 0) != cases[i].good)
			fail_msg("'%s': %s", cases[i].rule, err.message);
		assert_int_equal(err.code, cases[i].good ? KODA_OK : KODA_INVALID);
	}
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(names_check(longest, NULL), -1);
	longest[NAMES_RULE_MAX] = '\0';
	assert_int_equal(names_check(longest, NULL), 0);
	assert_true(names_is_normalised(longest));
}

static void
normalised(void **state)
{
	char rule[] = ".GitHub/HOOKS. /AGENTS.md";

	assert_false(names_is_normalised(rule));
	names_normalise(rule);
	assert_string_equal(rule, ".github/hooks/agents.md");
	assert_true(names_is_normalised(rule));
}

static void
vendored(void **state)
{
	assert_true(names_is_vendored("/p/node_modules/x/.vscode"));
	assert_true(names_is_vendored("/p/a/.venv/lib"));
	assert_false(names_is_vendored("/p/node_modules"));
	assert_false(names_is_vendored("/p/node_modules2/x"));
	assert_false(names_is_vendored("/p/xnode_modules/x"));
}

/* The index, which a walk asks about each entry, compared with checking every rule. */
static void
index_agrees(void **state)
{
	static const char *const rules[] = { ".vscode", ".github/hooks", "*.ws", "m.*.t", "a/b",
		"b/a/b", "hooks", "a/*b/c" };
	static const char *const names[] = { ".vscode", ".VSCODE", "vscode~1", ".github", "hooks",
		"Hooks", "x.ws", ".ws", "m.x.t", "m.t", "a", "b", "xb", "c", "B", "z", "mx~1" };
	struct policy_list list = { 0 };
	struct names_index *index;
	size_t whole = 0, begun = 0;

	for (size_t i = 0; i < N_ELEMENTS(rules); i++)
		assert_int_equal(policy_list_add(&list, rules[i], NULL), 0);
	index = names_index_new(&list);
	assert_non_null(index);
	for (size_t i = 0; i < DRAWS; i++) {
		char path[256] = "";
		const char *name = names[draw(N_ELEMENTS(names))], *at, *start;
		struct names_found found;
		size_t len;

		for (unsigned k = draw(4); k > 0; k--) {
			strcat(path, "/");
			strcat(path, names[draw(N_ELEMENTS(names))]);
		}
		len = strlen(path);
		found = names_index_find(index, path, len, name);
		strcat(path, "/");
		strcat(path, name);
		at = names_rule_at(&list, path);
		start = names_rule_begun(&list, path);
		if ((at != NULL) != (found.rule != NULL && found.last) ||
		    (at == NULL && (start != NULL) != (found.rule != NULL)))
			fail_msg("%s: %s, %s, index %s", path, at, start, found.rule);
		if (at == NULL &&
		    (names_rule_cut(&list, path) != NULL) !=
			(found.rule != NULL && found.parts > 1))
			fail_msg("%s: the index has %zu components", path, found.parts);
		if (found.rule != NULL && !names_index_may(index, name))
			fail_msg("%s: no rule may have it", name);
		whole += at != NULL;
		begun += at == NULL && start != NULL;
	}
	assert_true(whole > DRAWS / 10 && begun > DRAWS / 100);
	names_index_free(index);
	policy_list_done(&list);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_case),
		cmocka_unit_test(normalised),
		cmocka_unit_test(vendored),
		cmocka_unit_test(index_agrees),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
