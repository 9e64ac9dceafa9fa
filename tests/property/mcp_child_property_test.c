/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a child may do, its parent may do: random children of random children of a server in
 * each mode, and random questions and operations through the tools. For each thing that a child is
 * told it may do, or does, the test asks its parent about the place where it took effect.
 *
 * KODA_CHILD_DRAWS: how many families for each mode.
 */
#include "tests/kit/mcp_talk.h"
#include "tests/kit/sanitized.h"

#define DRAWS     (SANITIZED ? 12 : 40)
#define QUESTIONS 24
#define DEEP_MAX  2

static const char *const dirs[] = { "a", "a/b", "a/b/c", "d", "d/e", ".git", ".git/hooks",
	".vscode", "a/.git", "a/.git/hooks" };
static const char *const names[] = { ".", "a", "a/b", "a/b/c", "a/b/f", "a/f", "d", "d/e", "d/e/f",
	"d/f", "f", "new", "a/new", "a/b/new/er", "in", "in/f", "in/new", "etc", "etc/passwd",
	"etc/new", "..", "a/../d/f", "a/b/../../f", ".git/config", ".git/hooks/x", "a/.git/hooks/x",
	"a/.git/config", ".vscode/settings.json", "a/.vscode/x", ".envrc", "a/b/c/new", "c/new" };
static const char *const denied[] = { ".", "a", "a/b", "b", "f", "new", "in", "in/f", "etc", "d/e",
	".git/config", "/etc/passwd", "/etc" };
static const char *const elsewhere[] = { "/etc/passwd", "/etc/new", "/tmp/new", "/",
	"/usr/bin/env" };
static const char *const hosts[] = { "github.com", "api.github.com", "codeload.github.com:443",
	"github.com:22", "a.githubusercontent.com", "a.b.githubusercontent.com", "other.example",
	"127.0.0.1", "10.0.0.1:80" };
static const char *const domains[] = { "github.com", "api.github.com", "*.githubusercontent.com",
	"a.githubusercontent.com", "other.example", "*.example", "127.0.0.1", "github.com:22" };

static struct rng rng;
static uint64_t yes, no; /* answers to the children */

#define ONE_OF(list) (list)[rng_below(&rng, N_ELEMENTS(list))]

static bool
chance(unsigned percent)
{
	return rng_below(&rng, 100) < percent;
}

static void
build(void)
{
	process_shell("cd \"$1\" && rm -rf -- * .[!.]*", talk_project, NULL, NULL);
	for (size_t i = 0; i < N_ELEMENTS(dirs); i++)
		proof_mkdir(proof_path("%.*s/%s", PATH_MAX - 64, talk_project, dirs[i]));
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		const char *slash = strrchr(names[i], '/');

		if (names[i][strlen(names[i]) - 1] == 'f' && (slash == NULL || slash[1] == 'f') &&
		    strncmp(names[i], "in", 2) != 0)
			proof_put(proof_path("%.*s/%s", PATH_MAX - 64, talk_project, names[i]),
			    "f");
	}
	(void)!symlink("a/b", proof_path("%.*s/in", PATH_MAX - 64, talk_project));
	/* A child below a/b cannot see this link, which leads to a directory that it could
	 * write. */
	(void)!symlink("../a/b/c", proof_path("%.*s/d/.vscode", PATH_MAX - 64, talk_project));
	(void)!symlink("/etc", proof_path("%.*s/etc", PATH_MAX - 64, talk_project));
}

static const char *
any_path(void)
{
	if (chance(10))
		return ONE_OF(elsewhere);
	if (chance(30))
		return ONE_OF(names); /* below the root, whatever that is */
	return proof_path("%.*s/%s", PATH_MAX - 64, talk_project, ONE_OF(names));
}

/* ---- what explain reports ---- */

struct verdict {
	bool is; /* otherwise the answer was an error */
	bool allowed, asks, command;
	char path[PATH_MAX];
};

static struct verdict
explain(struct client *c, json_t *args)
{
	json_t *result = talk_tool(c, "explain_access", args);
	const json_t *told = json_object_get(result, "structuredContent");
	const char *path = json_string_value(json_object_get(told, "path"));
	struct verdict v = {
		.is = told != NULL,
		.allowed = json_is_true(json_object_get(told, "allowed")),
		.asks = json_is_true(json_object_get(told, "asks")),
		.command =
		    json_is_true(json_object_get(json_object_get(told, "command"), "allowed")),
	};

	snprintf(v.path, sizeof(v.path), "%s", path != NULL ? path : "");
	json_decref(result);
	return v;
}

static struct verdict
explain_path(struct client *c, const char *path, const char *access)
{
	return explain(c, json_pack("{s:s, s:s}", "path", path, "access", access));
}

static void
ask_path(struct client *parent, struct client *child, const char *root)
{
	const char *access = chance(50) ? "read" : "write";
	struct verdict may = explain_path(child, any_path(), access), above;

	/* The child's root is a mount of its sandbox, which no command can replace. */
	if (strcmp(may.path, root) == 0)
		may.command = false;
	if (!may.is || (!may.allowed && !may.command)) {
		no++;
		return;
	}
	yes++;
	above = explain_path(parent, may.path, access);
	if ((may.allowed && !above.allowed) || (may.command && !above.command))
		fail_msg("a child may %s '%s'%s, and its parent may not", access, may.path,
		    may.allowed ? "" : " by a command");
}

static void
ask_host(struct client *parent, struct client *child)
{
	const char *host = ONE_OF(hosts);
	struct verdict may = explain(child, json_pack("{s:s}", "host", host)),
		       above = explain(parent, json_pack("{s:s}", "host", host));

	if (may.allowed || may.asks)
		yes++;
	else
		no++;
	if ((may.allowed && !above.allowed) || (may.asks && !above.asks && !above.allowed))
		fail_msg("a child may reach '%s', and its parent may not", host);
}

/* ---- what a tool does ---- */

static json_t *
content(const char *path)
{
	return json_pack("{s:s, s:s}", "path", path, "content", "f");
}

static void
act(struct client *parent, struct client *child)
{
	static const char *const tools[] = { "read_file", "list_directory", "write_file", "remove",
		"move" };
	const char *tool = ONE_OF(tools), *path = any_path(),
		   *access = strcmp(tool, "read_file") == 0 || strcmp(tool, "list_directory") == 0
	    ? "read"
	    : "write";
	const json_t *told;
	const char *type;
	bool is_link;
	json_t *result = talk_tool(child, tool,
	    strcmp(tool, "write_file") == 0 ? content(path)
		: strcmp(tool, "move") == 0
		? json_pack("{s:s, s:s}", "from", path, "to", any_path())
		: json_pack("{s:s}", "path", path));

	told = json_object_get(result, "structuredContent");
	if (told == NULL) {
		no++;
		json_decref(result);
		return;
	}
	yes++;
	type = json_string_value(json_object_get(told, "type"));
	is_link = type != NULL && strcmp(type, "symlink") == 0;
	for (size_t i = 0; i < 2; i++) {
		const char *where =
		    json_string_value(json_object_get(told, i == 0 ? "path" : "to"));

		/* A question about a link is answered for its target, which does not change. */
		if (where != NULL && !is_link && !explain_path(parent, where, access).allowed)
			fail_msg("a child did %s '%s', and its parent may not", tool, where);
	}
	json_decref(result);
}

/* ---- families ---- */

static json_t *
some(const char *const *from, size_t n)
{
	json_t *ret = json_array();

	for (unsigned i = rng_below(&rng, 3); i > 0; i--)
		json_array_append_new(ret, json_string(from[rng_below(&rng, (unsigned)n)]));
	return ret;
}

static json_t *
wish(unsigned mode)
{
	static const char *const modes[] = { "plan", "safe", "auto" };
	json_t *args = json_pack("{s:s, s:s}", "name", "child", "mode", modes[mode]);

	if (chance(50))
		json_object_set_new(args, "subdirectory", json_string(ONE_OF(dirs)));
	if (chance(50))
		json_object_set_new(args, "deny_read", some(denied, N_ELEMENTS(denied)));
	if (chance(50))
		json_object_set_new(args, "deny_write", some(denied, N_ELEMENTS(denied)));
	if (chance(40))
		json_object_set_new(args, "domains", some(domains, N_ELEMENTS(domains)));
	if (chance(40))
		json_object_set_new(args, "network", json_boolean(chance(50)));
	return args;
}

/* depth: how many more generations may follow. */
static void
family(struct client *parent, unsigned mode, unsigned depth)
{
	const char *says = chance(80) ? "accept" : NULL;
	json_t *args = wish(mode = rng_below(&rng, mode + 1)), *opened;
	struct client child;
	char root[PATH_MAX];

	/* The parent may not see that directory, for example: then use its own root. */
	opened = talk_tool(parent, "open_child", json_incref(args));
	if (talk_code(opened)[0] != '\0') {
		json_object_del(args, "subdirectory");
		json_decref(opened);
		opened = talk_tool(parent, "open_child", json_incref(args));
	}
	snprintf(root, sizeof(root), "%s",
	    json_string_value(
		json_object_get(json_object_get(opened, "structuredContent"), "root")));
	child = talk_start(talk_argv(opened), says);
	json_decref(opened);
	json_decref(args);
	for (unsigned i = 0; i < QUESTIONS; i++) {
		unsigned what = rng_below(&rng, 3);

		if (what == 0)
			ask_path(parent, &child, root);
		else if (what == 1)
			ask_host(parent, &child);
		else
			act(parent, &child);
	}
	if (depth > 0 && chance(40))
		family(&child, mode, depth - 1);
	assert_int_equal(client_finish(&child), 0);
	/* The child ends when its client does, and the parent can observe that only by the name. */
	while (true) {
		json_t *list = talk_tool(parent, "list_children", json_object());
		size_t n = json_array_size(
		    json_object_get(json_object_get(list, "structuredContent"), "children"));

		json_decref(list);
		if (n == 0)
			break;
	}
}

static void
families(unsigned mode, const char *name)
{
	uint64_t draws = proof_number("KODA_CHILD_DRAWS", DRAWS);

	yes = no = 0;
	for (uint64_t i = 0; i < draws; i++) {
		struct client parent;

		build(); /* no sandbox has it in its view now */
		parent = talk_serve(name, NULL, mode == 1 ? "accept" : NULL);
		family(&parent, mode, DEEP_MAX);
		assert_int_equal(client_finish(&parent), 0);
	}
	/* A world where everything or nothing is allowed proves nothing. */
	assert_true(yes > draws && no > draws);
}

static void
test_plan(void **state)
{
	families(0, "plan");
}

static void
test_safe(void **state)
{
	families(1, "safe");
}

static void
test_auto(void **state)
{
	families(2, "auto");
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, test_##t, talk_set_up, talk_tear_down, NULL                                    \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(plan),
		TEST(safe),
		TEST(auto),
	};

	rng.s = proof_seed();
	return cmocka_run_group_tests_name("mcp_child_property", tests, talk_install,
	    talk_uninstall);
}
