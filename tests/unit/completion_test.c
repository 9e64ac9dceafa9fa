/* SPDX-License-Identifier: Apache-2.0 */
/* What the synopsis of a command says about its words, and what the manual makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/completion.h"
#include "cli/manual.h"

static const struct {
	const char *label, *synopsis,
	    *words; /* each word with its kind; "..." repeats; NULL: refused */
} cases[] = {
	{ "no word", "", "" },
	{ "one word", "PATH", "PATH=files" },
	{ "one that may be missing", "[PATH]", "PATH=files" },
	{ "one that repeats", "REGEX [PATH]...", "REGEX=nothing PATH=files..." },
	{ "two words", "FROM TO", "FROM=files TO=files" },
	{ "an optional end of a word", "HOST[:PORT]", "HOST=nothing" },
	{ "an option's value is not a word", "PATH --old TEXT --new TEXT [--all] ...",
	    "PATH=files" },
	{ "the alternative with the most words", "-c 'COMMAND LINE' | -- COMMAND [ARGUMENT]...",
	    "COMMAND=command ARGUMENT=files..." },
	{ "an option without a value", "--last [PATH]...", "PATH=files..." },
	{ "a choice", "bash|zsh|fish", "bash|zsh|fish=bash|zsh|fish" },
	{ "a word of no kind", "PATH WHATEVER", NULL },
};

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct subcommand command = { .name = "try",
		.synopsis = cases[i].synopsis,
		.opts =
		    OPT_BIT(OPT_COMMAND) | OPT_BIT(OPT_OLD) | OPT_BIT(OPT_NEW) | OPT_BIT(OPT_ONCE),
		.brief = "try",
		.help = "" };
	struct completion_words words;
	char unknown[32] = "", got[256] = "";
	const int r = completion_words(&command, &words, unknown);

	assert_int_equal(r, cases[i].words != NULL ? 0 : -1);
	if (r < 0) {
		assert_string_equal(unknown, "WHATEVER");
		return;
	}
	for (size_t w = 0; w < words.n; w++) {
		const size_t n = strlen(got);

		snprintf(got + n, sizeof(got) - n, "%s%s=%s%s", w > 0 ? " " : "",
		    words.words[w].name, words.words[w].kind,
		    words.repeats && w + 1 == words.n ? "..." : "");
	}
	assert_string_equal(got, cases[i].words);
}

static void
every_row_has_kinds(void **state)
{
	char unknown[32] = "", *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_non_null(f);
	assert_int_equal(completion_write(f, "bash", unknown), 0);
	assert_int_equal(completion_write(f, "tcsh", unknown), -1);
	fclose(f);
	assert_string_equal(unknown, "");
	assert_true(size > 1000);
	free(text);
}

/* A text that begins like a request, a backslash and a quote stay text. */
static void
text_is_no_macro(void **state)
{
	const struct subcommand command = {
		.group = "a",
		.name = "b",
		.synopsis = "HOST[:PORT]",
		.brief = "try",
		.help =
		    ".SECRET and 'quotes' and a\\b --all.\n\n  an --example\n\nStatus: as for run."
	};
	char name[MANUAL_NAME_MAX], *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_non_null(f);
	manual_page(f, &command, "January 1, 2026");
	fclose(f);
	assert_string_equal(manual_name(&command, name), "koda-sandbox-a-b.1");
	assert_non_null(strstr(text, "\n\\&.SECRET and \\(aqquotes\\(aq and a\\eb \\-\\-all.\n"));
	assert_non_null(strstr(text, "\n.Bd -literal -offset indent\nan \\-\\-example\n.Ed\n"));
	assert_non_null(strstr(text, "\n.Ar HOST Ns Op : Ns Ar PORT\n"));
	assert_non_null(strstr(text, "\n.Sh EXIT STATUS\nAs for run.\n"));
	free(text);
}

int
main(void)
{
	struct CMUnitTest tests[sizeof(cases) / sizeof(cases[0]) + 2];
	size_t n = 0;

	for (; n < sizeof(cases) / sizeof(cases[0]); n++)
		tests[n] = (struct CMUnitTest){ cases[n].label, check_case, NULL, NULL, (void *)n };
	tests[n++] =
	    (struct CMUnitTest){ "every row has kinds", every_row_has_kinds, NULL, NULL, NULL };
	tests[n] = (struct CMUnitTest){ "text is no macro", text_is_no_macro, NULL, NULL, NULL };
	return cmocka_run_group_tests_name("completion", tests, NULL, NULL);
}
