/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long list of deny_write_names has a hash table. Looking up a path there finds the same rule as
 * comparing the path with each rule, not just some rule. Random lists and paths over a small
 * alphabet, so that rules overlap often. Tests shared/rules/names.c.
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

#define LISTS 600
#define PATHS 300

static uint64_t seed = 0x6b6f6461; /* KODA_TEST_SEED overrides */
/* Adds a component. In a rule it may have a '*'. In a path it may have another spelling that folds
 * to the same name, or be a short form. */
static void
draw_part(char *to, size_t size, bool rule)
{
	static const char *const words[] = { "a", "b", "ab", ".a", "a.b", ".vscode", "abcdefgh",
		"x" };
	static const char *const globs[] = { "*.a", "a*", "a*b", "*b" };
	static const char *const odd[] = { "A", "aB", "a.", "b ", "abcdef~1", "A~1", "*.a", "a*",
		"..", "...", "\xc3\xa4", "vscode~1", "a.x.b", "\xef\xbc\xa1" };
	const size_t len = strlen(to);
	const unsigned kind = draw(8);

	if (rule && kind == 0)
		snprintf(to + len, size - len, "%s", globs[draw(N_ELEMENTS(globs))]);
	else if (!rule && kind < 2)
		snprintf(to + len, size - len, "%s", odd[draw(N_ELEMENTS(odd))]);
	else if (kind < 5)
		snprintf(to + len, size - len, "%s", words[draw(N_ELEMENTS(words))]);
	else
		snprintf(to + len, size - len, "%c%c", 'a' + draw(4), 'a' + draw(4));
}

static void
draw_parts(char *to, size_t size, unsigned n, bool rule)
{
	to[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		if (!rule || i > 0)
			strcat(to, "/");
		draw_part(to, size, rule);
	}
}

/* Returns the first rule that the path ends inside of: the path ends with the rule's first
 * components, at least `begun` of them and not all. Compares each such beginning by itself. */
static const char *
begun_slowly(const struct policy_list *list, const char *path, size_t begun)
{
	for (size_t i = 0; i < list->n; i++) {
		char head[256], *h = head;
		struct policy_list one = { .n = 1, .v = &h };
		size_t k = 0;

		for (const char *slash = list->v[i]; (slash = strchr(slash, '/')) != NULL;
		     slash++) {
			snprintf(head, sizeof(head), "%.*s", (int)(slash - list->v[i]), list->v[i]);
			if (++k >= begun && names_rule_at(&one, path) != NULL)
				return list->v[i];
		}
	}
	return NULL;
}

static void
table_agrees(void **state)
{
	unsigned hashed = 0, at = 0, above = 0, cut = 0;

	for (unsigned l = 0; l < LISTS; l++) {
		struct policy_list list = { 0 }, slow;
		/* One in eight has too few rules for a table, some have very many with a '*'. */
		const unsigned n = l % 8 == 0 ? draw(16) : l % 50 == 1 ? 400 : 16 + draw(60);

		for (unsigned i = 0; i < n; i++) {
			char rule[256];

			draw_parts(rule, sizeof(rule), 1 + draw(draw(3) == 0 ? 4 : 2), true);
			if (l % 50 == 1)
				snprintf(rule, sizeof(rule), "%c%c*/%c%c", 'a' + draw(4),
				    'a' + draw(4), 'a' + draw(4), 'a' + draw(4));
			assert_int_equal(policy_list_add(&list, rule, NULL), 0);
		}
		slow = list;
		slow.slot = NULL;
		slow.n_slots = 0;
		hashed += list.n_slots > 0;
		for (unsigned i = 0; i < PATHS; i++) {
			char path[512];
			const char *want;

			draw_parts(path, sizeof(path), draw(7), false);
			want = names_rule_of(&slow, path);
			if (names_rule_of(&list, path) != want)
				fail_msg("%s: %s, slowly %s", path, names_rule_of(&list, path),
				    want);
			above += want != NULL;
			want = names_rule_at(&slow, path);
			if (names_rule_at(&list, path) != want)
				fail_msg("at %s: %s, slowly %s", path, names_rule_at(&list, path),
				    want);
			at += want != NULL;
			for (size_t begun = 1; begun <= 2; begun++) {
				const char *got = begun == 1 ? names_rule_begun(&list, path)
							     : names_rule_cut(&list, path);

				want = begun_slowly(&list, path, begun);
				if (got != want)
					fail_msg("%zu of %s: %s, slowly %s", begun, path, got,
					    want);
				cut += begun == 2 && want != NULL;
			}
		}
		policy_list_done(&list);
	}
	assert_true(hashed > LISTS / 2 && at > LISTS * PATHS / 20 && above > at && cut > LISTS);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_agrees),
	};
	const char *given = getenv("KODA_TEST_SEED");

	if (given != NULL)
		seed = strtoull(given, NULL, 0);
	draw_rng.s = seed;
	print_message("# seed %#llx\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("names_property", tests, NULL, NULL);
}
