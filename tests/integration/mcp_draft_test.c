/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp/tool_draft.c, tool_history.c, review.c, session_drafts.c: drafts of an MCP client, by a real
 * server. What does not reach the project before it is applied, and who is asked.
 */
#include "tests/kit/cases.h"
#include "tests/kit/mcp.h"

#define ASKS "{\"elicitation\":{}}"
#define AT   "result.structuredContent."
#define TEXT "result.content.0.text"

static char errors[PATH_MAX], audit[PATH_MAX];

/* Each case has a history and a log of its own. */
static int
set_up(void **state)
{
	static unsigned n;
	char own[PATH_MAX - 64];

	snprintf(own, sizeof(own), "%s/case%u", getenv("HOME"), n++);
	snprintf(errors, sizeof(errors), "%s/errors", own);
	snprintf(audit, sizeof(audit), "%s/audit", own);
	if (mkdir(own, 0700) < 0 || setenv("XDG_STATE_HOME", own, 1) < 0)
		return -1;
	return make_project(state);
}

static struct client
start(const char *mode, const char *more, const char *capabilities, const char *says)
{
	char program[PATH_MAX];
	struct client c;

	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	c = (struct client){
		.p = process_start((const char *[]){ "/bin/sh", "-c",
		    "errors=$1; shift; exec \"$@\" 2>\"$errors\"", "sh", errors, program, "mcp",
		    "--root", project, "--audit", audit, "--mode", mode, more, NULL }),
		.next_id = 1,
		.says = says,
	};
	json_decref(initialize(&c, "2025-11-25", capabilities));
	return c;
}

static struct client
start_draft(const char *mode, const char *says)
{
	put_text("a", "old a\n");
	put_text("b", "old b\n");
	return start(mode, "--draft", says != NULL ? ASKS : "{}", says);
}

/* Returns the whole response. Steals args. */
static json_t *
call(struct client *c, const char *tool, json_t *args)
{
	return talk_response(c, request_tool(c, tool, args));
}

static json_t *
well(struct client *c, const char *tool, json_t *args)
{
	json_t *message = call(c, tool, args);

	went_well(message);
	return message;
}

static void
run(struct client *c, const char *command)
{
	json_t *message = well(c, "run_command", json_pack("{s:s}", "command", command));

	counts(message, AT "exit_code", 0);
	json_decref(message);
}

/* Requires a line of that file to have both texts. */
static void
has_line(const char *file, const char *one, const char *two)
{
	FILE *f = fopen(file, "re");
	char line[8192];
	bool found = false;

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f) != NULL)
		found = strstr(line, one) != NULL && strstr(line, two) != NULL;
	fclose(f);
	if (!found)
		fail_msg("no line of '%s' has '%s' and '%s'", file, one, two);
}

/* Files that are changed after this have a later time than those that were changed before. */
static void
tick(void)
{
	struct timespec was, now;

	clock_gettime(CLOCK_REALTIME_COARSE, &was);
	do {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec == was.tv_sec && now.tv_nsec == was.tv_nsec);
}

static void
test_session(void **state)
{
	struct client c = start_draft("auto", NULL);
	char id[64];
	json_t *message;

	json_decref(
	    well(&c, "write_file", json_pack("{s:s,s:s}", "path", "new", "content", "x\n")));
	run(&c, "echo new a >a; rm b; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit");
	holds_text("a", "old a\n");
	holds_text("new", NULL);
	message = well(&c, "draft_diff", json_object());
	snprintf(id, sizeof(id), "%s", string_at(message, AT "draft"));
	counts(message, AT "total", 6);
	counts(message, AT "refused", 2);
	says_part(message, TEXT, "refused: created '.git/hooks/pre-commit' (2 bytes)");
	says_part(message, AT "diff", "changed 'a'\n@@ -1,1 +1,1 @@\n-old a\n+new a\n");
	json_decref(message);
	message = well(&c, "draft_apply", json_pack("{s:[s]}", "paths", "a"));
	counts(message, AT "applied", 1);
	is_true(message, AT "kept");
	json_decref(message);
	holds_text("a", "new a\n");
	holds_text("b", "old b\n");
	/* The session goes on in the same draft. */
	run(&c, "test -e new && ! test -e b");
	message = well(&c, "draft_apply", json_object());
	counts(message, AT "refused", 2);
	json_decref(message);
	holds_text("new", "x\n");
	holds_text("b", NULL);
	holds_text(".git/hooks/pre-commit", NULL);
	client_end(&c);
	has_line(errors, id, "is kept: 2 changes, 2 refused by the policy");
	has_line(audit, id, "\"verdict\":\"kept\"");
	has_line(audit, id, "\"verdict\":\"applied\"");
}

static void
test_empty(void **state)
{
	struct client c = start_draft("auto", NULL);

	json_decref(well(&c, "read_file", json_pack("{s:s}", "path", "a")));
	client_end(&c);
	has_line(audit, "it has no changes", "\"verdict\":\"discarded\"");
}

static void
test_discarded(void **state)
{
	struct client c = start_draft("auto", NULL);
	json_t *message;

	run(&c, "echo new >a; echo new >b");
	message = well(&c, "draft_discard", json_pack("{s:[s]}", "paths", "a"));
	is_true(message, AT "kept");
	json_decref(message);
	run(&c, "grep -q old a && grep -q new b");
	json_decref(well(&c, "draft_discard", json_object()));
	run(&c, "grep -q old b");
	holds_text("b", "old b\n");
	client_end(&c);
}

static void
test_taken_back(void **state)
{
	struct client c = start_draft("auto", NULL);
	json_t *message;

	run(&c, "echo new >a; echo new >b");
	json_decref(well(&c, "draft_apply", json_object()));
	tick();
	put_text("b", "the user's\n");
	message = well(&c, "undo", json_object());
	counts(message, AT "applied", 1);
	counts(message, AT "conflicts", 1);
	json_decref(message);
	holds_text("a", "old a\n");
	holds_text("b", "the user's\n");
	message = well(&c, "history", json_object());
	counts(message, AT "total", 1);
	counts(message, AT "entries.0.undone", 1);
	json_decref(message);
	json_decref(well(&c, "undo", json_pack("{s:b}", "redo", 1)));
	holds_text("a", "new\n");
	client_end(&c);
}

/* A conflict stays in the draft until take says what wins. */
static void
test_conflict(void **state)
{
	struct client c = start_draft("auto", NULL);
	json_t *message;

	run(&c, "echo new >a");
	tick();
	put_text("a", "the user's\n");
	message = well(&c, "draft_apply", json_object());
	counts(message, AT "applied", 0);
	counts(message, AT "conflicts", 1);
	json_decref(message);
	holds_text("a", "the user's\n");
	message = well(&c, "draft_apply", json_pack("{s:s}", "take", "draft"));
	counts(message, AT "applied", 1);
	json_decref(message);
	holds_text("a", "new\n");
	client_end(&c);
}

/* Two drafts of commands change one text: the second one is merged, and what the user is shown of it is
 * the merge. */
static void
test_merge(void **state)
{
	struct client c;
	char id[2][64];
	json_t *message;

	put_text("a", "1\n2\n3\n4\n5\n6\n");
	put_text("b", "1\n2\n3\n4\n5\n6\n");
	c = start("auto", NULL, "{}", NULL);
	for (unsigned i = 0; i < 2; i++) {
		message = well(&c, "run_command",
		    json_pack("{s:s,s:b}", "command",
			i == 0 ? "sed -i s/1/one/ a; sed -i s/3/three/ b"
			       : "sed -i s/6/six/ a; sed -i s/3/drei/ b",
			"draft", 1));
		snprintf(id[i], sizeof(id[i]), "%s", string_at(message, AT "draft"));
		json_decref(message);
	}
	json_decref(well(&c, "draft_apply", json_pack("{s:s}", "draft", id[0])));
	message = well(&c, "draft_diff", json_pack("{s:s}", "draft", id[1]));
	counts(message, AT "conflicts", 2);
	says_part(message, AT "changes.0.merge", "clean");
	says_part(message, AT "changes.1.merge", "overlaps");
	says_part(message, TEXT, "merges cleanly (take: merge)");
	says_part(message, TEXT, "project and draft changed the same lines in 1 place");
	json_decref(message);
	message = well(&c, "draft_apply", json_pack("{s:s,s:s}", "draft", id[1], "take", "merge"));
	counts(message, AT "applied", 1);
	counts(message, AT "conflicts", 1);
	is_true(message, AT "kept");
	json_decref(message);
	holds_text("a", "one\n2\n3\n4\n5\nsix\n");
	holds_text("b", "1\n2\nthree\n4\n5\n6\n");
	client_end(&c);
}

static void
test_background(void **state)
{
	struct client c = start_draft("auto", NULL);
	json_t *message, *job;

	run(&c, "echo new >a");
	job = well(&c, "run_command",
	    json_pack("{s:s,s:b}", "command", "sleep 600", "background", 1));
	message = call(&c, "draft_apply", json_object());
	went_wrong(message, "conflict");
	says_part(message, TEXT, "they must end first");
	json_decref(message);
	holds_text("a", "old a\n");
	json_decref(well(&c, "command_stop", json_pack("{s:s}", "id", string_at(job, AT "id"))));
	json_decref(job);
	json_decref(well(&c, "draft_apply", json_object()));
	holds_text("a", "new\n");
	client_end(&c);
}

/* Calls that are sent without waiting are done in their order, and each sees the draft. */
static void
test_in_line(void **state)
{
	struct client c = start_draft("auto", NULL);
	json_int_t ids[4];

	ids[0] = request_tool(&c, "run_command", json_pack("{s:s}", "command", "echo new >a"));
	ids[1] = request_tool(&c, "draft_apply", json_object());
	json_decref(talk_response(&c, ids[0]));
	json_decref(talk_response(&c, ids[1]));
	holds_text("a", "new\n");
	ids[0] = request_tool(&c, "run_command", json_pack("{s:s}", "command", "echo newer >b"));
	ids[1] = request_tool(&c, "draft_diff", json_object());
	ids[2] = request_tool(&c, "draft_discard", json_object());
	json_decref(talk_response(&c, ids[0]));
	json_decref(talk_response(&c, ids[1]));
	json_decref(talk_response(&c, ids[2]));
	holds_text("b", "old b\n");
	client_end(&c);
}

/* ---- a command in a draft of its own ---- */

static json_t *
run_held_back(struct client *c, const char *command)
{
	json_t *message =
	    well(c, "run_command", json_pack("{s:s,s:b}", "command", command, "draft", 1));

	counts(message, AT "exit_code", 0);
	return message;
}

static void
test_one_command(void **state)
{
	struct client c = start("auto", NULL, "{}", NULL);
	char id[64];
	json_t *message;

	put_text("a", "old a\n");
	message = run_held_back(&c, "cat a; echo new a >a; echo x >b");
	says(message, AT "stdout.text", "old a\n");
	counts(message, AT "total", 2);
	says(message, AT "changes.0.path", "a");
	says_part(message, TEXT, "holds 2 changes back");
	snprintf(id, sizeof(id), "%s", string_at(message, AT "draft"));
	json_decref(message);
	holds_text("a", "old a\n");
	/* The session itself works in the project. */
	run(&c, "grep -q old a && ! test -e b");
	message = well(&c, "draft_apply", json_pack("{s:s,s:[s]}", "draft", id, "paths", "a"));
	counts(message, AT "applied", 1);
	json_decref(message);
	holds_text("a", "new a\n");
	holds_text("b", NULL);
	client_end(&c);
	has_line(errors, id, "is kept: 1 change.");
}

/* Of a commit each ref is shown, and the objects are one line. */
static void
test_commit(void **state)
{
	struct client c;
	json_t *message;

	put_text("a", "old a\n");
	process_shell(
	    "cd \"$1\" && git init -q && git add a && git -c user.name=n -c user.email=e commit -qm one",
	    project, NULL, NULL);
	c = start("auto", NULL, "{}", NULL);
	message = run_held_back(&c,
	    "echo new a >a; git -c user.name=n -c user.email=e commit -qam two; git branch other");
	says_part(message, TEXT, "changed '.git' (");
	says_part(message, TEXT, " objects and logs of git)\n");
	says_part(message, TEXT, "created '.git/refs/heads/other'");
	assert_null(strstr(string_at(message, TEXT), ".git/objects"));
	json_decref(message);
	client_end(&c);
}

/* What the policy allows is applied when the command ends; the rest never lands, and there is no draft
 * of it. */
static void
test_judged(void **state)
{
	struct client c;
	json_t *message;

	put_text("a", "old a\n");
	c = start("auto", "--judged", "{}", NULL);
	message = well(&c, "run_command",
	    json_pack("{s:s}", "command",
		"echo new a >a; mkdir -p .git/hooks; echo x >.git/hooks/post-commit; test -e .git/hooks/post-commit"));
	counts(message, AT "exit_code", 0);
	says_part(message, TEXT, "applied to the project");
	is_missing(message, AT "draft");
	assert_true(strlen(string_at(message, AT "undo")) > 0);
	json_decref(message);
	holds_text("a", "new a\n");
	holds_text(".git/hooks/post-commit", NULL);
	/* A file operation and the next command see it. */
	run(&c, "grep -q new a && ! test -e .git/hooks/post-commit");
	/* What the client wants to decide on is kept. */
	message = run_held_back(&c, "echo newer >a");
	says_part(message, TEXT, "holds 1 change back");
	json_decref(message);
	holds_text("a", "new a\n");
	/* In the background it is direct. */
	message = well(&c, "run_command",
	    json_pack("{s:s,s:b}", "command", "echo bg >b; read x", "background", 1));
	json_decref(message);
	for (uint64_t end = clock_ms() + PATIENCE_MS; access(at_root("b"), F_OK) < 0;) {
		assert_true(clock_ms() < end);
		json_decref(well(&c, "list_directory", json_object()));
	}
	client_end(&c);
}

/* Without changes there is no draft left. */
static void
test_nothing_changed(void **state)
{
	struct client c = start("auto", NULL, "{}", NULL);
	json_t *message = run_held_back(&c, "ls");

	counts(message, AT "total", 0);
	is_missing(message, AT "draft");
	json_decref(message);
	message = call(&c, "run_command",
	    json_pack("{s:s,s:b,s:b}", "command", "ls", "draft", 1, "background", 1));
	went_wrong(message, "invalid");
	json_decref(message);
	client_end(&c);
}

/* Several at once, each in its own, and one that is cancelled. */
static void
test_side_by_side(void **state)
{
	struct client c = start("auto", NULL, "{}", NULL);
	json_int_t ids[3];
	json_t *message;

	for (size_t i = 0; i < 3; i++)
		ids[i] = request_tool(&c, "run_command",
		    json_pack("{s:s,s:b}", "command", i == 2 ? "sleep 600" : "echo x >>a; cat a",
			"draft", 1));
	cancel(&c, ids[2]);
	for (size_t i = 0; i < 2; i++) {
		message = talk_response(&c, ids[i]);
		says(message, AT "stdout.text", "x\n");
		counts(message, AT "total", 1);
		json_decref(message);
	}
	holds_text("a", NULL);
	client_end(&c);
}

/* ---- Safe mode ---- */

static json_t *
question(struct client *c)
{
	json_t *message = receive(c);

	says(message, "method", "elicitation/create");
	return message;
}

static void
respond(struct client *c, json_t *asked, const char *action)
{
	send_json(c,
	    json_pack("{s:s, s:O, s:{s:s}}", "jsonrpc", "2.0", "id", look(asked, "id"), "result",
		"action", action));
	json_decref(asked);
}

static void
test_asked(void **state)
{
	struct client c = start_draft("safe", "accept");
	json_t *message;
	json_int_t id, read;

	json_decref(
	    well(&c, "write_file", json_pack("{s:s,s:s}", "path", "a", "content", "new a\n")));
	id = request_tool(&c, "draft_apply", json_object());
	message = question(&c);
	says_part(message, "params.message", "changed 'a' (6 bytes)\n");
	says_part(message, "params.message", "-old a\n+new a\n");
	is_missing(message, "params.requestedSchema.properties.scope.enum.1");
	/* What needs the slot waits; nothing is in the project yet. */
	read = request_tool(&c, "read_file", json_pack("{s:s}", "path", "a"));
	holds_text("a", "old a\n");
	respond(&c, message, "decline");
	message = talk_response(&c, id);
	went_wrong(message, "not_approved");
	json_decref(message);
	message = talk_response(&c, read);
	says(message, AT "content", "new a\n");
	json_decref(message);
	holds_text("a", "old a\n");
	json_decref(well(&c, "draft_apply", json_object()));
	holds_text("a", "new a\n");
	id = request_tool(&c, "undo", json_object());
	message = question(&c);
	says_part(message, "params.message", "take back in ");
	respond(&c, message, "decline");
	message = talk_response(&c, id);
	went_wrong(message, "not_approved");
	json_decref(message);
	holds_text("a", "new a\n");
	json_decref(well(&c, "undo", json_object()));
	holds_text("a", "old a\n");
	client_end(&c);
}

/* The user is shown what a merge writes, not the draft's version, which lacks the project's change. */
static void
test_asked_merge(void **state)
{
	struct client c;
	json_t *message;
	json_int_t id;

	put_text("a", "1\n2\n3\n4\n5\n6\n7\n");
	c = start("safe", "--draft", ASKS, "accept");
	run(&c, "sed -i s/7/seven/ a");
	process_shell(
	    "cd \"$1\" && PATH=$2/bin:$PATH && "
	    "koda-sandbox run --mode auto --draft -- sed -i s/1/one/ a </dev/null && "
	    "koda-sandbox draft apply \"$(koda-sandbox drafts | tail -1 | cut -d ' ' -f 1)\"",
	    project, prefix, NULL);
	holds_text("a", "one\n2\n3\n4\n5\n6\n7\n");
	id = request_tool(&c, "draft_apply", json_pack("{s:s}", "take", "merge"));
	message = question(&c);
	says_part(message, "params.message", "merged: changed 'a'");
	says_part(message, "params.message", "@@ -4,4 +4,4 @@\n 4\n 5\n 6\n-7\n+seven\n");
	if (strstr(string_at(message, "params.message"), "-one") != NULL)
		fail_msg("%s", string_at(message, "params.message"));
	respond(&c, message, "accept");
	message = talk_response(&c, id);
	counts(message, AT "applied", 1);
	json_decref(message);
	holds_text("a", "one\n2\n3\n4\n5\n6\nseven\n");
	client_end(&c);
}

/* A cancelled question applies nothing, and the session goes on. */
static void
test_cancelled(void **state)
{
	struct client c = start_draft("safe", "accept");
	json_t *message;
	json_int_t id;

	json_decref(
	    well(&c, "write_file", json_pack("{s:s,s:s}", "path", "a", "content", "new a\n")));
	id = request_tool(&c, "draft_apply", json_object());
	message = question(&c);
	cancel(&c, id);
	json_decref(message);
	message = well(&c, "read_file", json_pack("{s:s}", "path", "a"));
	says(message, AT "content", "new a\n");
	json_decref(message);
	holds_text("a", "old a\n");
	client_end(&c);
}

/* A client that cannot ask applies nothing in Safe mode. */
static void
test_cannot_ask(void **state)
{
	struct client c = start_draft("auto", NULL);
	char id[64];
	json_t *message;

	run(&c, "echo new >a");
	message = well(&c, "draft_apply", json_object());
	json_decref(message);
	client_end(&c);
	c = start("safe", NULL, "{}", NULL);
	message = call(&c, "undo", json_object());
	went_wrong(message, "not_approved");
	json_decref(message);
	holds_text("a", "new\n");
	client_end(&c);
	/* Nor does a client decide on a draft that it has not made. */
	c = start("auto", "--draft", "{}", NULL);
	run(&c, "echo newer >a");
	message = well(&c, "draft_diff", json_object());
	snprintf(id, sizeof(id), "%s", string_at(message, AT "draft"));
	json_decref(message);
	client_end(&c);
	c = start("auto", NULL, "{}", NULL);
	message = call(&c, "draft_discard", json_pack("{s:s}", "draft", id));
	went_wrong(message, "invalid");
	json_decref(message);
	client_end(&c);
}

/* ---- Safe approves effects ---- */

static json_t *
safe_run(struct client *c, const char *command)
{
	return well(c, "run_command", json_pack("{s:s}", "command", command));
}

/* What changes nothing is not asked about, even of a client that cannot ask. */
static void
test_effect_none(void **state)
{
	struct client c = start("safe", NULL, "{}", NULL);
	json_t *message;

	put_text("a", "old a\n");
	message = safe_run(&c, "cat a; exit 3");
	says(message, AT "stdout.text", "old a\n");
	counts(message, AT "exit_code", 3);
	counts(message, AT "total", 0);
	is_missing(message, AT "draft");
	json_decref(message);
	/* What changes something is discarded if nobody can be asked. */
	message = safe_run(&c, "echo new >a");
	is_true(message, AT "discarded");
	counts(message, AT "total", 1);
	says_part(message, TEXT, "this client cannot ask the user");
	json_decref(message);
	holds_text("a", "old a\n");
	/* The old way, for what goes on after the call. */
	message = call(&c, "run_command",
	    json_pack("{s:s,s:b}", "command", "sleep 600", "background", 1));
	went_wrong(message, "not_approved");
	json_decref(message);
	client_end(&c);
}

static json_t *
answer_effects(struct client *c, json_int_t id, const char *action, const char *scope)
{
	json_t *asked = question(c);

	send_json(c,
	    json_pack("{s:s, s:O, s:{s:s, s:{s:s}}}", "jsonrpc", "2.0", "id", look(asked, "id"),
		"result", "action", action, "content", "scope", scope));
	json_decref(asked);
	return talk_response(c, id);
}

static json_int_t
request_run(struct client *c, const char *command)
{
	return request_tool(c, "run_command", json_pack("{s:s}", "command", command));
}

static void
test_effect_shown(void **state)
{
	struct client c = start("safe", NULL, ASKS, NULL);
	const char *const command =
	    "echo new a >a; rm b; mkdir .vscode; echo x >.vscode/x; echo done";
	json_t *message;
	json_int_t id;

	put_text("a", "old a\n");
	put_text("b", "old b\n");
	id = request_run(&c, command);
	message = question(&c);
	says_part(message, "params.message", "\nsh -c\n+echo new a >a; rm b;");
	says_part(message, "params.message", "\nchanged 'a' (6 bytes)\ndeleted 'b'\n");
	says_part(message, "params.message", "refused: created '.vscode/x'");
	says_part(message, "params.message", "-old a\n+new a\n");
	/* It has run, and nothing is in the project. */
	holds_text("a", "old a\n");
	holds_text("b", "old b\n");
	respond(&c, message, "decline");
	message = talk_response(&c, id);
	went_well(message);
	says(message, AT "stdout.text", "done\n");
	is_true(message, AT "discarded");
	counts(message, AT "applied", 0);
	says(message, AT "changes.0.outcome", "refused");
	says(message, AT "changes.2.outcome", "pending");
	says_part(message, TEXT, "the user did not approve it");
	json_decref(message);
	holds_text("a", "old a\n");
	holds_text("b", "old b\n");
	message = answer_effects(&c, request_run(&c, command), "accept", "once");
	is_missing(message, AT "discarded");
	counts(message, AT "applied", 2);
	counts(message, AT "refused", 2);
	/* What the policy refuses is not kept either. */
	is_missing(message, AT "draft");
	json_decref(message);
	holds_text("a", "new a\n");
	holds_text("b", NULL);
	holds_text(".vscode/x", NULL);
	json_decref(well(&c, "history", json_object()));
	client_end(&c);
	has_line(audit, "\"verdict\":\"discarded\"", "the user did not approve it");
	has_line(audit, "\"verdict\":\"applied\"", "\"draft\"");
}

/* Allowed for the session: exactly this command, until something else changes a file. */
static void
test_effect_session(void **state)
{
	struct client c = start("safe", NULL, ASKS, NULL);
	const char *const command = "echo x >>a";

	put_text("a", "");
	json_decref(answer_effects(&c, request_run(&c, command), "accept", "session"));
	holds_text("a", "x\n");
	/* Not asked, although the command itself changed the file. */
	json_decref(safe_run(&c, command));
	json_decref(safe_run(&c, command));
	holds_text("a", "x\nx\nx\n");
	json_decref(answer_effects(&c, request_run(&c, "echo y >>a"), "decline", "once"));
	holds_text("a", "x\nx\nx\n");
	tick();
	put_text("b", "the user's\n");
	json_decref(answer_effects(&c, request_run(&c, command), "decline", "once"));
	holds_text("a", "x\nx\nx\n");
	client_end(&c);
}

/* A scope that was not offered is not granted. */
static void
test_effect_cut(void **state)
{
	struct client c = start("safe", NULL, ASKS, NULL);
	const char *const command = "for i in $(seq 300); do echo x >f$i; done";
	json_int_t id = request_run(&c, command);
	json_t *message = question(&c);

	says_part(message, "params.message", "NOT ALL OF THIS IS SHOWN");
	is_missing(message, "params.requestedSchema.properties.scope.enum.1");
	respond(&c, message, "accept");
	message = talk_response(&c, id);
	counts(message, AT "applied", 300);
	json_decref(message);
	process_shell("rm \"$1\"/f*", project, NULL, NULL);
	json_decref(answer_effects(&c, request_run(&c, command), "accept", "session"));
	process_shell("rm \"$1\"/f*", project, NULL, NULL);
	json_decref(answer_effects(&c, request_run(&c, command), "decline", "once"));
	holds_text("f1", NULL);
	client_end(&c);
}

/* Names beyond a draft's limits cannot be applied, and are not discarded as if they were nothing. */
static void
test_effect_unlisted(void **state)
{
	static const char deep[] =
	    "i=0; while [ $i -lt 205 ]; do { [ -d d ] || mkdir d; } && cd d || exit 1; i=$((i + 1)); done";
	struct client c = start("safe", NULL, ASKS, NULL);
	json_t *message;
	char command[512];

	process_shell("cd \"$1\" && eval \"$2\"", project, deep, NULL);
	snprintf(command, sizeof(command), "%s; echo y >y", deep);
	message = safe_run(&c, command);
	counts(message, AT "total", 0);
	is_true(message, AT "unlisted");
	string_at(message, AT "draft");
	is_missing(message, AT "discarded");
	json_decref(message);
	snprintf(command, sizeof(command), "echo x >x; %s; echo y >y", deep);
	message = answer_effects(&c, request_run(&c, command), "accept", "once");
	counts(message, AT "applied", 1);
	is_true(message, AT "unlisted");
	string_at(message, AT "draft");
	says_part(message, TEXT, "There are more names, or deeper ones");
	json_decref(message);
	holds_text("x", "x\n");
	client_end(&c);
}

/* A host that the policy names is asked about, too. */
static void
test_effect_network(void **state)
{
	struct client c = start("safe", NULL, ASKS, NULL);
	json_int_t id = request_run(&c,
	    "curl -s -o /dev/null -w '%{http_code}' --max-time 20 http://github.com/");
	json_t *message = question(&c);

	says_part(message, "params.message", "wants to reach 'github.com', port 80");
	respond(&c, message, "decline");
	message = talk_response(&c, id);
	says(message, AT "stdout.text", "403");
	counts(message, AT "total", 0);
	json_decref(message);
	client_end(&c);
}

/* A question that is cancelled, and one whose client is gone. */
static void
test_effect_left(void **state)
{
	struct client c = start("safe", NULL, ASKS, NULL);
	json_int_t id;

	put_text("a", "old a\n");
	id = request_run(&c, "echo new >a");
	json_decref(question(&c));
	cancel(&c, id);
	json_decref(safe_run(&c, "grep -q old a"));
	request_run(&c, "echo newer >a");
	json_decref(question(&c));
	client_end(&c);
	holds_text("a", "old a\n");
}

/* In plan mode nothing is decided. */
static void
test_plan(void **state)
{
	struct client c = start("plan", NULL, "{}", NULL);
	json_t *message = call(&c, "undo", json_object());

	went_wrong(message, "policy_denied");
	json_decref(message);
	client_end(&c);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, remove_project)
	static const struct CMUnitTest tests[] = {
		CASE(test_session),
		CASE(test_empty),
		CASE(test_discarded),
		CASE(test_taken_back),
		CASE(test_conflict),
		CASE(test_merge),
		CASE(test_background),
		CASE(test_in_line),
		CASE(test_one_command),
		CASE(test_commit),
		CASE(test_judged),
		CASE(test_nothing_changed),
		CASE(test_side_by_side),
		CASE(test_asked),
		CASE(test_asked_merge),
		CASE(test_cancelled),
		CASE(test_cannot_ask),
		CASE(test_effect_none),
		CASE(test_effect_shown),
		CASE(test_effect_session),
		CASE(test_effect_cut),
		CASE(test_effect_unlisted),
		CASE(test_effect_network),
		CASE(test_effect_left),
		CASE(test_plan),
	};

	return cmocka_run_group_tests_name("mcp_draft", tests, make_installation,
	    remove_installation);
}
