/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log of a running server: everything that was done is in it, whoever did it and however
 * it ended, and what cannot be logged is not done.
 */
#include "tests/kit/mcp_talk.h"

static char audit_log[PATH_MAX]; /* beside the project */

static int
set_up(void **state)
{
	snprintf(audit_log, sizeof(audit_log), "%.*s/log", PATH_MAX - 32, talk_dir);
	return talk_set_up(state);
}

static int
tear_down(void **state)
{
	unlink(audit_log);
	return talk_tear_down(state);
}

/*
 * Runs `audit verify` and returns its status. head: for --head, or NULL. ret_head: receives the
 * head that it prints, or NULL.
 */
static int
verify(const char *head, char ret_head[65])
{
	struct process p = process_start((const char *[]){ talk_program(), "audit", "verify",
	    audit_log, head != NULL ? "--head" : NULL, head, NULL });

	process_line(p.out);
	if (ret_head != NULL && sscanf(process_line(p.out), "head: %64s", ret_head) != 1)
		fail_msg("no head is printed");
	return process_finish(&p);
}

/* Returns the lines of the log as objects. The caller owns the result. */
static json_t *
lines(void)
{
	cleanup_free char *text = proof_get(audit_log);
	json_t *ret = json_array();
	char *save = NULL;

	assert_non_null(text);
	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		json_t *one = json_loads(line, 0, NULL);

		assert_non_null(one);
		json_array_append_new(ret, one);
	}
	return ret;
}

static const char *
member(const json_t *line, const char *key)
{
	const char *s = json_string_value(json_object_get(line, key));

	return s != NULL ? s : "";
}

/* Returns the outcome of that intent, or NULL. */
static const json_t *
outcome(const json_t *all, const json_t *intent)
{
	const json_t *line;
	size_t i;

	json_array_foreach(all, i, line)
	{
		if (strcmp(member(line, "kind"), "outcome") == 0 &&
		    json_equal(json_object_get(line, "of"), json_object_get(intent, "seq")))
			return line;
	}
	return NULL;
}

static size_t
count(const json_t *all, const char *kind)
{
	const json_t *line;
	size_t i, n = 0;

	json_array_foreach(all, i, line) n += strcmp(member(line, "kind"), kind) == 0;
	return n;
}

/* ---- what is in it ---- */

struct want {
	const char *session, *tool, *path, *verdict, *rule;
	bool before, after;
};

static void
check_pair(const json_t *all, const json_t *intent, const struct want *want)
{
	const json_t *end = outcome(all, intent);
	const char *path = want->path[0] != '\0'
	    ? proof_path("%.*s/%s", PATH_MAX - 64, talk_project, want->path)
	    : talk_project;

	assert_string_equal(member(intent, "session"), want->session);
	assert_string_equal(member(intent, "tool"), want->tool);
	if (end == NULL)
		fail_msg("%s has no outcome", want->tool);
	assert_string_equal(member(end, "session"), want->session);
	assert_string_equal(member(end, "tool"), want->tool);
	assert_string_equal(member(end, "path"), want->path[0] == '/' ? want->path : path);
	assert_string_equal(member(end, "verdict"), want->verdict);
	assert_string_equal(member(end, "rule"), want->rule);
	assert_int_equal(strlen(member(end, "before")), want->before ? 64 : 0);
	assert_int_equal(strlen(member(end, "after")), want->after ? 64 : 0);
	assert_true(json_is_integer(json_object_get(end, "duration_us")));
}

static void
test_everything(void **state)
{
	static const struct want wanted[] = {
		{ "parent", "write_file", "f", "allowed", "", false, true },
		{ "parent", "read_file", "f", "allowed", "", true, false },
		{ "parent", "edit_file", "f", "allowed", "", true, true },
		{ "parent", "edit_file", "f", "failed", "", false, false },
		{ "parent", "write_file", "/etc/f", "refused", "allow_write", false, false },
		{ "parent", "read_file", "none", "failed", "", false, false },
		{ "parent", "move", "f", "allowed", "", false, false },
		{ "parent", "resources/read", "g", "allowed", "", true, false },
		{ "parent", "open_child", "sub", "allowed", "", false, false },
		{ "parent/a", "write_file", "sub/h", "refused", "trust", false, false },
		{ "parent/a", "list_directory", "sub", "allowed", "", false, false },
		{ "parent", "write_file", "k", "allowed", "", true, true },
		{ "parent", "remove", "g", "allowed", "", true, false },
		{ "parent", "run_command", "sub", "allowed", "", false, false },
		{ "parent", "run_command", "", "allowed", "", false, false },
	};
	struct client parent = talk_serve("auto", audit_log, NULL), child;
	const json_t *line;
	json_t *all;
	char head[65], told[256];
	size_t n = 0, i;

	proof_mkdir(proof_path("%.*s/sub", PATH_MAX - 64, talk_project));
	talk_write(&parent, "", "f");
	talk_expect(&parent, "", "read_file", json_pack("{s:s}", "path", "f"));
	talk_expect(&parent, "", "edit_file",
	    json_pack("{s:s, s:[{s:s, s:s}]}", "path", "f", "edits", "old", "x", "new", "y"));
	talk_expect(&parent, "conflict", "edit_file",
	    json_pack("{s:s, s:[{s:s, s:s}], s:s}", "path", "f", "edits", "old", "x", "new", "y",
		"if_digest", "0000000000000000000000000000000000000000000000000000000000000000"));
	talk_write(&parent, "policy_denied", "/etc/f");
	talk_expect(&parent, "io", "read_file", json_pack("{s:s}", "path", "none"));
	talk_expect(&parent, "", "move", json_pack("{s:s, s:s}", "from", "f", "to", "g"));
	json_decref(talk_response(&parent,
	    request(&parent, "resources/read",
		json_pack("{s:s}", "uri",
		    proof_path("file://%.*s/g", PATH_MAX - 64, talk_project)))));
	child = talk_child(&parent,
	    json_pack("{s:s, s:s, s:s}", "name", "a", "subdirectory", "sub", "mode", "safe"), NULL);
	talk_write(&child, "not_approved", "h");
	talk_expect(&child, "", "list_directory", json_object());
	proof_put(proof_path("%.*s/k", PATH_MAX - 64, talk_project), "old");
	talk_write(&parent, "", "k");
	talk_expect(&parent, "", "remove", json_pack("{s:s}", "path", "g"));
	assert_int_equal(symlink("sub", proof_path("%.*s/to", PATH_MAX - 64, talk_project)), 0);
	talk_expect(&parent, "", "run_command",
	    json_pack("{s:s, s:s}", "command", "true", "cwd", "to"));
	talk_expect(&parent, "", "run_command", json_pack("{s:s}", "command", "true"));
	assert_int_equal(client_finish(&child), 0);
	close(parent.p.in);
	parent.p.in = -1;
	snprintf(told, sizeof(told), "%s", process_line(parent.p.err));
	free(parent.buf);
	assert_int_equal(process_wait(&parent.p), 0);

	assert_int_equal(verify(NULL, head), 0);
	assert_non_null(strstr(told, head));
	assert_int_equal(verify(head, NULL), 0);
	all = lines();
	json_array_foreach(all, i, line)
	{
		if (strcmp(member(line, "kind"), "intent") == 0 && n < N_ELEMENTS(wanted))
			check_pair(all, line, &wanted[n++]);
	}
	assert_int_equal(n, N_ELEMENTS(wanted));
	assert_int_equal(count(all, "intent"), N_ELEMENTS(wanted));
	assert_int_equal(count(all, "outcome"), N_ELEMENTS(wanted));
	assert_int_equal(count(all, "end"), 1);
	assert_int_equal(count(all, "event"), 2); /* the child's client came and went */
	json_decref(all);
}

/* ---- what commands do ---- */

static const json_t *
find(const json_t *all, const char *kind, const char *tool, const char *key, const char *value)
{
	const json_t *line;
	size_t i;

	json_array_foreach(all, i, line)
	{
		if (strcmp(member(line, "kind"), kind) == 0 &&
		    strcmp(member(line, "tool"), tool) == 0 &&
		    strcmp(member(line, key), value) == 0)
			return line;
	}
	fail_msg("there is no %s of %s with %s %s", kind, tool, key, value);
	return NULL;
}

static void
expect_run(struct client *c, const char *command, int status)
{
	json_t *result = talk_tool(c, "run_command", json_pack("{s:s}", "command", command));

	assert_int_equal(json_integer_value(
			     json_object_get(json_object_get(result, "structuredContent"),
				 "exit_code")),
	    status);
	json_decref(result);
}

static void
begin(struct client *c, const char *command)
{
	talk_expect(c, "", "run_command",
	    json_pack("{s:s, s:b}", "command", command, "background", true));
}

/* Waits until the first command in the list, the newest, has ended. */
static void
wait_for_newest(struct client *c)
{
	bool running = true;

	while (running) {
		json_t *result = talk_tool(c, "command_list", json_object());

		running = json_is_true(
		    json_object_get(json_array_get(json_object_get(json_object_get(result,
								       "structuredContent"),
						       "commands"),
					0),
			"running"));
		json_decref(result);
	}
}

/*
 * How commands ended, including background ones; what they planted; which hosts they reached or
 * tried to.
 */
static void
test_commands(void **state)
{
	static const char plants[] =
	    "git init -q r && echo 'touch harm' > r/.git/hooks/post-commit && chmod +x r/.git/hooks/post-commit";
	static const char asks[] =
	    "bash -c 'exec 3<>/dev/tcp/127.0.0.1/28889; "
	    "printf \"CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n\" >&3; head -n 1 <&3 >&2'";
	struct client c = talk_serve("auto", audit_log, NULL);
	const json_t *line, *intent;
	json_t *all;

	expect_run(&c, "exit 3", 3);
	expect_run(&c, plants, 0);
	expect_run(&c, asks, 0);
	begin(&c, "exit 5");
	wait_for_newest(&c);
	begin(&c, "sleep 1000");
	assert_int_equal(client_finish(&c), 0);
	assert_int_equal(verify(NULL, NULL), 0);
	all = lines();

	line = outcome(all, find(all, "intent", "run_command", "command", "exit 3"));
	assert_int_equal(json_integer_value(json_object_get(line, "status")), 3);

	line = find(all, "event", "file_write", "path",
	    proof_path("%.*s/r/.git/hooks/post-commit", PATH_MAX - 64, talk_project));
	assert_string_equal(member(line, "verdict"), "violation");
	assert_non_null(strstr(member(line, "detail"), "moved to quarantine as "));
	assert_non_null(strstr(member(line, "command"), "git init -q r"));

	line = find(all, "event", "connect", "to", "evil.example:443");
	assert_string_equal(member(line, "verdict"), "denied");
	assert_string_not_equal(member(line, "rule"), "");

	intent = find(all, "intent", "run_command", "command", "exit 5");
	line = find(all, "event", "run_command", "command", "exit 5");
	assert_true(json_equal(json_object_get(line, "of"), json_object_get(intent, "seq")));
	assert_string_equal(member(line, "verdict"), "ended");
	assert_int_equal(json_integer_value(json_object_get(line, "status")), 5);

	/* This command ended with the session. */
	line = find(all, "event", "run_command", "command", "sleep 1000");
	assert_string_equal(member(line, "verdict"), "unknown");
	assert_null(json_object_get(line, "status"));
	json_decref(all);
}

/*
 * A command that does it in a loop does not fill the disk: some events are logged, the others
 * counted.
 */
static void
test_too_many(void **state)
{
	enum { TIMES = 600, AT_ONCE = 500 };
	static const char floods[] =
	    "bash -c 'for i in {1..600}; do exec 3<>/dev/tcp/127.0.0.1/28889; "
	    "printf \"CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3 > /dev/null; done'";
	struct client c = talk_serve("auto", audit_log, NULL);
	const time_t began = time(NULL);
	const json_t *line;
	json_t *all;
	size_t i, told = 0;
	unsigned long long missed = 0, n;

	expect_run(&c, floods, 0);
	assert_int_equal(client_finish(&c), 0);
	assert_int_equal(verify(NULL, NULL), 0);
	all = lines();
	json_array_foreach(all, i, line)
	{
		told += strcmp(member(line, "kind"), "event") == 0;
		if (strcmp(member(line, "verdict"), "missed") != 0)
			continue;
		assert_int_equal(sscanf(member(line, "detail"), "%llu more", &n), 1);
		missed += n;
		told--;
	}
	/* One connection and one violation each: none is left out. */
	assert_in_range(told + missed, 2 * TIMES, 2 * TIMES + 20);
	assert_in_range(told, AT_ONCE / 2, AT_ONCE + 30 + 10 * (size_t)(time(NULL) - began));
	json_decref(all);
}

/* The log says that the user was asked, and how long the answer was valid. */
static void
test_approved(void **state)
{
	static const char *const wanted[] = { "once", "session", "kept", "", "once" };
	struct client c = talk_serve("safe", audit_log, "accept");
	const json_t *line;
	json_t *all;
	size_t i, n = 0;

	talk_write(&c, "", "a");
	c.scope = "session";
	talk_write(&c, "", "b");
	talk_write(&c, "", "c");
	assert_int_equal(c.asked, 2);
	c.says = "decline";
	expect_run(&c, "echo x >d", 0);
	c.says = "accept";
	c.scope = "once";
	expect_run(&c, "echo x >d", 0);
	assert_int_equal(c.asked, 4);
	assert_int_equal(client_finish(&c), 0);
	all = lines();
	json_array_foreach(all, i, line)
	{
		if (strcmp(member(line, "kind"), "outcome") != 0)
			continue;
		assert_true(n < N_ELEMENTS(wanted));
		assert_string_equal(member(line, "approved"), wanted[n++]);
	}
	assert_int_equal(n, N_ELEMENTS(wanted));
	json_decref(all);
}

/* No tokens in the log: with a token, a reader of the log could pose as the child. */
static void
test_no_token(void **state)
{
	struct client parent = talk_serve("plan", audit_log, NULL);
	const char *const *argv =
	    talk_open_child(&parent, json_pack("{s:s, s:[s]}", "name", "a", "deny_read", "secret"));
	cleanup_free char *text = proof_get(audit_log);

	assert_non_null(strstr(text, "deny_read"));
	assert_null(strstr(text, strrchr(argv[3], '.') + 1));
	assert_int_equal(client_finish(&parent), 0);
}

/* ---- where it may not be ---- */

static void
test_refused_inside(void **state)
{
	const char *inside = proof_path("%.*s/log", PATH_MAX - 64, talk_project);
	struct process p;
	char line[512];

	p = process_start((const char *[]){ talk_program(), "mcp", "--root", talk_project, "--mode",
	    "plan", "--audit", inside, NULL });
	snprintf(line, sizeof(line), "%s", process_line(p.err));
	assert_non_null(strstr(line, "--audit: "));
	assert_non_null(strstr(line, "which the agent may write"));
	assert_int_equal(process_finish(&p), 2);
	assert_false(proof_exists(inside));
	/* A child has no log of its own. */
	p = process_start(
	    (const char *[]){ talk_program(), "mcp", "--child", "x", "--audit", audit_log, NULL });
	assert_int_equal(process_finish(&p), 2);
	assert_false(proof_exists(audit_log));
}

/* ---- when it ends badly ---- */

static void
test_killed(void **state)
{
	struct client parent = talk_serve("safe", audit_log, "");
	const json_t *line;
	json_t *all, *question;
	size_t i, open = 0;

	talk_expect(&parent, "io", "read_file", json_pack("{s:s}", "path", "none"));
	request_tool(&parent, "write_file", json_pack("{s:s, s:s}", "path", "f", "content", "x"));
	question = receive(&parent); /* the question, which gets no answer */
	assert_string_equal(member(question, "method"), "elicitation/create");
	json_decref(question);
	kill(parent.p.pid, SIGKILL);
	free(parent.buf);
	close(parent.p.in);
	parent.p.in = -1;
	assert_int_equal(process_wait(&parent.p), 128 + SIGKILL);
	assert_int_equal(verify(NULL, NULL), 0);
	all = lines();
	json_array_foreach(all, i, line)
	{
		if (strcmp(member(line, "kind"), "intent") != 0 || outcome(all, line) != NULL)
			continue;
		assert_string_equal(member(line, "tool"), "write_file");
		open++;
	}
	assert_int_equal(open, 1);
	assert_int_equal(count(all, "end"), 0);
	json_decref(all);
	/* The next server continues the log. */
	parent = talk_serve("safe", audit_log, NULL);
	talk_expect(&parent, "io", "read_file", json_pack("{s:s}", "path", "none"));
	assert_int_equal(client_finish(&parent), 0);
	assert_int_equal(verify(NULL, NULL), 0);
}

static void
test_terminated(void **state)
{
	struct client parent = talk_serve("safe", audit_log, "");
	json_t *all;

	request_tool(&parent, "write_file", json_pack("{s:s, s:s}", "path", "f", "content", "x"));
	json_decref(receive(&parent));
	kill(parent.p.pid, SIGTERM);
	assert_int_equal(client_finish(&parent), 0);
	assert_int_equal(verify(NULL, NULL), 0);
	all = lines();
	assert_int_equal(count(all, "intent"), 1);
	assert_int_equal(count(all, "outcome"), 1);
	assert_int_equal(count(all, "end"), 1);
	json_decref(all);
}

static pid_t
worker(void)
{
	struct client c = { .p = process_start((const char *[]){ talk_program(), "top", "--once",
				"--json", NULL }) };
	json_t *all = receive(&c);
	const json_t *server = json_array_get(json_object_get(all, "servers"), 0),
		     *row = json_array_get(json_object_get(server, "workers"), 0);
	pid_t pid = (pid_t)json_integer_value(json_object_get(row, "pid"));

	assert_true(pid > 1);
	json_decref(all);
	assert_int_equal(client_finish(&c), 0);
	return pid;
}

/*
 * Calls whose first step is under way when the session ends: they end with it, and nothing is left
 * to take the second step. (stage2 lets a stopped worker go on, so how far each call gets is
 * chance; that it is in the log is not.)
 */
static void
test_ends_between_steps(void **state)
{
	struct client parent = talk_serve("auto", audit_log, NULL);
	json_t *all;

	proof_put(proof_path("%.*s/f", PATH_MAX - 64, talk_project), "old");
	talk_expect(&parent, "", "read_file", json_pack("{s:s}", "path", "f"));
	assert_int_equal(kill(worker(), SIGSTOP), 0);
	request_tool(&parent, "write_file", json_pack("{s:s, s:s}", "path", "g", "content", "x"));
	request_tool(&parent, "remove", json_pack("{s:s}", "path", "f"));
	request_tool(&parent, "run_command",
	    json_pack("{s:s, s:s}", "command", "true", "cwd", "."));
	request_tool(&parent, "open_child",
	    json_pack("{s:s, s:s}", "name", "a", "subdirectory", "."));
	request_tool(&parent, "explain_access", json_pack("{s:s}", "path", "f"));
	json_decref(talk_response(&parent, request(&parent, "ping", json_object())));
	kill(parent.p.pid, SIGTERM);
	assert_int_equal(client_finish(&parent), 0);
	assert_int_equal(verify(NULL, NULL), 0);
	all = lines();
	assert_int_equal(count(all, "intent"), 6);
	assert_int_equal(count(all, "outcome"), 6);
	json_decref(all);
}

/* Another process removes the log: from then on nothing is done. */
static void
test_taken_away(void **state)
{
	struct client parent = talk_serve("auto", audit_log, NULL);
	json_t *result;

	talk_write(&parent, "", "f");
	assert_int_equal(unlink(audit_log), 0);
	result =
	    talk_tool(&parent, "write_file", json_pack("{s:s, s:s}", "path", "g", "content", "x"));
	assert_string_equal(talk_code(result), "io");
	assert_non_null(strstr(talk_text(result), "was removed"));
	json_decref(result);
	assert_false(proof_exists(proof_path("%.*s/g", PATH_MAX - 64, talk_project)));
	talk_expect(&parent, "io", "read_file", json_pack("{s:s}", "path", "f"));
	assert_int_equal(client_finish(&parent), 0);
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, test_##t, set_up, tear_down, NULL                                              \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(everything),
		TEST(commands),
		TEST(too_many),
		TEST(approved),
		TEST(no_token),
		TEST(refused_inside),
		TEST(killed),
		TEST(terminated),
		TEST(ends_between_steps),
		TEST(taken_away),
	};

	return cmocka_run_group_tests_name("mcp_audit", tests, talk_install, talk_uninstall);
}
