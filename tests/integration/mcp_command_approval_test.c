/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in Safe mode through an MCP client: what the user is shown, what an answer covers, and
 * when it lapses.
 */
#include "tests/kit/cases.h"
#include "tests/kit/family.h"
#include "tests/kit/mcp.h"

#define ASKS "{\"elicitation\":{}}"

static json_t *
question(struct client *c)
{
	json_t *message = receive(c);
	const char *method = json_string_value(look(message, "method"));

	/* What does not work without overlays is reported when the slot is built. */
	if (method != NULL && strcmp(method, "notifications/message") == 0) {
		json_decref(message);
		message = receive(c);
	}
	says(message, "method", "elicitation/create");
	return message;
}

/* Answers the question and takes ownership of it. */
static void
respond(struct client *c, json_t *asked, const char *action, const char *scope)
{
	send_json(c,
	    json_pack("{s:s, s:O, s:{s:s, s:{s:s}}}", "jsonrpc", "2.0", "id", look(asked, "id"),
		"result", "action", action, "content", "scope", scope));
	json_decref(asked);
}

static json_int_t
request_run(struct client *c, const char *command)
{
	return request_tool(c, "run_command", json_pack("{s:s}", "command", command));
}

/* Runs a command that must cause a question, and gives this answer. */
static void
run_asked(struct client *c, const char *command, const char *action, const char *scope)
{
	json_int_t id = request_run(c, command);
	json_t *message;

	respond(c, question(c), action, scope);
	message = answer(c, id);
	if (strcmp(action, "accept") == 0)
		went_well(message);
	else
		went_wrong(message, "not_approved");
	json_decref(message);
}

/* Runs a command that an earlier answer must cover. */
static void
run_unasked(struct client *c, const char *command)
{
	json_t *message = answer(c, request_run(c, command));

	went_well(message);
	json_decref(message);
}

/* ---- what is shown ---- */

static void
test_shown(void **state)
{
	struct client c = client_open("safe", ASKS);
	char want[PATH_MAX + 128];
	json_t *message;
	json_int_t id;

	id = request_run(&c, "echo 'a b' |\ncat >made");
	message = question(&c);
	snprintf(want, sizeof(want), "Allow this? run in '%s'\nsh -c\n+echo 'a b' |\n+cat >made\n",
	    project);
	says(message, "params.message", want);
	says(message, "params.requestedSchema.properties.scope.enum.1", "session");
	holds_text("made", NULL);
	respond(&c, message, "decline", "once");
	message = answer(&c, id);
	went_wrong(message, "not_approved");
	says_part(message, "result.content.0.text", "the user did not approve it. Ask the user");
	json_decref(message);
	holds_text("made", NULL);

	process_shell("mkdir \"$1/d\" && ln -s d \"$1/link\"", project, NULL, NULL);
	request_tool(&c, "run_command",
	    json_pack("{s:s, s:s, s:b}", "command", "x\033[2K\xe2\x80\xae\xcd\x8f", "cwd", "link",
		"background", 1));
	message = question(&c);
	snprintf(want, sizeof(want),
	    "Allow this? run in the background in '%s/d'\nsh -c\n+x\\x1b[2K\\u{202e}\\u{34f}\n",
	    project);
	says(message, "params.message", want);
	respond(&c, message, "decline", "once");
	json_decref(receive(&c));
	client_end(&c);
}

static void
begins(const json_t *message, const char *want)
{
	const char *got = json_string_value(look(message, "params.message"));

	if (got == NULL || strncmp(got, want, strlen(want)) != 0)
		fail_msg("'%s' does not begin with '%s'", got != NULL ? got : "nothing", want);
}

/*
 * For a command too long to be read, the first line says so, its end is shown, and an approval is
 * valid once only. A command too long to be passed to any program causes no question.
 */
static void
test_long(void **state)
{
	struct client c = client_open("safe", ASKS);
	char *command = malloc(128u << 10), *p = command;
	json_t *message;
	json_int_t id;

	assert_non_null(command);
	for (int i = 0; i < 500; i++)
		p += sprintf(p, ":\n");
	memset(p, ' ', 100000);
	strcpy(p + 100000, "echo x >made");
	id = request_run(&c, command);
	message = question(&c);
	begins(message, "NOT ALL OF THIS IS SHOWN");
	says_part(message, "params.message", "+:\n[... 101 lines are left out here ...]\n+:\n");
	says_part(message, "params.message", "bytes are left out here ...]");
	says_part(message, "params.message", "echo x >made\n");
	is_missing(message, "params.requestedSchema.properties.scope.enum.1");
	/* A scope that was not offered is not granted. */
	respond(&c, message, "accept", "session");
	json_decref(answer(&c, id));
	holds_text("made", "x\n");
	id = request_run(&c, command);
	message = question(&c);
	respond(&c, message, "decline", "once");
	message = answer(&c, id);
	went_wrong(message, "not_approved");
	json_decref(message);
	memset(command, ' ', (128u << 10) - 1);
	command[(128u << 10) - 1] = '\0';
	id = request_run(&c, command);
	respond(&c, question(&c), "decline", "once");
	json_decref(answer(&c, id));
	command = realloc(command, (128u << 10) + 1);
	assert_non_null(command);
	memset(command, ' ', 128u << 10);
	command[128u << 10] = '\0';
	message = answer(&c, request_run(&c, command));
	went_wrong(message, "too_large");
	json_decref(message);
	free(command);
	client_end(&c);
}

static void
test_accepted(void **state)
{
	struct client c = client_open("safe", ASKS);

	run_asked(&c, "echo x >made", "accept", "once");
	holds_text("made", "x\n");
	run_asked(&c, "echo y >made", "cancel", "session");
	holds_text("made", "x\n");
	client_end(&c);
}

static void
test_nobody_to_ask(void **state)
{
	struct client c = client_open("safe", "{}");
	json_t *message = talk_response(&c, request_run(&c, "echo x >made"));

	went_wrong(message, "not_approved");
	says_part(message, "result.content.0.text", "the user could not be asked");
	says_part(message, "result.content.0.text", "--mode auto");
	json_decref(message);
	holds_text("made", NULL);
	client_end(&c);
}

static void
test_cancelled(void **state)
{
	struct client c = client_open("safe", ASKS);
	json_int_t id = request_run(&c, "echo x >made");
	json_t *asked = question(&c), *message;

	send_json(&c,
	    json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
		"params", "requestId", id));
	message = receive(&c);
	says(message, "method", "notifications/cancelled");
	json_decref(message);
	respond(&c, asked, "accept", "session");
	json_decref(ask(&c, "ping", NULL));
	holds_text("made", NULL);
	run_asked(&c, "echo x >made", "accept", "once");
	client_end(&c);
}

/* ---- what an answer for the session covers ---- */

static void
test_session(void **state)
{
	struct client c = client_open("safe", ASKS);

	process_shell("mkdir \"$1/d\" && echo text >\"$1/file\"", project, NULL, NULL);
	run_asked(&c, "cat file", "accept", "session");
	run_unasked(&c, "cat file");
	run_unasked(&c, "cat file");
	/* Another text, another directory, or in the background: another command. */
	run_asked(&c, "cat file ", "decline", "once");
	request_tool(&c, "run_command", json_pack("{s:s, s:s}", "command", "cat file", "cwd", "d"));
	respond(&c, question(&c), "decline", "once");
	json_decref(receive(&c));
	request_tool(&c, "run_command",
	    json_pack("{s:s, s:b}", "command", "cat file", "background", 1));
	respond(&c, question(&c), "decline", "once");
	json_decref(receive(&c));
	run_unasked(&c, "cat file");
	client_end(&c);
}

static void
test_once_is_once(void **state)
{
	struct client c = client_open("safe", ASKS);

	for (int i = 0; i < 3; i++)
		run_asked(&c, "true", "accept", "once");
	client_end(&c);
}

/* ---- when it lapses ---- */

static const struct lapse {
	const char *label, *script; /* $1 is the root */
} lapses[] = {
	{ "a file was written", "echo other >\"$1/d/file\"" },
	{ "the same was written again", "echo text >\"$1/d/file\"" },
	{ "one was written, and its time set back",
	    "echo tex2 >\"$1/d/file\"; touch -d 2001-01-01 \"$1/d/file\"" },
	{ "a file came", "touch \"$1/d/new\"" },
	{ "a file went", "rm \"$1/d/file\"" },
	{ "a file was renamed", "mv \"$1/d/file\" \"$1/d/other\"" },
	{ "a file may be run now", "chmod +x \"$1/d/file\"" },
	{ "a link came", "ln -s file \"$1/d/link\"" },
	{ "a directory was replaced",
	    "mv \"$1/d\" \"$1/e\"; cp -a \"$1/e\" \"$1/d\"; rm -r \"$1/e\"" },
};

static void
test_lapse(void **state)
{
	const struct lapse *lapse = *state;
	struct client c = client_open("safe", ASKS);

	process_shell(
	    "mkdir \"$1/d\" && echo text >\"$1/d/file\" && touch -d 2001-01-01 \"$1/d/file\"",
	    project, NULL, NULL);
	run_asked(&c, "cat d/*", "accept", "session");
	run_unasked(&c, "cat d/*");
	process_shell(lapse->script, project, NULL, NULL);
	run_asked(&c, "cat d/*", "accept", "session");
	run_unasked(&c, "cat d/*");
	client_end(&c);
}

/* Changes by the command itself count, too. */
static void
test_lapse_by_itself(void **state)
{
	struct client c = client_open("safe", ASKS);

	run_asked(&c, "echo x >>made", "accept", "session");
	run_asked(&c, "echo x >>made", "accept", "session");
	client_end(&c);
}

/* A change that was just approved but is not carried out yet counts, too. */
static void
test_lapse_by_an_edit(void **state)
{
	struct client c = client_open("safe", ASKS);
	json_t *message;
	json_int_t id;
	int asked = 0;

	run_asked(&c, "cat a || true", "accept", "session");
	request_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "a", "content", "x"));
	message = question(&c);
	/* The command is queued while the tree is unchanged. */
	id = request_run(&c, "cat a || true");
	json_decref(ask(&c, "ping", NULL));
	respond(&c, message, "accept", "once");
	/* Two answers and a question, in any order. */
	for (int i = 0; i < 3; i++) {
		message = receive(&c);
		if (look(message, "method") != NULL) {
			respond(&c, message, "decline", "once");
			asked++;
			continue;
		}
		counts(message, "id", look(message, "result.isError") != NULL ? id : id - 1);
		json_decref(message);
	}
	assert_int_equal(asked, 1);
	holds_text("a", "x");
	client_end(&c);
}

/* A running command may change a file at any moment. */
static void
test_lapse_while_another_runs(void **state)
{
	struct client c = client_open("safe", ASKS);
	json_t *message;
	json_int_t id;

	run_asked(&c, "true", "accept", "session");
	run_unasked(&c, "true");
	request_tool(&c, "run_command",
	    json_pack("{s:s, s:b}", "command", "sleep 600", "background", 1));
	respond(&c, question(&c), "accept", "once");
	message = receive(&c);
	went_well(message);
	run_asked(&c, "true", "accept", "session");
	run_asked(&c, "true", "accept", "session");
	id = request_tool(&c, "command_stop",
	    json_pack("{s:s}", "id", string_at(message, "result.structuredContent.id")));
	json_decref(message);
	json_decref(answer(&c, id));
	run_unasked(&c, "true");
	client_end(&c);
}

/* ---- hosts ---- */

#define FETCH "curl -s -o /dev/null -w '%{http_code}' --max-time 20 http://unnamed.example/"

/* The user declines the host, and the command gets a 403. */
static void
test_host_declined(void **state)
{
	struct client c = client_open("safe", ASKS);
	json_int_t id = request_run(&c, FETCH);
	json_t *message;

	respond(&c, question(&c), "accept", "once");
	message = question(&c);
	says_part(message, "params.message", "a command wants to reach 'unnamed.example', port 80");
	says(message, "params.requestedSchema.properties.scope.enumNames.1",
	    "This session: this host and port");
	respond(&c, message, "decline", "once");
	message = answer(&c, id);
	says(message, "result.structuredContent.stdout.text", "403");
	json_decref(message);
	client_end(&c);
}

/* The command that asked has ended: its question is withdrawn, and other calls can ask. */
static void
test_host_withdrawn(void **state)
{
	struct client c = client_open("safe", ASKS);
	json_t *asked, *message;
	bool withdrawn = false, over = false;
	json_int_t id;

	id = request_tool(&c, "run_command",
	    json_pack("{s:s, s:i}", "command", FETCH, "timeout", 1));
	respond(&c, question(&c), "accept", "once");
	asked = question(&c);
	while (!withdrawn || !over) {
		message = receive(&c);
		if (look(message, "method") != NULL) {
			says(message, "method", "notifications/cancelled");
			assert_true(
			    json_equal(look(message, "params.requestId"), look(asked, "id")));
			withdrawn = true;
		} else {
			counts(message, "id", id);
			went_well(message);
			over = true;
		}
		json_decref(message);
	}
	json_decref(asked);
	run_asked(&c, "true", "accept", "once");
	client_end(&c);
}

/* In Plan no host is reached, and the user is not asked. */
static void
test_host_in_plan(void **state)
{
	struct client c = client_open("plan", ASKS);
	json_t *message = answer(&c, request_run(&c, FETCH));

	went_well(message);
	says(message, "result.structuredContent.stdout.text", "403");
	json_decref(message);
	client_end(&c);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_shown),
		TEST(test_long),
		TEST(test_accepted),
		TEST(test_nobody_to_ask),
		TEST(test_cancelled),
		TEST(test_session),
		TEST(test_once_is_once),
		TEST(test_lapse_by_itself),
		TEST(test_lapse_by_an_edit),
		TEST(test_lapse_while_another_runs),
		TEST(test_host_declined),
		TEST(test_host_withdrawn),
		TEST(test_host_in_plan),
	};
	struct CMUnitTest tests[N_ELEMENTS(lapses) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(lapses); i++)
		tests[n++] = (struct CMUnitTest){ lapses[i].label, test_lapse, make_project,
			remove_project, (void *)&lapses[i] };
	/* Safe asks before a command runs only where there are no drafts, or in the background. */
	mcp_without_drafts = true;
	OTHERS(single);
	return cmocka_run_group_tests_name("mcp_command_approval", tests, make_installation,
	    remove_installation);
}
