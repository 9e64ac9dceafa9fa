/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/top_view.c: what servers report, on a screen of some size: no foreign text reaches it raw,
 * and it fits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/top_view.h"
#include "shared/base/cleanup.h"

static const char two[] =
    "[{\"pid\":12,\"sessions\":[{\"name\":\"main\",\"mode\":\"safe\",\"root\":\"/p\",\"slots\":1,\"calls\":3}],"
    "\"workers\":[{\"session\":\"main\",\"pid\":99,\"rss_kib\":2048}],"
    "\"commands\":[{\"session\":\"main\",\"command\":\"make \\u001b]0;x\\u0007 \\u202e all\",\"seconds\":1.25}],"
    "\"connections\":[{\"session\":\"main\",\"host\":\"a.example\",\"port\":443,\"verdict\":\"allowed\","
    "\"bytes_up\":1536,\"bytes_down\":5}],"
    "\"tools\":[{\"name\":\"read_file\",\"calls\":3,\"p50_us\":90,\"p99_us\":1500}],"
    "\"numbers\":{\"child_refusals\":2},\"left_out\":4},"
    "{\"name\":\"0123456789abcdef\",\"silent\":true}]";

static const struct {
	const char *label, *json;
	struct top_size size;
	const char *has; /* NULL: not checked */
	const char *lacks;
	unsigned lines;
} cases[] = {
	/* clang-format off */
	{ "nobody", "[]", { .end = "\n" }, "no server is running\n", NULL, 1 },
	{ "a session", two, { .end = "\n" }, "\n  main              safe     1       0        3       0        0          0  /p\n", NULL, 14 },
	{ "a worker", two, { .end = "\n" }, "\n  main                   99     2.0M\n", NULL, 14 },
	{ "a command, escaped", two, { .end = "\n" }, "  main                  1.2 s  make \\x1b]0;x\\x07 \\u{202e} all\n", "\033", 14 },
	{ "a connection", two, { .end = "\n" }, "  main              allowed      1.5K       5B  a.example:443\n", NULL, 14 },
	{ "a tool", two, { .end = "\n" }, "  read_file                3     90 us    1.5 ms\n", NULL, 14 },
	{ "a number", two, { .end = "\n" }, "  child_refusals: 2\n", NULL, 14 },
	{ "what the server left out", two, { .end = "\n" }, "and 4 more rows", NULL, 14 },
	{ "a silent one", two, { .end = "\n" }, "server 0123456789abcdef does not answer\n", NULL, 14 },
	{ "colours", two, { .end = "\n", .colour = true }, "\033[1mserver 12\033[0m\n", NULL, 14 },
	{ "narrow", two, { .end = "\n", .columns = 12 }, "\n  main      \n", "make", 14 },
	{ "low", two, { .end = "\n", .rows = 4 }, "... and 11 lines more", "read_file", 4 },
	{ "one row", two, { .end = "\n", .rows = 1 }, "... and 14 lines more", "server", 1 },
	{ "ends of lines", "[]", { .end = "\033[K\r\n" }, "no server is running\033[K\r\n", NULL, 1 },
	{ "other types than told", "[{\"pid\":\"x\",\"sessions\":{\"a\":1},\"workers\":[1,null,[]],\"numbers\":3}, 7]",
	    { .end = "\n" }, "server 0\n", NULL, 6 },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state, len;
	json_t *servers = json_loads(cases[i].json, 0, NULL);
	char *text = NULL;
	FILE *f = open_memstream(&text, &len);
	unsigned lines;

	assert_non_null(servers);
	assert_non_null(f);
	lines = top_view(f, servers, &cases[i].size);
	assert_int_equal(fclose(f), 0);
	if (cases[i].has != NULL && strstr(text, cases[i].has) == NULL)
		fail_msg("it says:\n%s", text);
	if (cases[i].lacks != NULL && strstr(text, cases[i].lacks) != NULL)
		fail_msg("it says:\n%s", text);
	assert_int_equal(lines, cases[i].lines);
	free(text);
	json_decref(servers);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("top_view", tests, NULL, NULL);
}
