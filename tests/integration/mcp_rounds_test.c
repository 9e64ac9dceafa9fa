/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Safe mode without a handshake: a call is answered with a question, and the client repeats the
 * call with the user's answer. What such an answer is valid for, and how it cannot be abused.
 */
#include "tests/kit/cases.h"
#include "tests/kit/mcp.h"

#define ASKS "{\"elicitation\":{}}"

/* Takes ownership of `args` and `params`. */
static json_int_t
request_by(struct client *c, const char *can, const char *name, json_t *args, json_t *params)
{
	json_t *capabilities = json_loads(can, 0, NULL);

	assert_non_null(capabilities);
	json_object_set_new(params, "name", json_string(name));
	json_object_set_new(params, "arguments", args);
	json_object_set_new(params, "_meta",
	    json_pack("{s:s, s:o}", "io.modelcontextprotocol/protocolVersion", "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities", capabilities));
	return request(c, "tools/call", params);
}

static json_int_t
call_first(struct client *c, const char *name, json_t *args)
{
	return request_by(c, ASKS, name, args, json_object());
}

static json_t *
write_args(const char *path, const char *content)
{
	return json_pack("{s:s, s:s}", "path", path, "content", content);
}

static json_t *
run_args(const char *command)
{
	return json_pack("{s:s}", "command", command);
}

/* Receives the answer to that call, which must be a question. The caller owns the result. */
static json_t *
question(struct client *c, json_int_t id)
{
	json_t *message = answer(c, id);

	says(message, "result.resultType", "input_required");
	says(message, "result.inputRequests.approval.method", "elicitation/create");
	is_missing(message, "result.content");
	return message;
}

static json_int_t
call_again(struct client *c, const json_t *asked, const char *name, json_t *args,
    const char *responses)
{
	json_t *params = json_pack("{s:O}", "requestState", look(asked, "result.requestState"));

	if (responses != NULL)
		json_object_set_new(params, "inputResponses", json_loads(responses, 0, NULL));
	return request_by(c, ASKS, name, args, params);
}

#define ONCE     "{\"approval\":{\"action\":\"accept\",\"content\":{\"scope\":\"once\"}}}"
#define SESSION  "{\"approval\":{\"action\":\"accept\",\"content\":{\"scope\":\"session\"}}}"
#define DECLINED "{\"approval\":{\"action\":\"decline\"}}"

static void
ended_well(struct client *c, json_int_t id)
{
	json_t *message = answer(c, id);

	went_well(message);
	says(message, "result.resultType", "complete");
	json_decref(message);
}

static void
ended_wrong(struct client *c, json_int_t id, const char *code)
{
	json_t *message = answer(c, id);

	went_wrong(message, code);
	json_decref(message);
}

static void
refused(struct client *c, json_int_t id)
{
	json_t *message = answer(c, id);

	counts(message, "error.code", -32602);
	says_part(message, "error.message", "requestState");
	json_decref(message);
}

/* ---- answers ---- */

static const struct given {
	const char *label, *responses;
	bool yes;
} answers[] = {
	/* clang-format off */
	{ "accepted", ONCE, true },
	{ "accepted for the session", SESSION, true },
	{ "accepted without a form", "{\"approval\":{\"action\":\"accept\"}}", true },
	{ "declined", DECLINED, false },
	{ "cancelled", "{\"approval\":{\"action\":\"cancel\"}}", false },
	{ "nothing", NULL, false },
	{ "no answers", "{}", false },
	{ "answers that are none", "[]", false },
	{ "an answer to something else", "{\"other\":{\"action\":\"accept\"}}", false },
	{ "an answer that is none", "{\"approval\":true}", false },
	{ "yes, in other words", "{\"approval\":{\"action\":\"yes\"}}", false },
	{ "a scope that was not offered", "{\"approval\":{\"action\":\"accept\",\"content\":{\"scope\":\"for ever\"}}}", false },
	/* clang-format on */
};

static void
test_answer(void **state)
{
	const struct given *a = *state;
	struct client c = client_start("safe");
	json_t *asked = question(&c, call_first(&c, "write_file", write_args("a", "new\n")));
	json_int_t id;

	says_part(asked, "result.inputRequests.approval.params.message", "/project/a'");
	says(asked, "result.inputRequests.approval.params.requestedSchema.type", "object");
	assert_int_equal(strlen(string_at(asked, "result.requestState")), 64);
	holds_text("a", NULL);
	id = call_again(&c, asked, "write_file", write_args("a", "new\n"), a->responses);
	if (a->yes)
		ended_well(&c, id);
	else
		ended_wrong(&c, id, "not_approved");
	holds_text("a", a->yes ? "new\n" : NULL);
	/* The answer is valid once only. */
	put_text("a", "mine\n");
	refused(&c, call_again(&c, asked, "write_file", write_args("a", "new\n"), ONCE));
	holds_text("a", "mine\n");
	json_decref(asked);
	client_end(&c);
}

/* ---- what an answer binds ---- */

static const struct changed {
	const char *label, *tool, *path, *content;
} changes[] = {
	{ "other content", "write_file", "a", "y" },
	{ "another file", "write_file", "b", "x" },
	{ "another tool", "read_file", "a", NULL },
};

static void
test_another_call(void **state)
{
	const struct changed *changed = *state;
	struct client c = client_start("safe");
	json_t *asked = question(&c, call_first(&c, "write_file", write_args("a", "x")));
	json_t *args = json_pack("{s:s}", "path", changed->path);

	if (changed->content != NULL)
		json_object_set_new(args, "content", json_string(changed->content));
	refused(&c, call_again(&c, asked, changed->tool, args, ONCE));
	/* Nor is it valid for the original call any more. */
	refused(&c, call_again(&c, asked, "write_file", write_args("a", "x"), ONCE));
	holds_text("a", NULL);
	holds_text("b", NULL);
	json_decref(asked);
	client_end(&c);
}

static void
test_another_connection(void **state)
{
	struct client c = client_start("safe"), other = client_start("safe");
	json_t *asked = question(&c, call_first(&c, "write_file", write_args("a", "x")));
	json_t *theirs = question(&other, call_first(&other, "write_file", write_args("a", "x")));

	refused(&other, call_again(&other, asked, "write_file", write_args("a", "x"), ONCE));
	holds_text("a", NULL);
	ended_well(&c, call_again(&c, asked, "write_file", write_args("a", "x"), ONCE));
	holds_text("a", "x");
	json_decref(asked);
	json_decref(theirs);
	client_end(&other);
	client_end(&c);
}

static void
test_changed_meanwhile(void **state)
{
	struct client c = client_start("safe");
	json_t *asked;

	put_text("a", "one\n");
	asked = question(&c, call_first(&c, "write_file", write_args("a", "1\n")));
	says_part(asked, "result.inputRequests.approval.params.message", "-one\n+1\n");
	put_text("a", "one, and what others wrote\n");
	ended_wrong(&c, call_again(&c, asked, "write_file", write_args("a", "1\n"), ONCE),
	    "conflict");
	holds_text("a", "one, and what others wrote\n");
	json_decref(asked);
	client_end(&c);
}

static void
test_session(void **state)
{
	struct client c = client_start("safe");
	json_t *asked;

	process_shell("mkdir \"$1/d\"", project, NULL, NULL);
	asked = question(&c, call_first(&c, "write_file", write_args("d/a", "x")));
	ended_well(&c, call_again(&c, asked, "write_file", write_args("d/a", "x"), SESSION));
	json_decref(asked);
	ended_well(&c, call_first(&c, "write_file", write_args("d/b", "x")));
	json_decref(question(&c, call_first(&c, "write_file", write_args("b", "x"))));
	client_end(&c);
}

/* ---- several questions, and unanswered ones ---- */

static void
test_several(void **state)
{
	enum { N = 8 };
	struct client c = client_start("safe");
	json_t *asked[N];
	char name[N][8];

	for (int i = 0; i < N; i++) {
		snprintf(name[i], sizeof(name[i]), "f%d", i);
		asked[i] = question(&c, call_first(&c, "write_file", write_args(name[i], "x")));
	}
	for (int i = N - 1; i >= 0; i--) {
		json_int_t id = call_again(&c, asked[i], "write_file", write_args(name[i], "x"),
		    i % 2 != 0 ? ONCE : DECLINED);

		if (i % 2 != 0)
			ended_well(&c, id);
		else
			ended_wrong(&c, id, "not_approved");
		holds_text(name[i], i % 2 != 0 ? "x" : NULL);
		json_decref(asked[i]);
	}
	client_end(&c);
}

/* Unanswered questions do not block other work, and only a limited number is kept. */
static void
test_many_forgotten(void **state)
{
	struct client c = client_start("safe");
	int asked = 0;

	put_text("r", "r");
	for (int i = 0; i < 200; i++) {
		json_t *message = answer(&c, call_first(&c, "write_file", write_args("a", "x")));

		if (look(message, "result.inputRequests") != NULL)
			asked++;
		else
			went_wrong(message, "not_approved");
		json_decref(message);
	}
	assert_int_equal(asked, 128);
	ended_well(&c, call_first(&c, "read_file", json_pack("{s:s}", "path", "r")));
	holds_text("a", NULL);
	client_end(&c);
}

static void
test_cancelled(void **state)
{
	struct client c = client_start("safe");
	json_int_t id = call_first(&c, "write_file", write_args("a", "x"));
	json_t *asked = question(&c, id), *message;

	send_json(&c,
	    json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
		"params", "requestId", id));
	message = answer(&c, call_again(&c, asked, "write_file", write_args("a", "x"), ONCE));
	if (look(message, "error") == NULL)
		went_wrong(message, "not_approved");
	json_decref(message);
	holds_text("a", NULL);
	json_decref(asked);
	client_end(&c);
}

static void
test_nobody_to_ask(void **state)
{
	static const char *const without[] = { "{}", "{\"elicitation\":{\"url\":{}}}" };
	struct client c = client_start("safe");

	for (size_t i = 0; i < N_ELEMENTS(without); i++)
		ended_wrong(&c,
		    request_by(&c, without[i], "write_file", write_args("a", "x"), json_object()),
		    "not_approved");
	holds_text("a", NULL);
	/* Capabilities count per request. */
	json_decref(question(&c, call_first(&c, "write_file", write_args("a", "x"))));
	client_end(&c);
}

/* ---- commands ---- */

static void
test_command(void **state)
{
	struct client c = client_start("safe");
	const char *const command = "echo x >made";
	json_t *asked = question(&c, call_first(&c, "run_command", run_args(command)));

	says_part(asked, "result.inputRequests.approval.params.message",
	    "\nsh -c\n+echo x >made\n");
	holds_text("made", NULL);
	ended_well(&c, call_again(&c, asked, "run_command", run_args(command), ONCE));
	holds_text("made", "x\n");
	json_decref(asked);
	asked = question(&c, call_first(&c, "run_command", run_args("echo y >made")));
	ended_wrong(&c, call_again(&c, asked, "run_command", run_args("echo y >made"), DECLINED),
	    "not_approved");
	holds_text("made", "x\n");
	json_decref(asked);
	client_end(&c);
}

/*
 * A change is allowed while a command waits for approval: what the user was shown for the command
 * is no longer true.
 */
static void
test_lapse_beside_a_change(void **state)
{
	struct client c = client_start("safe");
	json_t *change = question(&c, call_first(&c, "write_file", write_args("a", "x")));
	json_t *command = question(&c, call_first(&c, "run_command", run_args("true")));

	ended_well(&c, call_again(&c, change, "write_file", write_args("a", "x"), ONCE));
	ended_well(&c, call_again(&c, command, "run_command", run_args("true"), SESSION));
	json_decref(question(&c, call_first(&c, "run_command", run_args("true"))));
	json_decref(change);
	json_decref(command);
	client_end(&c);
}

#define FETCH "curl -s -o /dev/null -w '%{http_code}' --max-time 20 http://unnamed.example/"

/* The host is a second round of the same call. */
static void
test_host_declined(void **state)
{
	struct client c = client_start("safe");
	json_t *asked = question(&c, call_first(&c, "run_command", run_args(FETCH))), *message;
	json_t *host = question(&c, call_again(&c, asked, "run_command", run_args(FETCH), ONCE));

	says_part(host, "result.inputRequests.approval.params.message",
	    "a command wants to reach 'unnamed.example', port 80");
	refused(&c, call_again(&c, asked, "run_command", run_args(FETCH), ONCE));
	message = answer(&c, call_again(&c, host, "run_command", run_args(FETCH), DECLINED));
	says(message, "result.structuredContent.stdout.text", "403");
	json_decref(message);
	json_decref(host);
	json_decref(asked);
	client_end(&c);
}

/* The command ends before the client repeats the call: its result is kept until then. */
static void
test_host_withdrawn(void **state)
{
	static const char command[] =
	    "echo kept; " FETCH " & until [ -e go ]; do sleep 0.02; done; mkdir over";
	struct client c = client_start("safe");
	json_t *asked = question(&c, call_first(&c, "run_command", run_args(command))), *message;
	json_t *host = question(&c, call_again(&c, asked, "run_command", run_args(command), ONCE));
	const uint64_t until = clock_ms() + PATIENCE_MS;

	put_text("go", "");
	while (access(at_root("over"), F_OK) != 0) {
		assert_true(clock_ms() < until);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	/* A second command takes longer than the end of the first one. */
	json_decref(asked);
	asked = question(&c, call_first(&c, "run_command", run_args("true")));
	ended_well(&c, call_again(&c, asked, "run_command", run_args("true"), ONCE));
	message = answer(&c, call_again(&c, host, "run_command", run_args(command), ONCE));
	went_well(message);
	says_part(message, "result.structuredContent.stdout.text", "kept\n");
	counts(message, "result.structuredContent.exit_code", 0);
	json_decref(message);
	refused(&c, call_again(&c, host, "run_command", run_args(command), ONCE));
	json_decref(host);
	json_decref(asked);
	client_end(&c);
}

static void
test_end_of_input(void **state)
{
	struct client c = client_start("safe");

	json_decref(question(&c, call_first(&c, "write_file", write_args("a", "x"))));
	process_close_input(&c.p);
	assert_null(receive(&c));
	assert_int_equal(client_wait(&c), 0);
	holds_text("a", NULL);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_another_connection),
		TEST(test_changed_meanwhile),
		TEST(test_session),
		TEST(test_several),
		TEST(test_many_forgotten),
		TEST(test_cancelled),
		TEST(test_nobody_to_ask),
		TEST(test_command),
		TEST(test_lapse_beside_a_change),
		TEST(test_host_declined),
		TEST(test_host_withdrawn),
		TEST(test_end_of_input),
	};
	struct CMUnitTest tests[N_ELEMENTS(answers) + N_ELEMENTS(changes) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(answers); i++)
		tests[n++] = (struct CMUnitTest){ answers[i].label, test_answer, make_project,
			remove_project, (void *)&answers[i] };
	for (size_t i = 0; i < N_ELEMENTS(changes); i++)
		tests[n++] = (struct CMUnitTest){ changes[i].label, test_another_call, make_project,
			remove_project, (void *)&changes[i] };
	/* Safe asks before a command runs only where there are no drafts, or in the background. */
	mcp_without_drafts = true;
	OTHERS(single);
	return cmocka_run_group_tests_name("mcp_rounds", tests, make_installation,
	    remove_installation);
}
