/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/scan/gitstate.c: the files that git follows: each text that leads git astray is
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "worker/scan/gitstate.h"

#define must(x) assert_true(x)
#define HASH    "0123456789012345678901234567890123456789"

static bool
is_path(const char *text, size_t len)
{
	return gitstate_is_path(text);
}

#define T(text) text, sizeof(text) - 1

static const struct {
	gitstate_fn *fn;
	const char *text;
	size_t len;
	bool good;
} cases[] = {
	{ is_path, T("a"), true },
	{ is_path, T("a/b.c/..d/d..e/..."), true },
	{ is_path, T("sparse/"), true },
	{ is_path, T("a\nb \xff"), true },
	{ is_path, T(".github/x"), true },
	{ is_path, T(".gitmodules"), true },
	{ is_path, T(""), false },
	{ is_path, T("/"), false },
	{ is_path, T("/a"), false },
	{ is_path, T("a//b"), false },
	{ is_path, T("a//"), false },
	{ is_path, T("."), false },
	{ is_path, T("./a"), false },
	{ is_path, T("a/./b"), false },
	{ is_path, T(".."), false },
	{ is_path, T("../a"), false },
	{ is_path, T("a/.."), false },
	{ is_path, T("a/../"), false },
	{ is_path, T("a/../b"), false },
	{ is_path, T(".git"), false },
	{ is_path, T(".git/hooks/x"), false },
	{ is_path, T("a/.git/config"), false },
	{ is_path, T("a/.GIT"), false },
	{ is_path, T("a/.g\xe2\x80\x8cit/x"), false },

	{ gitstate_is_ref, T(""), true },
	{ gitstate_is_ref, T(HASH "\n"), true },
	{ gitstate_is_ref, T("ref"), true },
	{ gitstate_is_ref, T(" ref: commondir"), true },
	{ gitstate_is_ref, T("ref: refs/heads/main\n"), true },
	{ gitstate_is_ref, T("ref:\t refs/heads/a-b/c.d@x\n\n "), true },
	{ gitstate_is_ref, T("ref: refs/heads/.invalid\n"), true },
	{ gitstate_is_ref, T("ref:"), false },
	{ gitstate_is_ref, T("ref: refs/"), false },
	{ gitstate_is_ref, T("ref: refs"), false },
	{ gitstate_is_ref, T("ref: commondir"), false },
	{ gitstate_is_ref, T("ref:commondir\n"), false },
	{ gitstate_is_ref, T("ref: HEAD"), false },
	{ gitstate_is_ref, T("ref: hooks/post-commit"), false },
	{ gitstate_is_ref, T("ref: refs/../config"), false },
	{ gitstate_is_ref, T("ref: refs/heads/../../config"), false },
	{ gitstate_is_ref, T("ref: refs//x"), false },
	{ gitstate_is_ref, T("ref: refs/heads/x\nref: y"), false },
	{ gitstate_is_ref, T("ref: refs/heads/x\0y"), false },
	{ gitstate_is_ref, T("ref: refs/heads/"), false },
	{ gitstate_is_ref, T("ref: ./refs/heads/x"), false },

	{ gitstate_is_merge_options, T(""), true },
	{ gitstate_is_merge_options, T(" --ours --find-renames=50%\n"), true },
	{ gitstate_is_merge_options, T("'--subtree=a/b' \"--patience\" theirs"), true },
	{ gitstate_is_merge_options, T("--index-output=x"), false },
	{ gitstate_is_merge_options, T("'--index-output=x'"), false },
	{ gitstate_is_merge_options, T("--ours=x"), false },
	{ gitstate_is_merge_options, T("--subtree=a;b"), false },
	{ gitstate_is_merge_options, T("'--subtree=a b'"), false },
	{ gitstate_is_merge_options, T("--subtree=a\0--index-output=x"), false },
	{ gitstate_is_merge_options, T("'"), false },
	{ gitstate_is_merge_options, T("--"), false },

	{ gitstate_is_apply_options, T(""), true },
	{ gitstate_is_apply_options, T(" '-C3' '-p12' '--whitespace=fix' '--reject'\n"), true },
	{ gitstate_is_apply_options, T(" '--directory=it'\\''s'"), true },
	{ gitstate_is_apply_options, T(" '--build-fake-ancestor=x'"), false },
	{ gitstate_is_apply_options, T("--reject"), false },
	{ gitstate_is_apply_options, T("'-C3x'"), false },
	{ gitstate_is_apply_options, T("'--reject''x'"), false },
	{ gitstate_is_apply_options, T("'--reject'x"), false },
	{ gitstate_is_apply_options, T("''"), false },
	{ gitstate_is_apply_options, T("';x'"), false },

	{ gitstate_is_merge_rr, T(""), true },
	{ gitstate_is_merge_rr, T(HASH "\ta/b\0"), true },
	{ gitstate_is_merge_rr, T(HASH ".1\ta\0" HASH "\tb\tc\0"), true },
	{ gitstate_is_merge_rr, T(HASH "\ta"), false },
	{ gitstate_is_merge_rr, T(HASH "\t../a\0"), false },
	{ gitstate_is_merge_rr, T(HASH "\ta\0" HASH "\t/b\0"), false },
	{ gitstate_is_merge_rr, T(HASH "\t.git/hooks/x\0"), false },
	{ gitstate_is_merge_rr, T(HASH " a\0"), false },
	{ gitstate_is_merge_rr, T("xx\ta\0"), false },
	{ gitstate_is_merge_rr, T("../x" HASH "\ta\0"), false },
	{ gitstate_is_merge_rr, T("\0"), false },

	{ gitstate_is_quoted, T(""), true },
	{ gitstate_is_quoted, T("\n"), true },
	{ gitstate_is_quoted, T(" 'a' 'b c;$x`y`'\n"), true },
	{ gitstate_is_quoted, T("'it'\\''s' 'wow'\\!''"), true },
	{ gitstate_is_quoted, T("a"), false },
	{ gitstate_is_quoted, T("'a';touch x"), false },
	{ gitstate_is_quoted, T("'a'\\;'b'"), false },
	{ gitstate_is_quoted, T("'a"), false },
	{ gitstate_is_quoted, T("$(touch x)"), false },
	{ gitstate_is_quoted, T("'a'\\'"), false },

	{ gitstate_is_author, T(""), true },
	{ gitstate_is_author,
	    T("GIT_AUTHOR_NAME='A B'\nGIT_AUTHOR_EMAIL='a@b'\nGIT_AUTHOR_DATE='@1 +0000'\n"),
	    true },
	{ gitstate_is_author, T("GIT_AUTHOR_NAME='O'\\''B'"), true },
	{ gitstate_is_author, T("GIT_AUTHOR_NAME=''\n"), true },
	{ gitstate_is_author, T("touch x\n"), false },
	{ gitstate_is_author, T("GIT_AUTHOR_NAME='a';touch x\n"), false },
	{ gitstate_is_author, T("GIT_AUTHOR_NAME=a\n"), false },
	{ gitstate_is_author, T("PATH='x'\n"), false },
	{ gitstate_is_author, T("GIT_AUTHOR_NAME="), false },
	{ gitstate_is_author, T("GIT_AUTHOR_NAME='a'\n\ntouch x"), false },

	{ gitstate_is_updates, T(""), true },
	{ gitstate_is_updates, T("refs/heads/x\n" HASH "\n" HASH "\n"), true },
	{ gitstate_is_updates, T("refs/heads/x\n1\n2\nrefs/tags/y\n1\n2\n"), true },
	{ gitstate_is_updates, T("commondir\n1\n2\n"), false },
	{ gitstate_is_updates, T("refs/heads/x\n1\n2\nhooks/x\n1\n2\n"), false },
	{ gitstate_is_updates, T("\n"), false },
};

static void
test_texts(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		if (cases[i].fn(cases[i].text, cases[i].len) != cases[i].good)
			fail_msg("'%s' is taken for %s", cases[i].text,
			    cases[i].good ? "bad" : "good");
	}
}

static void
test_names(void **state)
{
	must(gitstate_list_of("MERGE_RR") == gitstate_is_merge_rr);
	must(gitstate_list_of("BISECT_NAMES") == gitstate_is_quoted);
	must(gitstate_list_of("MERGE_MSG") == NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
