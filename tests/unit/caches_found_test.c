/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/caches/caches.c: which caches are found. The host's environment decides, so each case has
 * its own.
 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/caches/cache_place.h"
#include "host/caches/caches.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define VARIABLES_MAX 4

static char home[PATH_MAX];
static struct policy_list writable;

static void
make(const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", home, name);
	for (char *p = path + strlen(home) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	assert_int_equal(mkdir(path, 0755), 0);
}

static int
set_up(void **state)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/caches.XXXXXX", getenv("TMPDIR"));
	assert_non_null(mkdtemp(dir));
	assert_non_null(realpath(dir, home));
	for (const struct cache_row *row = cache_rows; row->path[0] != '\0'; row++)
		if (row->variable != NULL)
			unsetenv(row->variable);
	return 0;
}

static int
tear_down(void **state)
{
	char line[PATH_MAX + 16];

	snprintf(line, sizeof(line), "rm -rf '%s'", home);
	return system(line) == 0 ? 0 : -1; /* NOLINT(cert-env33-c): a directory of our own */
}

static void
find(struct caches *ret)
{
	struct koda_error err = { 0 };

	if (caches_find(home, &writable, ret, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < ret->n; i++) {
		char path[2 * PATH_MAX];

		assert_int_equal(ret->v[i].elsewhere, !path_is_inside(ret->v[i].path, home));
		if (ret->v[i].elsewhere)
			continue;
		snprintf(path, sizeof(path), "%s/%s", home, ret->v[i].name);
		assert_string_equal(ret->v[i].path, path);
	}
}

static bool
found(const struct caches *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].name, name) == 0)
			return true;
	return false;
}

static void
only_directories_of_this_user_that_lead_nowhere(void **state)
{
	cleanup(caches_done) struct caches c = { 0 }, none = { 0 };
	char path[2 * PATH_MAX];

	make(".cargo");
	make(".m2");
	make(".m2/repository");
	make("elsewhere");
	snprintf(path, sizeof(path), "%s/.npm", home);
	assert_int_equal(symlink("/etc", path), 0);
	snprintf(path, sizeof(path), "%s/.cache", home);
	assert_int_equal(symlink("elsewhere", path), 0);
	snprintf(path, sizeof(path), "%s/.gradle", home);
	assert_int_equal(close(creat(path, 0644)), 0);
	find(&c);
	assert_int_equal(c.n, 2);
	assert_true(found(&c, ".cargo"));
	assert_true(found(&c, ".m2/repository"));

	assert_int_equal(caches_find("", &writable, &none, NULL), 0);
	assert_int_equal(none.n, 0);
	assert_int_equal(caches_find("/no/such/home", &writable, &none, NULL), 0);
	assert_int_equal(none.n, 0);
	assert_int_equal(none.n_missing, 0);
}

static void
where_a_variable_says(void **state)
{
	cleanup(caches_done) struct caches c = { 0 }, out = { 0 };
	char path[2 * PATH_MAX];

	make("gopath/pkg/mod");
	make("gopath/pkg/sumdb");
	make("xdg");
	make("xdg/go");
	snprintf(path, sizeof(path), "%s/gopath", home);
	assert_int_equal(setenv("GOPATH", path, 1), 0);
	snprintf(path, sizeof(path), "%s/xdg", home);
	assert_int_equal(setenv("XDG_CACHE_HOME", path, 1), 0);
	/* Inside XDG_CACHE_HOME. */
	snprintf(path, sizeof(path), "%s/xdg/go", home);
	assert_int_equal(setenv("GOMODCACHE", path, 1), 0);
	find(&c);
	assert_int_equal(c.n, 3);
	assert_true(found(&c, "gopath/pkg/mod"));
	assert_true(found(&c, "gopath/pkg/sumdb"));
	assert_true(found(&c, "xdg"));

	assert_int_equal(setenv("XDG_CACHE_HOME", "/usr", 1), 0);
	assert_int_equal(setenv("GOMODCACHE", home, 1), 0);
	assert_int_equal(setenv("GOPATH", "relative", 1), 0);
	find(&out);
	assert_int_equal(out.n, 0);
}

static bool
missing(const struct caches *c, const char *path)
{
	for (size_t i = 0; i < c->n_missing; i++)
		if (strcmp(c->missing[i]->path, path) == 0)
			return true;
	return false;
}

static void
those_that_are_not_there_and_nobody_moved(void **state)
{
	cleanup(caches_done) struct caches c = { 0 }, moved = { 0 };
	char path[2 * PATH_MAX];

	make(".cargo");
	snprintf(path, sizeof(path), "%s/.npm", home);
	assert_int_equal(symlink("elsewhere", path), 0);
	find(&c);
	assert_int_equal(c.n_missing, 2);
	assert_true(missing(&c, ".cache"));
	assert_true(missing(&c, "go/pkg/mod"));

	assert_int_equal(setenv("GOPATH", "/data/go", 1), 0);
	assert_int_equal(setenv("XDG_CACHE_HOME", "/data/cache", 1), 0);
	find(&moved);
	assert_int_equal(moved.n_missing, 0);
}

static bool
found_at(const struct caches *c, const char *dir, const char *name)
{
	char path[4 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].path, path) == 0)
			return true;
	return false;
}

static void
set_below(const char *variable, const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", home, name);
	assert_int_equal(setenv(variable, path, 1), 0);
}

static void
link_below(const char *to, const char *name)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", home, name);
	assert_int_equal(symlink(to, path), 0);
}

/* The project is in the home directory, or is the home directory. A cache inside
 * it is private, whether it exists or not. */
static void
in_what_commands_write(void **state)
{
	cleanup(caches_done) struct caches c = { 0 }, all = { 0 };
	char project[PATH_MAX + 16], *in_project[] = { project }, *in_home[] = { home };

	make("p");
	make("p/npm");
	make(".m2");
	snprintf(project, sizeof(project), "%s/p", home);
	link_below("p/npm", ".npm");
	link_below("p/deep/../down/cache", ".cache");
	set_below("CARGO_HOME", "p/tools/cargo//");
	set_below("GOPATH", "p/go:/other");
	writable = (struct policy_list){ .v = in_project, .n = 1 };
	find(&c);
	assert_true(found(&c, "p/npm"));
	assert_true(found(&c, "p/down/cache"));
	assert_true(found(&c, "p/tools/cargo"));
	assert_true(found(&c, "p/go/pkg/mod"));
	assert_true(found(&c, "p/go/pkg/sumdb"));
	assert_int_equal(c.n, 5);
	assert_null(c.root);

	writable = (struct policy_list){ .v = in_home, .n = 1 };
	find(&all);
	assert_true(found(&all, "p/npm"));
	assert_true(found(&all, ".m2/repository"));
	assert_true(found(&all, ".gradle"));
	assert_int_equal(all.n_missing, 0);
	writable = (struct policy_list){ 0 };
}

/* Each path is absolute; a missing path has no links. */
static void
where_a_path_leads(void **state)
{
	static const struct {
		const char *path, *leads, *way;
	} ways[] = {
		{ "dir", "dir", "" },
		{ "dir/./", "dir", "" },
		{ "none/a/b", "none/a/b", "" },
		{ "none/../link", "dir", "link" },
		{ "none/a/../../link/x", "dir/x", "link" },
		{ "link/../other", "other", "link" },
		{ "two/x", "dir/x", "two" },
		{ "dangling", "gone/below", "dangling" },
		{ "dangling/x", "gone/below/x", "dangling" },
		{ "dangling/../../link", "dir", "dangling" },
		{ "round", NULL, "round" },
		{ "file/x", NULL, "file" },
	};
	char path[2 * PATH_MAX], want[2 * PATH_MAX], *v[] = { home };
	const struct policy_list list = { .v = v, .n = 1 };
	struct cache_place place;

	make("dir");
	link_below("dir", "link");
	link_below("./link", "two");
	link_below("gone/here/../below", "dangling");
	link_below("round", "round");
	snprintf(path, sizeof(path), "%s/file", home);
	assert_int_equal(close(creat(path, 0644)), 0);
	for (size_t i = 0; i < 2 * N_ELEMENTS(ways); i++) {
		const char *known = i % 2 == 0 ? home : "/", *leads = ways[i / 2].leads;

		snprintf(path, sizeof(path), "%s/%s", home, ways[i / 2].path);
		assert_int_equal(cache_place_find(path, known, &list, &place),
		    leads == NULL ? -1 : 0);
		snprintf(want, sizeof(want), "%s/%s", home, leads != NULL ? leads : "");
		if (leads != NULL)
			assert_string_equal(place.path, want);
		snprintf(want, sizeof(want), "%s/%s", home, ways[i / 2].way);
		assert_string_equal(place.way, ways[i / 2].way[0] != '\0' ? want : "");
	}
	assert_int_equal(cache_place_find("/none/../..", "/", &list, &place), 0);
	assert_string_equal(place.path, "/");
	assert_int_equal(cache_place_find("/nothing/../etc", "/", &list, &place), 0);
	assert_string_equal(place.path, "/etc");
	assert_int_equal(cache_place_find("relative", "/", &list, &place), -1);
}

static void
elsewhere_and_as_the_root(void **state)
{
	cleanup(caches_done) struct caches c = { 0 }, root = { 0 }, around = { 0 };
	char project[2 * PATH_MAX], *in_project[] = { project };
	const char *end = strrchr(home, '/');

	make(".npm");
	snprintf(project, sizeof(project), "%.*s/p-%s", (int)(end - home), home, end + 1);
	assert_int_equal(mkdir(project, 0755), 0);
	writable = (struct policy_list){ .v = in_project, .n = 1 };
	/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.strcpy): there is room */
	strcat(project, "/cache");
	assert_int_equal(setenv("XDG_CACHE_HOME", project, 1), 0);
	*strrchr(project, '/') = '\0';
	/* NOLINTEND(clang-analyzer-security.insecureAPI.strcpy) */
	find(&c);
	assert_true(found_at(&c, project, "cache"));
	assert_true(found(&c, ".npm"));
	assert_int_equal(c.n, 2);

	/* The project itself cannot be a private cache; a directory in it can. */
	assert_int_equal(setenv("CARGO_HOME", project, 1), 0);
	find(&root);
	assert_string_equal(root.root, project);
	assert_true(found_at(&root, project, "cache"));
	assert_int_equal(root.n, 2);

	/* A cache that contains the project is left out. */
	unsetenv("CARGO_HOME");
	set_below("XDG_CACHE_HOME", ".npm");
	snprintf(project, sizeof(project), "%s/.npm/clone", home);
	find(&around);
	assert_int_equal(around.n, 0);
	assert_null(around.root);
	writable = (struct policy_list){ 0 };
	snprintf(project, sizeof(project), "%.*s/p-%s", (int)(end - home), home, end + 1);
	assert_int_equal(rmdir(project), 0);
}

static void
what_is_no_directory_stays(void **state)
{
	cleanup(policy_done) struct policy p;
	struct policy_list *list = &p.list[KODA_DENY_WRITE_WITHIN_ALLOW];
	char path[2 * PATH_MAX], other[2 * PATH_MAX];
	struct koda_error err = { 0 };

	policy_init(&p);
	make("p");
	link_below("/etc", ".npm");
	make("dot");
	link_below("dot", ".m2");
	link_below(".deno", ".deno");
	snprintf(path, sizeof(path), "%s/.ivy2", home);
	assert_int_equal(close(creat(path, 0644)), 0);
	snprintf(path, sizeof(path), "%s/.gradle", home);
	assert_int_equal(close(creat(path, 0644)), 0);
	set_below("CARGO_HOME", "p/cargo");
	snprintf(other, sizeof(other), "%s/p", home);
	assert_int_equal(caches_strange(home, other, list, &err), 0);
	assert_int_equal(list->n, 0);
	assert_int_equal(caches_strange(home, home, list, &err), 0);
	assert_int_equal(list->n, 5);
	for (size_t i = 0; i < list->n; i++)
		assert_true(strcmp(list->v[i] + strlen(home), "/.npm") == 0 ||
		    strcmp(list->v[i] + strlen(home), "/.m2") == 0 ||
		    strcmp(list->v[i] + strlen(home), "/.deno") == 0 ||
		    strcmp(list->v[i] + strlen(home), "/.ivy2") == 0 ||
		    strcmp(list->v[i], path) == 0);
}

static void
the_table_is_well_formed(void **state)
{
	for (const struct cache_row *row = cache_rows; row->path[0] != '\0'; row++) {
		char below[PATH_MAX];

		assert_int_not_equal(row->path[0], '/');
		assert_int_not_equal(row->path[strlen(row->path) - 1], '/');
		assert_int_equal(row->variable != NULL, row->behind != NULL);
		snprintf(below, sizeof(below), "%s/x", row->path);
		assert_true(caches_hold(below));
		assert_true(row->spare == NULL || row->variable != NULL);
		assert_null(row->fixed[N_ELEMENTS(row->fixed) - 1]);
	}
	assert_true(caches_hold(".cargo/bin"));
	assert_false(caches_hold(".cargo"));
	assert_false(caches_hold(".cargo-old/bin"));
	assert_false(caches_hold(".m2/settings.xml"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_directories_of_this_user_that_lead_nowhere,
		    set_up, tear_down),
		cmocka_unit_test_setup_teardown(where_a_variable_says, set_up, tear_down),
		cmocka_unit_test_setup_teardown(those_that_are_not_there_and_nobody_moved, set_up,
		    tear_down),
		cmocka_unit_test_setup_teardown(in_what_commands_write, set_up, tear_down),
		cmocka_unit_test_setup_teardown(where_a_path_leads, set_up, tear_down),
		cmocka_unit_test_setup_teardown(elsewhere_and_as_the_root, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_directory_stays, set_up, tear_down),
		cmocka_unit_test(the_table_is_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
