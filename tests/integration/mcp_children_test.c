/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of a server: what they may and may not do, who is asked for them, and how they end. Uses
 * the real server, the real sandbox and one client per session.
 */
#include <sys/socket.h>

#include "mcp/child.h"
#include "tests/kit/family.h"
#include "tests/kit/mcp_talk.h"

static const char *
in_project(const char *name)
{
	return proof_path("%.*s/%s", PATH_MAX - 64, talk_project, name);
}

static void
make(const char *name)
{
	proof_mkdir(in_project(name));
}

static json_t *
child_named(const char *name)
{
	return json_pack("{s:s}", "name", name);
}

/* Checks what the program of an ended child prints, and its status. */
static void
ends_with(struct client *child, int status, const char *sentence)
{
	assert_null(receive(child));
	assert_string_equal(process_line(child->p.err), sentence);
	assert_int_equal(client_finish(child), status);
}

/* ---- what it may do ---- */

static void
test_subdirectory(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;

	make("sub");
	child =
	    talk_child(&parent, json_pack("{s:s, s:s}", "name", "a", "subdirectory", "sub"), NULL);
	talk_write(&child, "", "new");
	assert_true(proof_holds(in_project("sub/new"), "x"));
	talk_write(&child, "policy_denied", in_project("beside"));
	assert_false(proof_exists(in_project("beside")));
	talk_write(&parent, "", "beside");
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
}

static void
test_denied_paths(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;

	make("locked");
	proof_put(in_project("secret"), "s");
	proof_put(in_project("locked/f"), "f");
	child = talk_child(&parent,
	    json_pack("{s:s, s:[s], s:[s]}", "name", "a", "deny_read", "secret", "deny_write",
		in_project("locked")),
	    NULL);
	talk_expect(&child, "policy_denied", "read_file", json_pack("{s:s}", "path", "secret"));
	talk_expect(&child, "policy_denied", "remove", json_pack("{s:s}", "path", "locked/f"));
	talk_expect(&child, "", "read_file", json_pack("{s:s}", "path", "locked/f"));
	talk_expect(&parent, "", "read_file", json_pack("{s:s}", "path", "secret"));
	talk_expect(&parent, "", "remove", json_pack("{s:s}", "path", "locked/f"));
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
}

/* May the session reach the host? Returns "asks" if the user decides. */
static const char *
reach(struct client *c, const char *host)
{
	json_t *result = talk_tool(c, "explain_access", json_pack("{s:s}", "host", host));
	const json_t *told = json_object_get(result, "structuredContent");
	bool allowed = json_is_true(json_object_get(told, "allowed")),
	     asks = json_is_true(json_object_get(told, "asks"));

	json_decref(result);
	return asks ? "asks" : allowed ? "yes" : "no";
}

static void
test_network(void **state)
{
	struct client parent = talk_serve("safe", NULL, "accept"), child;

	assert_string_equal(reach(&parent, "github.com"), "yes");
	assert_string_equal(reach(&parent, "other.example"), "asks");

	child = talk_child(&parent, child_named("same"), "accept");
	assert_string_equal(reach(&child, "github.com"), "yes");
	assert_string_equal(reach(&child, "other.example"), "asks");
	assert_int_equal(client_finish(&child), 0);

	child =
	    talk_child(&parent, json_pack("{s:s, s:b}", "name", "none", "network", 0), "accept");
	assert_string_equal(reach(&child, "github.com"), "no");
	assert_string_equal(reach(&child, "other.example"), "no");
	assert_int_equal(client_finish(&child), 0);

	child = talk_child(&parent,
	    json_pack("{s:s, s:[s,s]}", "name", "fewer", "domains", "api.github.com",
		"mine.example"),
	    "accept");
	assert_string_equal(reach(&child, "api.github.com"), "yes");
	assert_string_equal(reach(&child, "github.com"), "no");
	assert_string_equal(reach(&child, "mine.example"), "no");
	assert_string_equal(reach(&child, "other.example"), "no");
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
}

/* In Auto no one is asked for a host, so no one is asked for a child in Safe either. */
static void
test_safe_below_auto(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;

	child = talk_child(&parent, json_pack("{s:s, s:s}", "name", "a", "mode", "safe"), "accept");
	assert_string_equal(reach(&child, "github.com"), "yes");
	assert_string_equal(reach(&child, "other.example"), "no");
	talk_write(&child, "", "new");
	assert_int_equal(child.asked, 1);
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
}

static void
test_asked_of_its_own_client(void **state)
{
	struct client parent = talk_serve("safe", NULL, "accept"), yes, no, mute;

	yes = talk_child(&parent, child_named("yes"), "accept");
	no = talk_child(&parent, child_named("no"), "decline");
	mute = talk_child(&parent, child_named("mute"), NULL);
	talk_write(&parent, "", "parent");
	talk_write(&yes, "", "yes");
	talk_write(&no, "not_approved", "no");
	talk_write(&mute, "not_approved", "mute");
	assert_int_equal(parent.asked, 1);
	assert_int_equal(yes.asked, 1);
	assert_int_equal(no.asked, 1);
	assert_false(proof_exists(in_project("no")));
	assert_false(proof_exists(in_project("mute")));
	assert_int_equal(client_finish(&yes), 0);
	assert_int_equal(client_finish(&no), 0);
	assert_int_equal(client_finish(&mute), 0);
	assert_int_equal(client_finish(&parent), 0);
}

/* What the parent has read does not count as read by the child. */
static void
test_remembers_for_itself(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;

	proof_put(in_project("f"), "one");
	child = talk_child(&parent, child_named("a"), NULL);
	talk_expect(&parent, "", "read_file", json_pack("{s:s}", "path", "f"));
	proof_put(in_project("f"), "two");
	talk_write(&child, "", "f");
	talk_write(&parent, "conflict", "f");
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
}

/*
 * A linked worktree of a repository elsewhere in the home directory, which commands see. A session
 * in the worktree may commit. A session in its parent directory may not, and so neither may its
 * child in the worktree.
 */
static void
test_worktree(void **state)
{
	struct client parent, child;
	char objects[PATH_MAX];
	json_t *result;

	process_shell(
	    "mkdir -p \"$2/r/.git/worktrees/wt\" \"$2/r/.git/objects\" \"$2/r/.git/refs\" \"$1/wt\"\n"
	    "echo ref: refs/heads/main >\"$2/r/.git/HEAD\"\n"
	    "echo ../.. >\"$2/r/.git/worktrees/wt/commondir\"\n"
	    "echo \"$1/wt/.git\" >\"$2/r/.git/worktrees/wt/gitdir\"\n"
	    "echo \"gitdir: $2/r/.git/worktrees/wt\" >\"$1/wt/.git\"\n",
	    talk_project, getenv("HOME"), NULL);
	snprintf(objects, sizeof(objects), "%.*s/r/.git/objects", PATH_MAX - 64, getenv("HOME"));
	parent = talk_serve("auto", NULL, NULL);
	for (int i = 0; i < 3; i++) {
		struct client *who = &parent, alone;

		if (i == 1) {
			child = talk_child(&parent,
			    json_pack("{s:s, s:s}", "name", "a", "subdirectory", "wt"), NULL);
			who = &child;
		} else if (i == 2) {
			alone = talk_start((const char *[]){ talk_program(), "mcp", "--mode",
					       "auto", "--root", in_project("wt"), NULL },
			    NULL);
			who = &alone;
		}
		result = talk_tool(who, "explain_access",
		    json_pack("{s:s, s:s}", "path", objects, "access", "write"));
		assert_int_equal(json_is_true(
				     json_object_get(json_object_get(json_object_get(result,
									 "structuredContent"),
							 "command"),
					 "allowed")),
		    i == 2);
		json_decref(result);
		if (i == 2)
			assert_int_equal(client_finish(&alone), 0);
	}
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
}

/* ---- what is refused ---- */

static void
test_refused(void **state)
{
	static const struct {
		const char *args, *want;
	} cases[] = {
		{ "{'name':'a','mode':'auto'}", "policy_denied" },
		{ "{'name':'a','subdirectory':'..'}", "invalid" },
		{ "{'name':'a','subdirectory':'/'}", "policy_denied" },
		{ "{'name':'a','subdirectory':'link'}", "policy_denied" },
		{ "{'name':'a','subdirectory':'file'}", "io" },
		{ "{'name':'a','subdirectory':'nothing'}", "io" },
		{ "{'name':'a','subdirectory':'.git/objects/info'}", "policy_denied" },
		{ "{'name':'a','subdirectory':'bare/refs'}", "policy_denied" },
		{ "{'name':'a','subdirectory':'.koda'}", "policy_denied" },
		{ "{'name':'a b'}", "invalid" },
		{ "{'name':'a/b'}", "invalid" },
		{ "{'name':'taken'}", "conflict" },
		{ "{'name':'a','mode':'plan','workspace':'draft'}", "invalid" },
		{ "{'name':'a','domains':['no such thing']}", "invalid" },
		{ "{'name':'a','deny_read':['\\u0000']}", "invalid" },
		{ "{'name':'a','deny_read':['*.pem']}", "invalid" },
		{ "{'name':'a','deny_write':['src/**']}", "invalid" },
	};
	struct client parent = talk_serve("safe", NULL, NULL);
	json_t *result;

	proof_put(in_project("file"), "f");
	assert_int_equal(symlink("/etc", in_project("link")), 0);
	process_shell(
	    "cd \"$1\" && mkdir -p .git/objects/info bare/objects bare/refs .koda && echo ref >bare/HEAD",
	    talk_project, NULL, NULL);
	talk_open_child(&parent, child_named("taken"));
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char text[128];

		snprintf(text, sizeof(text), "%s", cases[i].args);
		for (char *p = text; *p != '\0'; p++)
			*p = *p == '\'' ? '"' : *p;
		talk_expect(&parent, cases[i].want, "open_child",
		    json_loads(text, JSON_ALLOW_NUL, NULL));
	}
	talk_expect(&parent, "invalid", "close_child", child_named("a"));
	result = talk_tool(&parent, "list_children", json_object());
	assert_int_equal(json_array_size(
			     json_object_get(json_object_get(result, "structuredContent"),
				 "children")),
	    1);
	json_decref(result);
	assert_int_equal(client_finish(&parent), 0);
}

static void
test_limits(void **state)
{
	struct client parent = talk_serve("plan", NULL, NULL), deep[CHILD_DEPTH_MAX];
	struct client *above = &parent;
	char name[16];

	for (size_t i = 0; i < CHILD_DEPTH_MAX; i++) {
		deep[i] = talk_child(above, child_named("deeper"), NULL);
		above = &deep[i];
	}
	talk_expect(above, "policy_denied", "open_child", child_named("deeper"));
	for (size_t i = CHILD_DEPTH_MAX; i < CHILDREN_MAX; i++) {
		snprintf(name, sizeof(name), "n%zu", i);
		talk_open_child(&parent, child_named(name));
	}
	talk_expect(&parent, "too_large", "open_child", child_named("more"));
	talk_expect(&parent, "", "close_child", child_named(name));
	talk_expect(&parent, "", "open_child", child_named("more"));
	for (size_t i = CHILD_DEPTH_MAX; i > 0; i--)
		assert_int_equal(client_finish(&deep[i - 1]), 0);
	assert_int_equal(client_finish(&parent), 0);
}

static void
test_token_twice(void **state)
{
	struct client parent = talk_serve("plan", NULL, NULL), child;
	const char *const *argv = talk_open_child(&parent, child_named("a"));
	struct process again;

	child = talk_start(argv, NULL);
	again = process_start(argv);
	assert_non_null(strstr(process_line(again.err), "the server does not expect this token"));
	assert_int_equal(process_finish(&again), 3);
	/* Closed before its program has started. */
	argv = talk_open_child(&parent, child_named("b"));
	talk_expect(&parent, "", "close_child", child_named("b"));
	again = process_start(argv);
	assert_non_null(strstr(process_line(again.err), "the server does not expect this token"));
	assert_int_equal(process_finish(&again), 3);
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
}

/* Some clients start the command line once just to see what the server is. */
static void
test_token_looked_at(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;
	const char *const *argv = talk_open_child(&parent, child_named("a"));
	struct process again;

	for (int i = 0; i < 3; i++) {
		child = talk_start(argv, NULL);
		json_decref(talk_response(&child, request(&child, "tools/list", json_object())));
		if (i == 1)
			kill(child.p.pid, SIGKILL);
		assert_int_equal(client_finish(&child), i == 1 ? 128 + SIGKILL : 0);
	}
	child = talk_start(argv, NULL);
	talk_write(&child, "", "f");
	assert_int_equal(client_finish(&child), 0);
	again = process_start(argv);
	assert_non_null(strstr(process_line(again.err), "the server does not expect this token"));
	assert_int_equal(process_finish(&again), 3);
	/* A child that was closed meanwhile does not come back. */
	argv = talk_open_child(&parent, child_named("b"));
	child = talk_start(argv, NULL);
	talk_expect(&parent, "", "close_child", child_named("b"));
	assert_int_equal(client_finish(&child), 0);
	again = process_start(argv);
	assert_non_null(strstr(process_line(again.err), "the server does not expect this token"));
	assert_int_equal(process_finish(&again), 3);
	assert_int_equal(client_finish(&parent), 0);
}

/* ---- the end ---- */

static void
test_closed(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child, below, other;

	child = talk_child(&parent, child_named("a"), NULL);
	below = talk_child(&child, child_named("b"), NULL);
	other = talk_child(&parent, child_named("b"), NULL);
	talk_write(&below, "", "f");
	talk_expect(&below, "", "run_command",
	    json_pack("{s:s, s:b}", "command", "exec sleep 4321", "background", 1));
	for (int ms = 0; family_count(getpid(), "sleep", NULL) == 0; ms++) {
		assert_true(ms < PATIENCE_MS);
		usleep(1000);
	}
	talk_expect(&parent, "", "close_child", child_named("a"));
	/* Everything that the child, and its own child, started has ended too. */
	assert_int_equal(family_count(getpid(), "sleep", NULL), 0);
	ends_with(&child, 0, "koda-sandbox: the agent that opened this session has closed it");
	ends_with(&below, 0, "koda-sandbox: the agent that opened this session has ended");
	talk_write(&other, "", "g");
	/* The name is free again. */
	child = talk_child(&parent, child_named("a"), NULL);
	talk_write(&child, "", "h");
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&other), 0);
	assert_int_equal(client_finish(&parent), 0);
}

static void
test_ends_with_its_parent(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child, below;

	child = talk_child(&parent, child_named("a"), NULL);
	below = talk_child(&child, child_named("b"), NULL);
	assert_int_equal(client_finish(&child), 0);
	ends_with(&below, 0, "koda-sandbox: the agent that opened this session has ended");
	child = talk_child(&parent, child_named("a"), NULL);
	assert_int_equal(client_finish(&parent), 0);
	assert_null(receive(&child));
	assert_int_equal(client_finish(&child), 0);
}

/* The program that the child's client started is killed: nothing else would end the session. */
static void
test_program_killed(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;

	child = talk_child(&parent, child_named("a"), NULL);
	talk_write(&child, "", "f");
	kill(child.p.pid, SIGKILL);
	assert_null(receive(&child));
	free(child.buf);
	close(child.p.in);
	child.p.in = -1;
	assert_int_equal(process_wait(&child.p), 128 + SIGKILL);
	talk_expect(&parent, "invalid", "close_child", child_named("a"));
	assert_int_equal(client_finish(&parent), 0);
}

/* A child whose client does not read is not waited for, and takes no more than its share. */
static void
test_does_not_read(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;
	char *large = malloc(200001);
	json_int_t last = 0;

	assert_non_null(large);
	memset(large, 'x', 200000);
	large[200000] = '\0';
	proof_put(in_project("large"), large);
	child = talk_child(&parent, child_named("a"), NULL);
	for (int i = 0; i < 64; i++)
		last = request_tool(&child, "read_file",
		    json_pack("{s:s, s:s}", "path", "large", "unit", "bytes"));
	for (int i = 0; i < 50; i++)
		talk_write(&parent, "", "f");
	/* The client gets everything when it reads at last. */
	json_decref(talk_result(&child, last));
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
	free(large);
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, test_##t, talk_set_up, talk_tear_down, NULL                                    \
	}

/* A child of a session in a draft has a draft of its own, which its parent decides on after it. */
static void
test_drafts(void **state)
{
	struct client parent = talk_start((const char *[]){ talk_program(), "mcp", "--root",
					      talk_project, "--mode", "auto", "--draft", NULL },
			  NULL),
		      child = talk_child(&parent, json_pack("{s:s}", "name", "a"), NULL);
	char id[64];
	json_t *diff;

	talk_write(&child, "", "made");
	assert_false(proof_exists(proof_path("%.*s/made", PATH_MAX - 64, talk_project)));
	diff = talk_tool(&child, "draft_diff", json_object());
	snprintf(id, sizeof(id), "%s", string_at(diff, "structuredContent.draft"));
	json_decref(diff);
	/* Not while the child works in it. */
	talk_expect(&child, "", "read_file", json_pack("{s:s}", "path", "made"));
	talk_expect(&parent, "conflict", "draft_apply", json_pack("{s:s}", "draft", id));
	talk_expect(&parent, "io", "read_file", json_pack("{s:s}", "path", "made"));
	assert_int_equal(client_finish(&child), 0);
	talk_expect(&parent, "", "draft_apply", json_pack("{s:s}", "draft", id));
	assert_true(proof_exists(proof_path("%.*s/made", PATH_MAX - 64, talk_project)));
	assert_int_equal(client_finish(&parent), 0);
}

static const json_t *
told(const json_t *result, const char *key)
{
	return json_object_get(json_object_get(result, "structuredContent"), key);
}

/* Closes the child, and returns the id of the draft that it leaves; "": none. */
static const char *
close_for_draft(struct client *parent, struct client *child, const char *name)
{
	static char id[64];
	json_t *closed = talk_tool(parent, "close_child", child_named(name));
	const json_t *drafts = told(closed, "drafts");

	assert_string_equal(talk_code(closed), "");
	assert_true(json_array_size(drafts) <= 1);
	snprintf(id, sizeof(id), "%s",
	    json_array_size(drafts) == 0 ? "" : string_at(json_array_get(drafts, 0), "draft"));
	json_decref(closed);
	assert_int_equal(client_finish(child), 0);
	return id;
}

static void
put(struct client *c, const char *path, const char *content)
{
	talk_expect(c, "", "write_file", json_pack("{s:s, s:s}", "path", path, "content", content));
}

static struct client
child_in_draft(struct client *parent, const char *name)
{
	return talk_child(parent, json_pack("{s:s, s:s}", "name", name, "workspace", "draft"),
	    NULL);
}

/* Children of a session in the project itself that do not see each other's half-done work. */
static void
test_workspace_draft(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), a, b, idle;
	char of_a[64], of_b[64];
	json_t *result;

	proof_put(in_project("both"), "base\n");
	a = child_in_draft(&parent, "a");
	b = child_in_draft(&parent, "b");
	idle = child_in_draft(&parent, "idle");
	put(&a, "both", "a\n");
	put(&a, "only_a", "a\n");
	put(&b, "both", "b\n");
	put(&b, "only_b", "b\n");
	talk_expect(&b, "io", "read_file", json_pack("{s:s}", "path", "only_a"));
	talk_expect(&parent, "io", "read_file", json_pack("{s:s}", "path", "only_a"));
	talk_expect(&idle, "", "run_command", json_pack("{s:s}", "command", "grep -q base both"));
	assert_true(proof_holds(in_project("both"), "base\n"));

	/* None of them is left by a child that works. */
	result = talk_tool(&parent, "list_children", json_object());
	assert_int_equal(json_array_size(told(result, "drafts")), 0);
	assert_int_equal(json_array_size(told(result, "children")), 3);
	for (size_t i = 0; i < 3; i++) {
		const json_t *row = json_array_get(told(result, "children"), i);

		assert_string_equal(string_at(row, "workspace"), "draft");
		assert_non_null(json_object_get(row, "draft"));
	}
	json_decref(result);

	assert_string_equal(close_for_draft(&parent, &idle, "idle"), "");
	snprintf(of_a, sizeof(of_a), "%s", close_for_draft(&parent, &a, "a"));
	snprintf(of_b, sizeof(of_b), "%s", close_for_draft(&parent, &b, "b"));
	result = talk_tool(&parent, "list_children", json_object());
	assert_int_equal(json_array_size(told(result, "drafts")), 2);
	json_decref(result);

	talk_expect(&parent, "", "draft_apply", json_pack("{s:s}", "draft", of_a));
	assert_true(proof_holds(in_project("both"), "a\n"));
	assert_true(proof_holds(in_project("only_a"), "a\n"));
	result = talk_tool(&parent, "draft_apply", json_pack("{s:s}", "draft", of_b));
	assert_int_equal(json_integer_value(told(result, "conflicts")), 1);
	json_decref(result);
	assert_true(proof_holds(in_project("both"), "a\n"));
	assert_true(proof_holds(in_project("only_b"), "b\n"));
	talk_expect(&parent, "", "draft_discard", json_pack("{s:s}", "draft", of_b));
	result = talk_tool(&parent, "list_children", json_object());
	assert_int_equal(json_array_size(told(result, "drafts")), 0);
	json_decref(result);
	assert_int_equal(client_finish(&parent), 0);
}

/* The draft of a child in a subdirectory is one of another root. */
static void
test_workspace_subdirectory(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child, other;
	json_t *diff;
	char id[64];

	make("sub");
	child = talk_child(&parent,
	    json_pack("{s:s, s:s, s:s}", "name", "a", "subdirectory", "sub", "workspace", "draft"),
	    NULL);
	put(&child, "new", "x");
	/* Its brother does not decide on it. */
	other = talk_child(&parent, child_named("b"), NULL);
	snprintf(id, sizeof(id), "%s", close_for_draft(&parent, &child, "a"));
	talk_expect(&other, "invalid", "draft_apply", json_pack("{s:s}", "draft", id));
	diff = talk_tool(&parent, "draft_diff", json_pack("{s:s}", "draft", id));
	assert_int_equal(json_integer_value(told(diff, "total")), 1);
	json_decref(diff);
	assert_false(proof_exists(in_project("sub/new")));
	talk_expect(&parent, "", "draft_apply", json_pack("{s:s}", "draft", id));
	assert_true(proof_holds(in_project("sub/new"), "x"));
	assert_int_equal(client_finish(&other), 0);
	assert_int_equal(client_finish(&parent), 0);
}

/* ---- copies of the project ---- */

#define USER "GIT_CONFIG_GLOBAL=/dev/null git -c user.name=u -c user.email=u@u -C \"$1\" "

static void
make_repository(void)
{
	process_shell("echo base >\"$1/file\"; " USER "init -q -b main; " USER "add .; " USER
		      "commit -q -m base",
	    talk_project, NULL, NULL);
}

static struct client
child_in(struct client *parent, const char *name, const char *workspace)
{
	return talk_child(parent, json_pack("{s:s, s:s}", "name", name, "workspace", workspace),
	    NULL);
}

/* Runs the command line in the home directory of the test, with $1: the project, $2: the program, $3:
 * a text. It fails if it does. */
static void
user_does(const char *script, const char *text)
{
	process_shell(script, talk_project, talk_program(), text);
}

/* What a child did is committed on its branch; a worktree without work goes with its branch. */
static void
test_workspace_worktree(void **state)
{
	struct client parent, child, idle;
	char branch[128];
	json_t *closed;
	const json_t *copy;

	make_repository();
	parent = talk_serve("auto", NULL, NULL);
	child = child_in(&parent, "a", "worktree");
	idle = child_in(&parent, "b", "worktree");
	put(&child, "made", "made\n");
	talk_expect(&child, "", "run_command",
	    json_pack("{s:s}", "command",
		"git add made && git -c user.name=a -c user.email=a@a commit -q -m made"));
	put(&child, "file", "changed\n");
	put(&child, "later", "later\n");
	talk_expect(&idle, "", "run_command", json_pack("{s:s}", "command", "grep -q base file"));
	assert_false(proof_exists(in_project("made")));
	assert_true(proof_holds(in_project("file"), "base\n"));

	closed = talk_tool(&parent, "close_child", child_named("b"));
	assert_int_equal(json_array_size(told(closed, "copies")), 0);
	json_decref(closed);
	assert_int_equal(client_finish(&idle), 0);
	closed = talk_tool(&parent, "close_child", child_named("a"));
	assert_int_equal(json_array_size(told(closed, "copies")), 1);
	assert_int_equal(json_array_size(told(closed, "drafts")), 0);
	copy = json_array_get(told(closed, "copies"), 0);
	assert_string_equal(string_at(copy, "child"), "a");
	assert_string_equal(string_at(copy, "path"), "");
	assert_non_null(strstr(string_at(copy, "hint"), "merge"));
	snprintf(branch, sizeof(branch), "%s", string_at(copy, "branch"));
	assert_int_equal(strncmp(branch, "koda/wt/a-", 10), 0);
	json_decref(closed);
	assert_int_equal(client_finish(&child), 0);
	user_does("[ \"$(" USER "branch --list 'koda/*' | tr -d ' ')\" = \"$3\" ]", branch);
	/* The parent merges it. */
	talk_expect(&parent, "", "run_command",
	    json_pack("{s:s++}", "command", "git merge -q ", branch, ""));
	assert_true(proof_holds(in_project("made"), "made\n"));
	assert_true(proof_holds(in_project("later"), "later\n"));
	assert_true(proof_holds(in_project("file"), "changed\n"));
	assert_int_equal(client_finish(&parent), 0);
}

static void
test_workspace_clone(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;
	char id[64];

	proof_put(in_project("file"), "base\n");
	proof_put(in_project("secret"), "s");
	child = talk_child(&parent,
	    json_pack("{s:s, s:s, s:[s]}", "name", "a", "workspace", "clone", "deny_read",
		"secret"),
	    NULL);
	put(&child, "file", "changed\n");
	talk_expect(&child, "", "run_command",
	    json_pack("{s:s}", "command", "mkdir new && echo x >new/x && [ ! -s secret ]"));
	assert_true(proof_holds(in_project("file"), "base\n"));
	assert_false(proof_exists(in_project("new")));
	snprintf(id, sizeof(id), "%s", close_for_draft(&parent, &child, "a"));
	assert_string_not_equal(id, "");
	talk_expect(&parent, "", "draft_apply", json_pack("{s:s}", "draft", id));
	assert_true(proof_holds(in_project("file"), "changed\n"));
	assert_true(proof_holds(in_project("new/x"), "x\n"));
	assert_true(proof_holds(in_project("secret"), "s"));
	assert_int_equal(client_finish(&parent), 0);
}

static void
test_workspace_refused(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), drafting;

	/* It is not a project of git. */
	talk_expect(&parent, "invalid", "open_child",
	    json_pack("{s:s, s:s}", "name", "a", "workspace", "worktree"));
	talk_expect(&parent, "invalid", "open_child",
	    json_pack("{s:s, s:s, s:s}", "name", "a", "workspace", "clone", "mode", "plan"));
	assert_int_equal(client_finish(&parent), 0);
	make_repository();
	drafting = talk_start((const char *[]){ talk_program(), "mcp", "--root", talk_project,
				  "--mode", "auto", "--draft", NULL },
	    NULL);
	/* Its branch would be in the project itself. */
	talk_expect(&drafting, "policy_denied", "open_child",
	    json_pack("{s:s, s:s}", "name", "a", "workspace", "worktree"));
	user_does("[ -z \"$(" USER "branch --list 'koda/*')\" ]", "");
	assert_int_equal(client_finish(&drafting), 0);
}

/* A branch is a change of the project, for which Safe asks. */
static void
test_worktree_in_safe(void **state)
{
	static const char *const says[] = { "accept", "decline", NULL };

	make_repository();
	for (size_t i = 0; i < N_ELEMENTS(says); i++) {
		struct client parent = talk_serve("safe", NULL, says[i]);
		json_t *args = json_pack("{s:s, s:s}", "name", "a", "workspace", "worktree");

		talk_expect(&parent, i == 0 ? "" : "not_approved", "open_child", args);
		assert_int_equal(parent.asked, says[i] != NULL);
		user_does("[ \"$(" USER "branch --list 'koda/*' | wc -l)\" = $3 ]",
		    i == 0 ? "1" : "0");
		/* Nothing was done in it. */
		assert_int_equal(client_finish(&parent), 0);
		user_does("[ \"$(" USER "branch --list 'koda/*' | wc -l)\" = 0 ]", "");
	}
}

/* The user finds what a killed server has left, and decides on it. */
static void
test_server_killed(void **state)
{
	struct client parent, clone, tree;

	make_repository();
	parent = talk_serve("auto", NULL, NULL);
	clone = child_in(&parent, "c", "clone");
	tree = child_in(&parent, "w", "worktree");
	put(&clone, "cloned", "x");
	put(&tree, "treed", "x");
	user_does("\"$2\" --root \"$1\" drafts | grep -q 'clone of c, .*, in use'", "");
	kill(parent.p.pid, SIGKILL);
	free(parent.buf);
	close(parent.p.in);
	parent.p.in = -1;
	assert_int_equal(process_wait(&parent.p), 128 + SIGKILL);
	assert_null(receive(&clone));
	assert_null(receive(&tree));
	client_finish(&clone);
	client_finish(&tree);
	process_wait_all();

	user_does("cd \"$1/..\"; \"$2\" --root \"$1\" drafts >list; "
		  "grep -q 'clone of c, [0-9.]* [KM]iB, kept' list; "
		  "grep -q 'worktree of w, branch koda/wt/w-.*, kept' list; "
		  "grep -q 'git -C .* merge koda/wt/w-' list; "
		  "grep -q 'koda-sandbox draft apply' list; "
		  "\"$2\" --root \"$1\" --json drafts | python3 -c '\n"
		  "import json, sys\n"
		  "rows = {r[\"workspace\"]: r for r in json.load(sys.stdin)[\"copies\"]}\n"
		  "assert len(rows) == 2 and not any(r[\"in_use\"] for r in rows.values())\n"
		  "open(\"clone\", \"w\").write(rows[\"clone\"][\"id\"])\n"
		  "open(\"tree\", \"w\").write(rows[\"worktree\"][\"id\"])\n"
		  "assert rows[\"clone\"][\"bytes\"] > 0 and rows[\"worktree\"][\"branch\"]'",
	    "");
	/* On a worktree git decides; on a clone what decides on drafts does. */
	user_does(
	    "cd \"$1/..\"; s=0; \"$2\" --root \"$1\" draft diff \"$(cat tree)\" 2>err || s=$?; "
	    "[ $s = 1 ]; grep -q 'worktree' err; grep -q 'git -C' err; "
	    "s=0; \"$2\" --root \"$1\" draft apply \"$(cat tree)\" 2>err || s=$?; "
	    "[ $s = 1 ]; grep -q 'merge koda/wt/w-' err",
	    "");
	user_does(
	    "cd \"$1/..\"; \"$2\" --root \"$1\" --mode auto draft diff \"$(cat clone)\" >out 2>err; "
	    "grep -q cloned out; id=$(sed -n 's/.*are draft \\([^ ]*\\) now.*/\\1/p' err); "
	    "[ ! -e \"$1/cloned\" ]; \"$2\" --root \"$1\" --mode auto draft apply \"$id\"; "
	    "[ \"$(cat \"$1/cloned\")\" = x ]",
	    "");
	user_does("cd \"$1/..\"; \"$2\" --root \"$1\" --mode auto draft discard \"$(cat tree)\"; "
		  "[ -z \"$(" USER "branch --list 'koda/*')\" ]; "
		  "\"$2\" --root \"$1\" drafts 2>&1 | grep -q 'there are no drafts'; "
		  "rm -f list err out clone tree",
	    "");
}

/* With the programs themselves in one directory, as they are installed, and not links to them. */
static int
install(void **state)
{
	talk_install(state);
	process_shell("cd \"$1/libexec/koda-sandbox\"; for f in *; do "
		      "cp --remove-destination \"$(readlink -f \"$f\")\" \"$f\"; done",
	    talk_dir, NULL, NULL);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(subdirectory),
		TEST(denied_paths),
		TEST(network),
		TEST(safe_below_auto),
		TEST(asked_of_its_own_client),
		TEST(remembers_for_itself),
		TEST(worktree),
		TEST(refused),
		TEST(limits),
		TEST(token_twice),
		TEST(token_looked_at),
		TEST(closed),
		TEST(ends_with_its_parent),
		TEST(program_killed),
		TEST(does_not_read),
		TEST(drafts),
		TEST(workspace_draft),
		TEST(workspace_subdirectory),
		TEST(workspace_worktree),
		TEST(workspace_clone),
		TEST(workspace_refused),
		TEST(worktree_in_safe),
		TEST(server_killed),
	};

	return cmocka_run_group_tests_name("mcp_children", tests, install, talk_uninstall);
}
