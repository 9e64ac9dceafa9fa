/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a server lives and ends: what `koda-sandbox top` shows of it, and that nothing is left of it,
 * however it ends.
 */
#include <sys/prctl.h>

#include "tests/kit/mcp_talk.h"

/*
 * Returns the number of entries of the runtime directory, or -1 if it does not exist, as it should
 * be after the end.
 */
static int
litter(void)
{
	DIR *d = opendir(proof_path("%.*s/koda-sandbox", PATH_MAX - 64, dir));
	const struct dirent *e;
	int n = 0;

	if (d == NULL)
		return -1;
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* ---- top ---- */

static json_t *
top(void)
{
	struct process p =
	    process_start((const char *[]){ talk_program(), "top", "--once", "--json", NULL });
	struct client c = { .p = p };
	json_t *ret = receive(&c);

	assert_non_null(ret);
	assert_int_equal(client_finish(&c), 0);
	return ret;
}

static const json_t *
row(const json_t *server, const char *list, const char *key, const char *value)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(server, list), i, one)
	{
		const char *s = json_string_value(json_object_get(one, key));

		if (s != NULL && strcmp(s, value) == 0)
			return one;
	}
	fail_msg("no %s in %s has the %s '%s'", "row", list, key, value);
	return NULL;
}

static json_int_t
number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void
test_top(void **state)
{
	struct client parent = talk_serve("auto", NULL, NULL), child;
	const json_t *server, *session;
	json_t *all;

	child = talk_child(&parent, json_pack("{s:s, s:s}", "name", "a", "mode", "plan"), NULL);
	talk_write(&parent, "", "f");
	talk_write(&parent, "policy_denied", "/etc/f");
	talk_write(&child, "policy_denied", "f");
	all = top();
	assert_int_equal(json_array_size(json_object_get(all, "servers")), 1);
	server = json_array_get(json_object_get(all, "servers"), 0);
	assert_int_equal(number(server, "pid"), parent.p.pid);
	session = row(server, "sessions", "name", "parent");
	assert_string_equal(json_string_value(json_object_get(session, "root")), talk_project);
	assert_string_equal(json_string_value(json_object_get(session, "mode")), "auto");
	assert_false(json_is_true(json_object_get(session, "child")));
	assert_int_equal(number(session, "slots"), 1);
	assert_int_equal(number(session, "workers"), 1);
	assert_int_equal(number(session, "refusals"), 1);
	session = row(server, "sessions", "name", "parent/a");
	assert_true(json_is_true(json_object_get(session, "child")));
	assert_string_equal(json_string_value(json_object_get(session, "mode")), "plan");
	/* The figure is for the process outside the sandbox. */
	assert_true(number(row(server, "workers", "session", "parent"), "rss_kib") > 0);
	assert_true(number(row(server, "workers", "session", "parent/a"), "rss_kib") > 0);
	assert_int_equal(number(row(server, "tools", "name", "write_file"), "calls"), 3);
	assert_true(number(row(server, "tools", "name", "write_file"), "p50_us") > 0);
	assert_int_equal(number(json_object_get(server, "numbers"), "child_refusals"), 0);
	json_decref(all);
	assert_int_equal(client_finish(&child), 0);
	assert_int_equal(client_finish(&parent), 0);
	all = top();
	assert_int_equal(json_array_size(json_object_get(all, "servers")), 0);
	json_decref(all);
}

/* ---- the end ---- */

/*
 * Starts a parent, children of it and of each other, a call that waits for an answer, and a client
 * that does not read.
 */
static void
populate(struct client *parent, struct client *children, size_t n)
{
	struct client *above = parent;
	char name[16];

	*parent = talk_serve("safe", NULL, "");
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "c%zu", i);
		children[i] = talk_child(above, json_pack("{s:s}", "name", name), "");
		above = i == 0 ? &children[0] : parent;
		talk_expect(&children[i], "", "list_directory", json_object());
	}
	request_tool(parent, "write_file", json_pack("{s:s, s:s}", "path", "f", "content", "x"));
	json_decref(receive(parent));
	for (int i = 0; i < 100; i++)
		request_tool(&children[n - 1], "list_directory", json_object());
}

static void
end_by(int signo)
{
	struct client parent, children[6];
	double since;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	populate(&parent, children, N_ELEMENTS(children));
	assert_int_equal(litter(), 3);
	since = proof_seconds();
	if (signo != 0) {
		assert_int_equal(kill(parent.p.pid, signo), 0);
	} else {
		close(parent.p.in);
		parent.p.in = -1;
	}
	talk_all_gone(since);
	assert_int_equal(litter(), -1);
	assert_false(proof_exists(proof_path("%.*s/f", PATH_MAX - 64, talk_project)));
	client_forget(&parent);
	for (size_t i = 0; i < N_ELEMENTS(children); i++)
		client_forget(&children[i]);
}

static void
test_sigterm(void **state)
{
	end_by(SIGTERM);
}

static void
test_sigint(void **state)
{
	end_by(SIGINT);
}

static void
test_end_of_input(void **state)
{
	end_by(0);
}

/*
 * SIGKILL leaves no process to clean up; whatever was running ends all the same, and the next
 * server sweeps.
 */
static void
test_sigkill(void **state)
{
	struct client parent, children[3];

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	populate(&parent, children, N_ELEMENTS(children));
	kill(parent.p.pid, SIGKILL);
	process_wait_all();
	client_forget(&parent);
	for (size_t i = 0; i < N_ELEMENTS(children); i++)
		client_forget(&children[i]);
	assert_int_equal(litter(), 3);
	parent = talk_serve("plan", NULL, NULL);
	assert_int_equal(litter(), 3);
	assert_int_equal(client_finish(&parent), 0);
	assert_int_equal(litter(), -1);
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, test_##t, talk_set_up, talk_tear_down, NULL                                    \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(top),
		TEST(sigterm),
		TEST(sigint),
		TEST(end_of_input),
		TEST(sigkill),
	};

	return cmocka_run_group_tests_name("mcp_life", tests, talk_install, talk_uninstall);
}
