/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While a connection waits for its slot, the server serves everything that needs none. Covers
 * mcp/server.c, mcp/connection.c (messages that are put off), and the wait callback of the library.
 */
#include <sys/prctl.h>

#include "tests/kit/mcp_talk.h"

/* The library gives up a sandbox that does not start after 10 s: an answer in this time did not
 * wait for it. */
#define PROMPT_SECONDS 5.0
/* The size of the large project, which the first look has to go through. */
#define DIRECTORIES 200
#define FILES_EACH  1000

static const char *
stage2(void)
{
	return proof_path("%.*s/libexec/koda-sandbox/koda-sandbox-stage2", PATH_MAX - 64, talk_dir);
}

/* From now on a sandbox hangs when it starts. */
static void
make_it_hang(void)
{
	process_shell(
	    "rm \"$1\"; printf '#!/bin/sh\\nexec sleep 1000\\n' >\"$1\"; chmod 755 \"$1\"",
	    stage2(), "", "");
}

static int
mend(void **state)
{
	const int r = talk_tear_down(state);

	process_shell("ln -sf \"$2\" \"$1\"", stage2(), KODA_TEST_STAGE2, "");
	return r;
}

/* Requires an answer to a request that needs no slot, in time. */
static void
answers(struct client *c, const char *method)
{
	const double since = proof_seconds();
	json_t *response = talk_response(c, request(c, method, json_object()));

	assert_non_null(json_object_get(response, "result"));
	assert_true(proof_seconds() - since < PROMPT_SECONDS);
	json_decref(response);
}

/* A signal ends the server and all its processes in time. */
static void
terminate(struct client *c)
{
	const double since = proof_seconds();

	kill(c->p.pid, SIGTERM);
	talk_all_gone(since);
	client_forget(c);
}

static void
test_what_needs_no_slot(void **state)
{
	struct client c;
	json_int_t dropped;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	make_it_hang();
	c = talk_serve("auto", NULL, NULL);
	request_tool(&c, "list_directory", json_object());
	dropped = request_tool(&c, "list_directory", json_object());
	answers(&c, "ping");
	answers(&c, "tools/list");
	cancel(&c, dropped);
	answers(&c, "resources/templates/list");
	terminate(&c);
}

/* The server ends when its client leaves: it does not wait for the slot. */
static void
test_end_of_input(void **state)
{
	struct client c;
	double since;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	make_it_hang();
	c = talk_serve("auto", NULL, NULL);
	answers(&c, "ping");
	since = proof_seconds();
	close(c.p.in);
	c.p.in = -1;
	talk_all_gone(since);
	client_forget(&c);
}

/* The slot of one child hangs: its parent and another child go on. */
static void
test_others(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), good, bad;
	double since;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	good = talk_child(&parent, json_pack("{s:s}", "name", "good"), NULL);
	talk_write(&good, "", "a");
	make_it_hang();
	bad = talk_child(&parent, json_pack("{s:s}", "name", "bad"), NULL);
	request_tool(&bad, "list_directory", json_object());
	answers(&bad, "ping");
	since = proof_seconds();
	talk_write(&parent, "", "b");
	talk_write(&good, "", "c");
	talk_expect(&parent, "", "close_child", json_pack("{s:s}", "name", "good"));
	assert_true(proof_seconds() - since < PROMPT_SECONDS);
	answers(&bad, "ping");
	since = proof_seconds();
	kill(parent.p.pid, SIGINT);
	talk_all_gone(since);
	client_forget(&parent);
	client_forget(&good);
	client_forget(&bad);
}

/* Writes the line of a message, without sending it. The caller frees it. Steals message. */
static char *
line_of(json_t *message)
{
	char *line = json_dumps(message, JSON_COMPACT);

	assert_non_null(line);
	json_decref(message);
	return line;
}

/* A child waits for its slot in order to open a child of its own, and the parent closes it: the
 * child's request stops there, and opens nothing. */
static void
test_closed_while_it_opens(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), a;
	char *hello, *open;
	double since;

	talk_write(&parent, "", "x");
	make_it_hang();
	a = client_run(talk_open_child(&parent, json_pack("{s:s}", "name", "a")));
	hello = line_of(json_pack("{s:s, s:i, s:s, s:{s:s, s:{}, s:{s:s, s:s}}}", "jsonrpc", "2.0",
	    "id", 1, "method", "initialize", "params", "protocolVersion", "2025-06-18",
	    "capabilities", "clientInfo", "name", "test", "version", "1"));
	open = line_of(json_pack("{s:s, s:i, s:s, s:{s:s, s:{s:s}}}", "jsonrpc", "2.0", "id", 2,
	    "method", "tools/call", "params", "name", "open_child", "arguments", "name", "b"));
	/* In one write, so that the server handles the second message before it acquires the slot
	 * by itself. */
	assert_true(dprintf(a.p.in, "%s\n%s\n", hello, open) > 0);
	a.next_id = 3;
	answers(&a, "ping");
	since = proof_seconds();
	talk_expect(&parent, "", "close_child", json_pack("{s:s}", "name", "a"));
	assert_true(proof_seconds() - since < PROMPT_SECONDS);
	talk_write(&parent, "", "y");
	assert_int_equal(client_finish(&parent), 0);
	client_finish(&a);
	free(hello);
	free(open);
}

/* Messages that are put off take about as much memory as their text. */
static void
test_memory(void **state)
{
	json_t *many = json_array();
	struct client c;
	long before;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	for (int i = 0; i < 30000; i++)
		json_array_append_new(many, json_object());
	make_it_hang();
	c = talk_serve("auto", NULL, NULL);
	answers(&c, "ping");
	before = resident_kib(c.p.pid);
	for (int i = 0; i < 100; i++)
		request_tool(&c, "list_directory", json_pack("{s:O}", "path", many));
	answers(&c, "ping");
	if (!SANITIZED)
		assert_true(resident_kib(c.p.pid) - before < 64 << 10);
	terminate(&c);
	json_decref(many);
}

/* Each directory has many names of one file: the look reads only names, and creating so many files
 * would take minutes. */
static void
make_large(void)
{
	char first[PATH_MAX], path[PATH_MAX];

	for (int i = 0; i < DIRECTORIES; i++) {
		snprintf(path, sizeof(path), "%.*s/d%d", PATH_MAX - 32, talk_project, i);
		assert_int_equal(mkdir(path, 0755), 0);
		snprintf(first, sizeof(first), "%.*s/d%d/f0", PATH_MAX - 32, talk_project, i);
		proof_put(first, "");
		for (int k = 1; k < FILES_EACH; k++) {
			snprintf(path, sizeof(path), "%.*s/d%d/f%d", PATH_MAX - 32, talk_project, i,
			    k);
			assert_int_equal(link(first, path), 0);
		}
	}
}

/* All calls that come during the first look at a large project are answered, and in order. */
static void
test_large_project(void **state)
{
	json_int_t id[3];
	struct client c;
	json_t *result;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	make_large();
	c = talk_serve("auto", NULL, NULL);
	id[0] =
	    request_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "x", "content", "one"));
	id[1] =
	    request_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "x", "content", "two"));
	id[2] = request_tool(&c, "read_file", json_pack("{s:s}", "path", "x"));
	answers(&c, "ping");
	for (size_t i = 0; i < N_ELEMENTS(id); i++) {
		result = talk_result(&c, id[i]);
		assert_string_equal(talk_code(result), "");
		if (i == 2)
			assert_non_null(strstr(talk_text(result), "two"));
		json_decref(result);
	}
	assert_int_equal(client_finish(&c), 0);

	/* A signal ends the server during the look. */
	c = talk_serve("auto", NULL, NULL);
	answers(&c, "ping");
	terminate(&c);
}

/* Requires the next message to be the answer to that request, with that error code ("": none). */
static void
next_is(struct client *c, json_int_t id, const char *code)
{
	json_t *m = receive(c);

	assert_non_null(m);
	assert_int_equal(json_integer_value(json_object_get(m, "id")), id);
	assert_string_equal(talk_code(json_object_get(m, "result")), code);
	json_decref(m);
}

/* A call that is cancelled while it is put off has no effect and no answer. */
static void
test_cancelled_while_put_off(void **state)
{
	json_int_t kept, dropped, ping, look;
	struct client c;

	make_large();
	c = talk_serve("auto", NULL, NULL);
	kept =
	    request_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "kept", "content", "x"));
	dropped =
	    request_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "gone", "content", "x"));
	cancel(&c, dropped);
	ping = request(&c, "ping", json_object());
	look = request_tool(&c, "read_file", json_pack("{s:s}", "path", "gone"));
	/* The answer to ping comes first: when the call was cancelled, no call had been served. */
	next_is(&c, ping, "");
	next_is(&c, kept, "");
	next_is(&c, look, "io");
	assert_int_equal(client_finish(&c), 0);
}

static const char *
worker(void)
{
	return proof_path("%.*s/libexec/koda-sandbox/koda-fs-worker", PATH_MAX - 64, talk_dir);
}

/* A server was killed, and what its commands left is looked through for the next slot. The worker
 * that does it hangs, or has to go through a large project. */
static void
test_killed_session(void **state)
{
	struct client c;
	json_int_t id;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	make_large();
	c = talk_serve("auto", NULL, "accept");
	talk_expect(&c, "", "run_command", json_pack("{s:s}", "command", "true"));
	kill(c.p.pid, SIGKILL);
	talk_all_gone(proof_seconds());
	client_forget(&c);

	process_shell(
	    "rm \"$1\"; printf '#!/bin/sh\\nexec sleep 1000\\n' >\"$1\"; chmod 755 \"$1\"",
	    worker(), "", "");
	c = talk_serve("auto", NULL, NULL);
	id = request_tool(&c, "list_directory", json_object());
	answers(&c, "ping");
	answers(&c, "tools/list");
	cancel(&c, id);
	answers(&c, "ping");
	terminate(&c);

	process_shell("ln -sf \"$2/worker/koda-fs-worker\" \"$1\"", worker(), KODA_TEST_BUILD_DIR,
	    "");
	c = talk_serve("auto", NULL, NULL);
	answers(&c, "ping");
	terminate(&c);

	c = talk_serve("auto", NULL, NULL);
	talk_expect(&c, "", "list_directory", json_object());
	assert_int_equal(client_finish(&c), 0);
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, test_##t, talk_set_up, mend, NULL                                              \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_needs_no_slot),
		TEST(end_of_input),
		TEST(others),
		TEST(closed_while_it_opens),
		TEST(memory),
		TEST(large_project),
		TEST(cancelled_while_put_off),
		TEST(killed_session),
	};

	return cmocka_run_group_tests_name("mcp_wait", tests, talk_install, talk_uninstall);
}
