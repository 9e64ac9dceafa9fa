/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glob, grep and tree of an MCP client: what they report, what they leave out and say so, many at
 * once, and cancelled.
 */
#include "tests/kit/cases.h"
#include "tests/kit/family.h"
#include "tests/kit/mcp.h"

#define AT "result.structuredContent."

static int
make_files(void **state)
{
	int r = make_project(state);

	process_shell(
	    "cd \"$1\" && mkdir -p src/deep docs .git && "
	    "printf 'int\\nmain(void)\\n{\\n\\treturn 0;\\n}\\n' >src/main.c && "
	    "printf 'import os\\nReturn = 1\\nreturn\\n' >src/deep/x.py && "
	    "mkdir made && printf 'ignored return\\n' >made/skip.o && echo made/ >.gitignore && "
	    "printf 'hidden return\\n' >.dot && printf 'a\\000return\\n' >docs/binary && "
	    "printf '%02000dneedle%02000d\\n' 0 0 >docs/long && ln -s src/main.c link && "
	    "printf 'caf\\351 \\033[2J odd\\n' >docs/latin",
	    project, NULL, NULL);
	return r;
}

#define ZEROES_50 "00000000000000000000000000000000000000000000000000"
#define ZEROES                                                                                     \
	ZEROES_50 ZEROES_50 ZEROES_50 ZEROES_50 ZEROES_50 ZEROES_50 ZEROES_50 ZEROES_50 ZEROES_50  \
	    ZEROES_50

static const struct query {
	const char *label, *tool, *args;
	const char *want[5]; /* each must occur in the answer; after '!': must not */
} queries[] = {
	/* clang-format off */
	{ "glob at any depth", "glob", "{\"pattern\":\"*.py\"}",
	    { "\"files\":[\"src/deep/x.py\"]", "\"found\":1", "\"more\":false", "\"text\":\"src/deep/x.py\\n\"" } },
	{ "glob with directories", "glob", "{\"pattern\":\"src/**\"}", { "\"files\":[\"src/deep/x.py\",\"src/main.c\"]" } },
	{ "glob of everything", "glob", "{\"pattern\":\"**/*\"}", { "\"src/main.c\"", "\"src/deep/x.py\"", "!.dot", "!skip.o", "!.git" } },
	{ "grep with a glob of everything", "grep", "{\"pattern\":\".\",\"glob\":\"*\"}", { "src/main.c", "!.dot", "!skip.o" } },
	{ "glob below a path", "glob", "{\"pattern\":\"*.c\",\"path\":\"src/\"}", { "\"files\":[\"src/main.c\"]" } },
	{ "glob with what is ignored", "glob", "{\"pattern\":\"*.o\",\"ignored\":true}", { "\"files\":[\"made/skip.o\"]" } },
	{ "glob with what is hidden", "glob", "{\"pattern\":\".d*\",\"hidden\":true}", { "\"files\":[\".dot\"]" } },
	{ "glob whatever case", "glob", "{\"pattern\":\"MAIN.C\",\"case_insensitive\":true}", { "\"files\":[\"src/main.c\"]" } },
	{ "glob: nothing", "glob", "{\"pattern\":\"*.rs\"}", { "\"files\":[]", "\"found\":0", "nothing found in " } },
	{ "glob: a limit", "glob", "{\"pattern\":\"*\",\"limit\":1}", { "\"found\":1", "\"more\":true", "(there is more: " } },
	{ "glob: no pattern", "glob", "{\"pattern\":\"{a\"}", { "\"isError\":true", "\"code\":\"invalid\"" } },
	{ "glob: nothing to look for", "glob", "{}", { "\"isError\":true", "'pattern' is missing" } },
	{ "grep by lines", "grep", "{\"pattern\":\"ret[u]rn\"}",
	    { "{\"path\":\"src/deep/x.py\",\"lines\":[{\"line\":3,\"text\":\"return\"}]}", "{\"line\":4,\"text\":\"\\treturn 0;\"}",
	      "\"text\":\"src/deep/x.py\\n3:return\\n\\nsrc/main.c\\n4:\\treturn 0;\\n\"", "!ignored" } },
	{ "grep with context", "grep", "{\"pattern\":\"main\",\"context\":1}",
	    { "{\"line\":1,\"text\":\"int\",\"context\":true},{\"line\":2,\"text\":\"main(void)\"},{\"line\":3,", "1-int\\n2:main(void)\\n3-{\\n" } },
	{ "grep with more before", "grep", "{\"pattern\":\"main\",\"context\":0,\"before\":1}", { "1-int\\n2:main(void)\\n\"" } },
	{ "grep whatever case", "grep", "{\"pattern\":\"RETURN\",\"case_insensitive\":true,\"type\":\"py\"}", { "2:Return = 1\\n3:return\\n", "!main.c" } },
	{ "grep in some files", "grep", "{\"pattern\":\"return\",\"glob\":\"!*.py\"}", { "\"path\":\"src/main.c\"", "!x.py" } },
	{ "grep for plain text", "grep", "{\"pattern\":\"main(void)\",\"fixed\":true}", { "2:main(void)" } },
	{ "grep over lines", "grep", "{\"pattern\":\"int\\nmain\",\"multiline\":true}", { "1:int\\n2:main(void)\\n" } },
	{ "grep for words", "grep", "{\"pattern\":\"mai\",\"word\":true}", { "\"matches\":[]" } },
	{ "grep: files", "grep", "{\"pattern\":\"return\",\"output_mode\":\"files_with_matches\"}",
	    { "\"matches\":[{\"path\":\"src/deep/x.py\"},{\"path\":\"src/main.c\"}]", "\"text\":\"src/deep/x.py\\nsrc/main.c\\n\"" } },
	{ "grep: counts", "grep", "{\"pattern\":\"r\",\"output_mode\":\"count\",\"path\":\"src\"}",
	    { "{\"path\":\"src/deep/x.py\",\"count\":3}", "src/main.c:1\\n" } },
	{ "grep in one file", "grep", "{\"pattern\":\"return\",\"path\":\"src/main.c\"}", { "{\"path\":\"src/main.c\",\"lines\"" } },
	{ "grep in a binary file", "grep", "{\"pattern\":\"return\",\"path\":\"docs/binary\"}", { "{\"path\":\"docs/binary\",\"binary\":true}", "binary file matches" } },
	{ "grep in a long line", "grep", "{\"pattern\":\"needle\"}", { "\"cut\":true", "needle", "[...]", "!" ZEROES } },
	{ "grep in what is no UTF-8", "grep", "{\"pattern\":\"odd\"}", { "\"text\":\"caf\xef\xbf\xbd \\u001B[2J odd\"" } },
	{ "grep outside", "grep", "{\"pattern\":\"x\",\"path\":\"../outside\"}", { "\"isError\":true" } },
	{ "grep: no pattern", "grep", "{\"pattern\":\"(\"}", { "\"isError\":true", "\"code\":\"invalid\"", "missing closing parenthesis" } },
	{ "grep: a pattern without end", "grep", "{\"pattern\":\"^(a|a?)+$\",\"path\":\"bomb\"}", { "\"isError\":true", "\"code\":\"too_large\"" } },
	{ "grep: no type", "grep", "{\"pattern\":\"x\",\"type\":\"none\"}", { "\"isError\":true", "there is no file type 'none'" } },
	{ "grep: no place", "grep", "{\"pattern\":\"x\",\"path\":\"none\"}", { "\"isError\":true", "\"code\":\"io\"" } },
	{ "grep: a pattern with a NUL", "grep", "{\"pattern\":\"a\\u0000\"}", { "\"isError\":true", "pattern: contains a NUL" } },
	{ "grep: no mode", "grep", "{\"pattern\":\"x\",\"output_mode\":\"all\"}", { "\"isError\":true", "output_mode" } },
	{ "tree", "tree", "{}",
	    { "{\"path\":\"src\",\"type\":\"directory\",\"size\":", "{\"path\":\"src/main.c\",\"type\":\"regular\",\"size\":30}",
	      "{\"path\":\"link\",\"type\":\"symlink\"", "\\n  src/\\t", "!.dot" } },
	{ "tree of some depth", "tree", "{\"depth\":1}", { "{\"path\":\"src\",\"type\":\"directory\"", "!main.c" } },
	{ "tree of some files", "tree", "{\"glob\":\"*.py\",\"path\":\"src\"}", { "\"text\":\"src/\\t28 in 1 file\\n  deep/\\t28 in 1 file\\n    x.py\\t28\\n\"", "!main.c" } },
	{ "tree of a file", "tree", "{\"path\":\"src/main.c\"}", { "{\"path\":\"src/main.c\",\"type\":\"regular\",\"size\":30}" } },
	{ "tree: too deep", "tree", "{\"depth\":0}", { "\"isError\":true", "depth: is less than 1" } },
	/* clang-format on */
};

static void
test_query(void **state)
{
	const struct query *q = *state;
	struct client c = client_open("plan", "{}");
	json_t *args = json_loads(q->args, JSON_ALLOW_NUL, NULL), *message;
	char *text;

	process_shell("i=0; while [ $i -lt 30 ]; do printf a; i=$((i + 1)); done >\"$1/bomb\"; "
		      "echo b >>\"$1/bomb\"",
	    project, NULL, NULL);
	assert_non_null(args);
	message = call_tool(&c, q->tool, args);
	text = json_dumps(message, JSON_COMPACT);
	for (size_t i = 0; i < N_ELEMENTS(q->want) && q->want[i] != NULL; i++) {
		const bool absent = q->want[i][0] == '!';

		if ((strstr(text, q->want[i] + absent) == NULL) != absent)
			fail_msg("%s: not so in %s", q->want[i], text);
	}
	free(text);
	json_decref(message);
	json_decref(ask(&c, "ping", NULL));
	client_end(&c);
}

/* However much is found, an answer holds no more than a model reads. */
static void
test_bounded(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	process_shell("seq 200000 >\"$1/numbers\"; cd \"$1\" && for i in $(seq 3000); do echo "
		      "a-name-that-is-not-short-at-all-$i; done | xargs touch",
	    project, NULL, NULL);
	message = call_tool(&c, "grep", json_pack("{s:s, s:i}", "pattern", "1", "limit", 10000));
	went_well(message);
	is_true(message, AT "more");
	assert_in_range(json_string_length(look(message, "result.content.0.text")), 32 << 10,
	    66 << 10);
	json_decref(message);
	message = call_tool(&c, "glob", json_pack("{s:s, s:i}", "pattern", "a-*", "limit", 10000));
	is_true(message, AT "more");
	assert_in_range(json_string_length(look(message, "result.content.0.text")), 32 << 10,
	    66 << 10);
	json_decref(message);
	/* Limited by the number of results. */
	message = call_tool(&c, "grep", json_pack("{s:s}", "pattern", "1"));
	counts(message, AT "found", 250);
	is_true(message, AT "more");
	json_decref(message);
	client_end(&c);
}

static void
test_troubles(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	process_shell("echo x >\"$1/closed\" && chmod 0 \"$1/closed\"", project, NULL, NULL);
	message = call_tool(&c, "grep", json_pack("{s:s}", "pattern", "return"));
	went_well(message);
	says(message, AT "troubles.0.path", "closed");
	says_part(message, "result.content.0.text", "(could not be read: closed: ");
	json_decref(message);
	client_end(&c);
}

/* More searches than are served at once: all are answered, and other calls in between. */
static void
test_at_once(void **state)
{
	struct client c = client_open("auto", "{}");
	bool seen[40] = { false };
	json_int_t first = c.next_id;

	for (int i = 0; i < 40; i++) {
		if (i % 4 == 3)
			request(&c, "ping", NULL);
		else
			request_tool(&c, i % 2 == 0 ? "grep" : "glob",
			    json_pack("{s:s}", "pattern", i % 2 == 0 ? "main" : "main.c"));
	}
	for (int i = 0; i < 40; i++) {
		json_t *message = receive(&c);
		json_int_t k;

		/* The server's own notifications may come in between. */
		while (json_object_get(message, "id") == NULL) {
			json_decref(message);
			message = receive(&c);
		}
		k = json_integer_value(look(message, "id")) - first;
		assert_in_range(k, 0, 39);
		assert_false(seen[k]);
		seen[k] = true;
		if (k % 4 != 3)
			counts(message, AT "found", 1);
		json_decref(message);
	}
	client_end(&c);
}

static void
test_too_many(void **state)
{
	struct client c = client_open("auto", "{}");
	json_int_t ids[65];
	json_t *message;

	process_shell("cd \"$1\" && truncate -s 64G endless", project, NULL, NULL);
	for (size_t i = 0; i < N_ELEMENTS(ids); i++)
		ids[i] = request_tool(&c, "grep",
		    json_pack("{s:s, s:s}", "pattern", "x\\d+", "path", "endless"));
	message = answer(&c, ids[64]);
	went_wrong(message, "internal");
	json_decref(message);
	for (size_t i = 0; i < N_ELEMENTS(ids); i++)
		send_json(&c,
		    json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method",
			"notifications/cancelled", "params", "requestId", ids[i]));
	message = call_tool(&c, "glob", json_pack("{s:s}", "pattern", "main.c"));
	counts(message, AT "found", 1);
	json_decref(message);
	client_end(&c);
}

/* Running and waiting searches are cancelled, and the next one is served. */
static void
test_cancelled(void **state)
{
	struct client c = client_open("auto", "{}");
	const uint64_t until = clock_ms() + PATIENCE_MS;
	json_int_t ids[12];
	json_t *message;

	/* A pipe yields no data; this file yields no match and takes for ever to read. */
	process_shell("cd \"$1\" && truncate -s 64G endless", project, NULL, NULL);
	for (size_t i = 0; i < N_ELEMENTS(ids); i++)
		ids[i] = request_tool(&c, "grep",
		    json_pack("{s:s, s:s}", "pattern", "(?s)x.*y|z\\d+", "path", "endless"));
	while (family_count(c.p.pid, "koda-fs-search", NULL) < 4)
		assert_true(clock_ms() < until);
	assert_int_equal(family_count(c.p.pid, "koda-fs-search", NULL), 4);
	for (size_t i = 0; i < N_ELEMENTS(ids); i++)
		send_json(&c,
		    json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method",
			"notifications/cancelled", "params", "requestId", ids[i]));
	message = call_tool(&c, "glob", json_pack("{s:s}", "pattern", "main.c"));
	counts(message, AT "found", 1);
	json_decref(message);
	while (family_count(c.p.pid, "koda-fs-search", NULL) > 0)
		assert_true(clock_ms() < until);
	client_end(&c);
}

/* The end of the input does not wait for searches, and leaves none. */
static void
test_end_of_input(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	process_shell("cd \"$1\" && truncate -s 64G endless", project, NULL, NULL);
	for (int i = 0; i < 8; i++)
		request_tool(&c, "grep",
		    json_pack("{s:s, s:s}", "pattern", "x\\d+", "path", "endless"));
	process_close_input(&c.p);
	while ((message = receive(&c)) != NULL)
		json_decref(message);
	assert_int_equal(client_wait(&c), 0);
}

/* The search process dies: another one takes over. A call fails only if that one dies, too. */
static void
test_dies(void **state)
{
	struct client c = client_open("auto", "{}");
	const uint64_t until = clock_ms() + PATIENCE_MS;
	json_t *message, *begun;
	pid_t pid = 0, last = 0;
	json_int_t id;

	begun = call_tool(&c, "run_command",
	    json_pack("{s:s, s:b}", "command", "sleep 600", "background", 1));
	process_shell("cd \"$1\" && truncate -s 64G endless", project, NULL, NULL);
	id = request_tool(&c, "grep",
	    json_pack("{s:s, s:s}", "pattern", "x\\d+", "path", "endless"));
	/* Once more often than the search is restarted. */
	for (int i = 0; i < 2; i++) {
		while (family_count(c.p.pid, "koda-fs-search", &pid) == 0 || pid == last)
			assert_true(clock_ms() < until);
		last = pid;
		assert_int_equal(kill(pid, SIGKILL), 0);
	}
	message = receive(&c);
	while (look(message, "method") != NULL) {
		json_decref(message);
		message = receive(&c);
	}
	counts(message, "id", id);
	went_wrong(message, "worker");
	json_decref(message);
	/* Only the search died. */
	message = call_tool(&c, "glob", json_pack("{s:s}", "pattern", "main.c"));
	counts(message, AT "found", 1);
	json_decref(message);
	message =
	    call_tool(&c, "command_output", json_pack("{s:s}", "id", string_at(begun, AT "id")));
	is_true(message, AT "running");
	json_decref(message);
	json_decref(begun);
	client_end(&c);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_files, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_bounded),
		TEST(test_troubles),
		TEST(test_at_once),
		TEST(test_too_many),
		TEST(test_cancelled),
		TEST(test_end_of_input),
		TEST(test_dies),
	};
	struct CMUnitTest tests[N_ELEMENTS(queries) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(queries); i++)
		tests[n++] = (struct CMUnitTest){ queries[i].label, test_query, make_files,
			remove_project, (void *)&queries[i] };
	OTHERS(single);
	return cmocka_run_group_tests_name("mcp_search", tests, make_installation,
	    remove_installation);
}
