/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Safe mode through an MCP client: what the user is shown, what an answer covers, and what then
 * happens on disk.
 */
#include "tests/kit/cases.h"
#include "tests/kit/mcp.h"

/* Receives the next message, which must be a question. The caller owns the result. */
static json_t *
question(struct client *c)
{
	json_t *message = receive(c);

	says(message, "method", "elicitation/create");
	says(message, "params.requestedSchema.type", "object");
	return message;
}

/* Answers the question and takes ownership of it. scope NULL: send no form content. */
static void
respond(struct client *c, json_t *asked, const char *action, const char *scope)
{
	json_t *result = json_pack("{s:s}", "action", action);

	if (scope != NULL)
		json_object_set_new(result, "content", json_pack("{s:s}", "scope", scope));
	send_json(c,
	    json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", look(asked, "id"), "result",
		result));
	json_decref(asked);
}

static json_t *
write_args(const char *path, const char *content)
{
	return json_pack("{s:s, s:s}", "path", path, "content", content);
}

static json_t *
edit_args(const char *path, const char *old, const char *new)
{
	return json_pack("{s:s, s:[{s:s, s:s}]}", "path", path, "edits", "old", old, "new", new);
}

/* ---- answers ---- */

static const struct given {
	const char *label, *response; /* the members of a response */
	bool yes;
} answers[] = {
	/* clang-format off */
	{ "accepted", "\"result\":{\"action\":\"accept\",\"content\":{\"scope\":\"once\"}}", true },
	{ "accepted for the session", "\"result\":{\"action\":\"accept\",\"content\":{\"scope\":\"session\"}}", true },
	{ "accepted as it stands", "\"result\":{\"action\":\"accept\",\"content\":{}}", true },
	{ "accepted without a form", "\"result\":{\"action\":\"accept\"}", true },
	{ "declined", "\"result\":{\"action\":\"decline\"}", false },
	{ "cancelled", "\"result\":{\"action\":\"cancel\"}", false },
	{ "declined with a form", "\"result\":{\"action\":\"decline\",\"content\":{\"scope\":\"session\"}}", false },
	{ "nothing", "\"result\":{}", false },
	{ "yes, in other words", "\"result\":{\"action\":\"yes\"}", false },
	{ "an action that is no word", "\"result\":{\"action\":true}", false },
	{ "a scope that was not offered", "\"result\":{\"action\":\"accept\",\"content\":{\"scope\":\"for ever\"}}", false },
	{ "a scope that is no word", "\"result\":{\"action\":\"accept\",\"content\":{\"scope\":true}}", false },
	{ "a form that is none", "\"result\":{\"action\":\"accept\",\"content\":\"once\"}", false },
	{ "an error", "\"error\":{\"code\":-1,\"message\":\"no\"}", false },
	/* clang-format on */
};

static void
test_answer(void **state)
{
	const struct given *a = *state;
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	char line[256];
	json_t *message;

	request_tool(&c, "write_file", write_args("a", "new\n"));
	message = question(&c);
	holds_text("a", NULL);
	snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%lld,%s}",
	    (long long)json_integer_value(look(message, "id")), a->response);
	send_line(&c, line);
	json_decref(message);
	message = receive(&c);
	if (a->yes)
		went_well(message);
	else
		went_wrong(message, "not_approved");
	json_decref(message);
	holds_text("a", a->yes ? "new\n" : NULL);
	client_end(&c);
}

/* ---- what is shown ---- */

static void
test_diff(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{\"form\":{}}}");
	json_t *message;
	char head[PATH_MAX];

	put_text("a", "1\n2\n3\n4\n5\n");
	request_tool(&c, "edit_file", edit_args("./a", "3", "three"));
	message = question(&c);
	snprintf(head, sizeof(head), "edit '%s/a', 10 -> 14 bytes, 1 replacement\n", project);
	says_part(message, "params.message", head);
	says_part(message, "params.message", "@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+three\n 4\n 5\n");
	says(message, "params.requestedSchema.properties.scope.enum.1", "session");
	respond(&c, message, "accept", "once");
	json_decref(receive(&c));
	holds_text("a", "1\n2\nthree\n4\n5\n");

	request_tool(&c, "write_file", write_args("a", "1\n2\n3\n4\n5\n"));
	message = question(&c);
	says_part(message, "params.message", "replace '");
	says_part(message, "params.message", "-three\n+3\n");
	respond(&c, message, "decline", NULL);
	json_decref(receive(&c));
	client_end(&c);
}

/* The user does not see binary content, so an answer for the session is not offered. */
static void
test_binary(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message;

	request_tool(&c, "write_file",
	    json_pack("{s:s, s:s%}", "path", "bytes", "content", "a\0b", (size_t)3));
	message = question(&c);
	says_part(message, "params.message", "NOT ALL OF THIS IS SHOWN");
	says_part(message, "params.message", "[... 3 bytes of binary content ...]");
	is_missing(message, "params.requestedSchema.properties.scope.enum.1");
	respond(&c, message, "accept", "session");
	json_decref(receive(&c));
	/* The yes covered nothing else. */
	request_tool(&c, "write_file", write_args("other", "x"));
	message = question(&c);
	respond(&c, message, "decline", NULL);
	json_decref(receive(&c));
	client_end(&c);
}

/* A change that takes long to compute again is shown as it was requested. */
static void
test_many_replacements(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	const size_t len = 128u << 10;
	char *content = malloc(len);
	json_t *edits = json_array(), *message;

	assert_non_null(content);
	memset(content, 'a', len);
	put_bytes("a", content, len);
	free(content);
	for (int i = 0; i < 20; i++)
		json_array_append_new(edits,
		    json_pack("{s:s, s:s, s:b}", "old", i % 2 == 0 ? "a" : "b", "new",
			i % 2 == 0 ? "b" : "a", "all", 1));
	request_tool(&c, "edit_file", json_pack("{s:s, s:o}", "path", "a", "edits", edits));
	message = question(&c);
	says_part(message, "params.message",
	    "\n\n@@ each occurrence, the first in line 1 @@\n-a\n");
	json_decref(message);
	client_end(&c);
}

static void
test_hostile_text(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message;

	request_tool(&c, "write_file",
	    write_args("a\033[2K\xe2\x80\xae.txt", "\033]0;x\007good\xe2\x80\xae\r\n"));
	message = question(&c);
	says_part(message, "params.message", "a\\x1b[2K\\u{202e}.txt'");
	says_part(message, "params.message", "+\\x1b]0;x\\x07good\\u{202e}\\x0d\n");
	respond(&c, message, "decline", NULL);
	json_decref(receive(&c));
	request_tool(&c, "write_file",
	    write_args("p\xd0\xb0y\xc2\xa0"
		       "e\xcc\x81",
		"ok                                                                        bad\n"));
	message = question(&c);
	says_part(message, "params.message", "/p\xd0\xb0y\\u{a0}e\\u{301}[mixed scripts]'");
	says_part(message, "params.message", "+ok[72 spaces]bad\n");
	respond(&c, message, "decline", NULL);
	json_decref(receive(&c));
	request_tool(&c, "write_file", write_args("a', 3 bytes\\", "much more"));
	message = question(&c);
	says_part(message, "params.message", "/project/a\\', 3 bytes\\\\', 9 bytes");
	respond(&c, message, "decline", NULL);
	json_decref(receive(&c));
	client_end(&c);
}

static void
test_link_is_resolved(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message;

	put_text("real", "x\n");
	process_shell("mkdir \"$1/d\" && ln -s ../real \"$1/d/harmless\"", project, NULL, NULL);
	request_tool(&c, "write_file", write_args("d/harmless", "y\n"));
	message = question(&c);
	says_part(message, "params.message", "/project/real'");
	respond(&c, message, "accept", "once");
	message = receive(&c);
	went_well(message);
	json_decref(message);
	holds_text("real", "y\n");
	client_end(&c);
}

static void
test_move(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message;

	put_text("a", "aa");
	put_text("b", "bbb");
	request_tool(&c, "move",
	    json_pack("{s:s, s:s, s:b}", "from", "a", "to", "b", "overwrite", 1));
	message = question(&c);
	says_part(message, "params.message", "move the file '");
	says_part(message, "params.message", "/project/b'\nreplacing the file of 3 bytes");
	is_missing(message, "params.requestedSchema.properties.scope.enum.1");
	respond(&c, message, "accept", "once");
	json_decref(receive(&c));
	holds_text("b", "aa");

	/* A file that did not exist when the question was shown is not replaced. */
	request_tool(&c, "move",
	    json_pack("{s:s, s:s, s:b}", "from", "b", "to", "c", "overwrite", 1));
	message = question(&c);
	if (strstr(string_at(message, "params.message"), "replacing") != NULL)
		fail_msg("nothing is replaced");
	put_text("c", "mine");
	respond(&c, message, "accept", "once");
	message = receive(&c);
	is_true(message, "result.isError");
	json_decref(message);
	holds_text("c", "mine");
	holds_text("b", "aa");
	client_end(&c);
}

static void
test_remove(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message;

	process_shell("mkdir \"$1/d\" && touch \"$1/d/x\" \"$1/d/y\"", project, NULL, NULL);
	request_tool(&c, "remove", json_pack("{s:s, s:b}", "path", "d", "recursive", 1));
	message = question(&c);
	says_part(message, "params.message", "remove the directory '");
	says_part(message, "params.message", "3 names in all");
	respond(&c, message, "decline", NULL);
	json_decref(receive(&c));
	holds_text("d/x", "");
	client_end(&c);
}

/* ---- what an answer binds ---- */

static void
test_changed_meanwhile(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message;

	put_text("a", "one\n");
	request_tool(&c, "edit_file", edit_args("a", "one", "1"));
	message = question(&c);
	put_text("a", "one, and what others wrote\n");
	respond(&c, message, "accept", "once");
	message = receive(&c);
	went_wrong(message, "conflict");
	json_decref(message);
	holds_text("a", "one, and what others wrote\n");

	request_tool(&c, "write_file", write_args("new", "mine"));
	message = question(&c);
	put_text("new", "theirs");
	respond(&c, message, "accept", "once");
	message = receive(&c);
	went_wrong(message, "conflict");
	json_decref(message);
	holds_text("new", "theirs");
	client_end(&c);
}

static void
test_once_is_once(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");

	for (int i = 0; i < 3; i++) {
		request_tool(&c, "write_file", write_args("a", i % 2 ? "odd" : "even"));
		respond(&c, question(&c), "accept", "once");
		json_decref(receive(&c));
	}
	client_end(&c);
}

/* An answer for the session covers writing and editing files below that directory, nothing else. */
static void
test_session(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	char dir[PATH_MAX + 16];
	json_t *message;

	process_shell("mkdir \"$1/d\" \"$1/dd\"", project, NULL, NULL);
	request_tool(&c, "write_file", write_args("d/a", "one"));
	message = question(&c);
	snprintf(dir, sizeof(dir), "below '%s/d'", project);
	says_part(message, "params.requestedSchema.properties.scope.enumNames.1", dir);
	respond(&c, message, "accept", "session");
	json_decref(receive(&c));

	message = call_tool(&c, "edit_file", edit_args("d/a", "one", "1"));
	went_well(message);
	json_decref(message);
	message = call_tool(&c, "write_file", write_args("d/e/f", "x"));
	went_well(message);
	json_decref(message);
	holds_text("d/a", "1");

	request_tool(&c, "write_file", write_args("dd/a", "x"));
	respond(&c, question(&c), "decline", NULL);
	json_decref(receive(&c));
	request_tool(&c, "write_file", write_args("d/../b", "x"));
	respond(&c, question(&c), "decline", NULL);
	json_decref(receive(&c));
	request_tool(&c, "remove", json_pack("{s:s}", "path", "d/a"));
	respond(&c, question(&c), "decline", NULL);
	json_decref(receive(&c));
	request_tool(&c, "move", json_pack("{s:s, s:s}", "from", "d/a", "to", "d/b"));
	respond(&c, question(&c), "decline", NULL);
	json_decref(receive(&c));
	/* The target of a link in the directory is not in the directory. */
	process_shell("ln -s ../dd \"$1/d/out\"", project, NULL, NULL);
	request_tool(&c, "write_file", write_args("d/out/a", "x"));
	respond(&c, question(&c), "decline", NULL);
	json_decref(receive(&c));
	holds_text("d/a", "1");
	assert_int_equal(access(at_root("dd/a"), F_OK), -1);
	client_end(&c);
}

/*
 * One question at a time; reads are served meanwhile; waiting calls that an answer covers cause no
 * question.
 */
static void
test_in_line(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message, *asked;

	put_text("r", "r");
	for (int i = 0; i < 8; i++) {
		char name[8];

		snprintf(name, sizeof(name), "f%d", i);
		request_tool(&c, "write_file", write_args(name, name));
	}
	asked = question(&c);
	message = call_tool(&c, "read_file", json_pack("{s:s}", "path", "r"));
	went_well(message);
	json_decref(message);
	respond(&c, asked, "accept", "session");
	for (int i = 0; i < 8; i++) {
		message = receive(&c);
		went_well(message);
		json_decref(message);
	}
	holds_text("f0", "f0");
	holds_text("f7", "f7");
	client_end(&c);
}

/* ---- when the user can be asked, and when not ---- */

static void
test_nobody_to_ask(void **state)
{
	static const char *const without[] = { "{}", "{\"elicitation\":{\"url\":{}}}" };

	for (size_t i = 0; i < N_ELEMENTS(without); i++) {
		struct client c = client_open("safe", without[i]);
		json_t *message = call_tool(&c, "write_file", write_args("a", "x"));

		went_wrong(message, "not_approved");
		says_part(message, "result.content.0.text", "--mode auto");
		json_decref(message);
		holds_text("a", NULL);
		client_end(&c);
	}
}

static void
test_cancel(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *asked, *message;
	json_int_t id;

	id = request_tool(&c, "write_file", write_args("a", "x"));
	asked = question(&c);
	send_json(&c,
	    json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
		"params", "requestId", id));
	message = receive(&c);
	says(message, "method", "notifications/cancelled");
	assert_true(json_equal(look(message, "params.requestId"), look(asked, "id")));
	json_decref(message);
	/* The answer comes too late: the call is not carried out and not answered. */
	respond(&c, asked, "accept", "once");
	json_decref(ask(&c, "ping", NULL));
	holds_text("a", NULL);
	/* The next call causes a question as usual. */
	request_tool(&c, "write_file", write_args("a", "y"));
	respond(&c, question(&c), "accept", "once");
	message = receive(&c);
	went_well(message);
	json_decref(message);
	holds_text("a", "y");
	client_end(&c);
}

static void
test_cancel_in_line(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *asked, *message;
	json_int_t id;

	request_tool(&c, "write_file", write_args("a", "x"));
	id = request_tool(&c, "write_file", write_args("b", "x"));
	asked = question(&c);
	json_decref(ask(&c, "ping", NULL));
	send_json(&c,
	    json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
		"params", "requestId", id));
	respond(&c, asked, "accept", "once");
	message = receive(&c);
	went_well(message);
	json_decref(message);
	json_decref(ask(&c, "ping", NULL));
	holds_text("a", "x");
	holds_text("b", NULL);
	client_end(&c);
}

/* The end of the input counts as an answer, too. */
static void
test_end_of_input(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *message;

	request_tool(&c, "write_file", write_args("a", "x"));
	json_decref(question(&c));
	process_close_input(&c.p);
	message = receive(&c);
	if (strcmp(string_at(message, "method"), "notifications/cancelled") != 0)
		fail_msg("the question is not withdrawn");
	json_decref(message);
	message = receive(&c);
	went_wrong(message, "not_approved");
	json_decref(message);
	assert_null(receive(&c));
	assert_int_equal(client_wait(&c), 0);
	holds_text("a", NULL);
}

/* An answer to a question that was never asked, or a second answer, approves nothing. */
static void
test_strange_answers(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	json_t *asked;
	char line[128];

	send_line(&c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\"}}");
	request_tool(&c, "write_file", write_args("a", "x"));
	asked = question(&c);
	snprintf(line, sizeof(line),
	    "{\"jsonrpc\":\"2.0\",\"id\":\"%lld\",\"result\":{\"action\":\"accept\"}}",
	    (long long)json_integer_value(look(asked, "id")));
	send_line(&c, line); /* the same number, but as a string: another id */
	json_decref(ask(&c, "ping", NULL));
	holds_text("a", NULL);
	respond(&c, json_incref(asked), "decline", NULL);
	respond(&c, asked, "accept", "session");
	json_decref(receive(&c));
	json_decref(ask(&c, "ping", NULL));
	holds_text("a", NULL);
	client_end(&c);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_diff),
		TEST(test_binary),
		TEST(test_many_replacements),
		TEST(test_hostile_text),
		TEST(test_link_is_resolved),
		TEST(test_move),
		TEST(test_remove),
		TEST(test_changed_meanwhile),
		TEST(test_once_is_once),
		TEST(test_session),
		TEST(test_in_line),
		TEST(test_nobody_to_ask),
		TEST(test_cancel),
		TEST(test_cancel_in_line),
		TEST(test_end_of_input),
		TEST(test_strange_answers),
	};
	struct CMUnitTest tests[N_ELEMENTS(answers) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(answers); i++)
		tests[n++] = (struct CMUnitTest){ answers[i].label, test_answer, make_project,
			remove_project, (void *)&answers[i] };
	OTHERS(single);
	return cmocka_run_group_tests_name("mcp_approval", tests, make_installation,
	    remove_installation);
}
