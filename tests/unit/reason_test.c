/* SPDX-License-Identifier: Apache-2.0 */
/* host/policy/reason.c: why a place is protected, and what to do about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/policy/reason.h"
#include "shared/base/cleanup.h"

#define HOME "/home/u"

static const struct {
	const char *label, *rule, *path;
	const char *want; /* NULL: no sentence; otherwise its beginning */
} cases[] = {
	{ "in a package", "deny_write_names", "/p/packages/app/.vscode/tasks.json",
	    "'.vscode' is protected: editors run" },
	{ "in the root", "deny_write_within_allow", "/p/.envrc", "'.envrc' is protected: direnv" },
	{ "in another case", "deny_write_names", "/p/.EnvRC", "'.envrc' is protected: direnv" },
	{ "by a pattern", "deny_write_names", "/p/a.code-workspace",
	    "'*.code-workspace' is protected: editors" },
	{ "of two components", "deny_write_names", "/p/.github/hooks/x.json",
	    "'.github/hooks' is protected: an agent runs" },
	{ "a directory that cannot be moved", "protected_below", "/p/x/.mcp.json",
	    "'.mcp.json' is protected: agents start" },
	{ "of the home directory", "deny_write_within_allow", HOME "/.ssh/config",
	    "'.ssh' is protected: it holds keys" },
	{ "not of another one's", "deny_write_within_allow", "/home/v/.ssh/config", NULL },
	{ "a rule that the embedder made", "deny_write_within_allow", "/p/fixed", NULL },
	{ "another rule", "allow_write", "/p/.vscode/x", NULL },
	{ "what is only told", "deny_write_names", "/p/AGENTS.md", NULL },
	{ "no path", "deny_write_names", "", NULL },
};

static void
reason_case(void **state)
{
	static const char tail[] = "; change it yourself, outside the sandbox";
	const size_t i = (uintptr_t)*state;
	char text[REASON_MAX] = "";

	assert_int_equal(reason_of(cases[i].rule, cases[i].path, HOME, text),
	    cases[i].want != NULL);
	if (cases[i].want == NULL)
		return;
	assert_int_equal(strncmp(text, cases[i].want, strlen(cases[i].want)), 0);
	assert_string_equal(text + strlen(text) - strlen(tail), tail);
}

static void
told(void **state)
{
	assert_string_equal(reason_told("/p/packages/app/AGENTS.md"), "agents follow it");
	assert_non_null(strstr(reason_told("/p/.github/workflows/ci.yml"), "build service"));
	assert_null(reason_told("/p/.github/dependabot.yml"));
	assert_null(reason_told("/p/.vscode/tasks.json"));
}

/* A cut sentence is worse than none. */
static void
appended_whole_or_not(void **state)
{
	char message[400] = "refused";

	reason_append("deny_write_names", "/p/.vscode/x", message, sizeof(message));
	assert_int_equal(strncmp(message, "refused. '.vscode' is protected: ", 33), 0);
	strcpy(message, "refused");
	reason_append("deny_write_names", "/p/.vscode/x", message, 60);
	assert_string_equal(message, "refused");
	reason_append("allow_write", "/p/.vscode/x", message, sizeof(message));
	assert_string_equal(message, "refused");
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + 2] = {
		cmocka_unit_test(told),
		cmocka_unit_test(appended_whole_or_not),
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[2 + i] =
		    (struct CMUnitTest){ cases[i].label, reason_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("reason", tests, NULL, NULL);
}
