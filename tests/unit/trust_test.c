#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "host/defaults.h"
#include "host/trust.h"
#include "shared/access.h"
#include "shared/cleanup.h"

static char root[PATH_MAX]; /* canonical */

static int
make_root(void **state)
{
	char name[PATH_MAX];
	const char *tmp = getenv("TMPDIR");

	snprintf(name, sizeof(name), "%s/trust.XXXXXX", tmp != NULL ? tmp : "/tmp");
	return mkdtemp(name) != NULL && realpath(name, root) != NULL ? 0 : -1;
}

static int
remove_root(void **state)
{
	return rmdir(root);
}

static void
derive(enum koda_mode mode, const char *where, struct policy *ret)
{
	struct koda_error err = { 0 };

	if (policy_for_agent(mode, where, ret, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(policy_check(ret, NULL), 0);
}

static const struct {
	const char *label;
	enum koda_mode mode;
	uint8_t depth;
	unsigned effective;
	enum koda_trust trust;
	bool writes, network;
} modes[] = {
	{ "dials: plan", KODA_PLAN, 3, 8, KODA_TRUST_FORBID, false, false },
	{ "dials: safe", KODA_SAFE, 5, 8, KODA_TRUST_REQUIRE, true, true },
	{ "dials: auto", KODA_AUTO, 10, 10, KODA_TRUST_AUTO, true, true },
};

static void
dials(void **state)
{
	size_t i = (uintptr_t)*state, n = 0;
	cleanup(policy_done) struct policy p;
	const struct policy_list *l;
	char git[PATH_MAX + 16];

	derive(modes[i].mode, root, &p);
	assert_int_equal(p.depth, modes[i].depth);
	assert_int_equal(policy_effective_depth(&p), modes[i].effective);
	assert_int_equal(p.trust, modes[i].trust);

	l = &p.list[KODA_ALLOW_WRITE];
	assert_true(l->present);
	assert_int_equal(l->n, modes[i].writes ? 1 : 0);
	if (modes[i].writes)
		assert_string_equal(l->v[0], root);

	l = &p.list[KODA_DENY_WRITE_WITHIN_ALLOW];
	assert_int_equal(l->n, 2);
	snprintf(git, sizeof(git), "%s/.git/hooks", root);
	assert_string_equal(l->v[0], git);
	snprintf(git, sizeof(git), "%s/.git/config", root);
	assert_string_equal(l->v[1], git);

	while (default_domains[n] != NULL)
		n++;
	l = &p.list[KODA_ALLOWED_DOMAINS];
	assert_true(l->present);
	assert_int_equal(l->n, modes[i].network ? n : 0);

	assert_false(p.list[KODA_DENY_READ].present);
	assert_false(p.list[KODA_ALLOW_READ_WITHIN_DENY].present);
	assert_false(p.list[KODA_DENIED_DOMAINS].present);
	for (size_t f = 0; f < KODA_N_FLAGS; f++)
		assert_int_equal(p.flag[f], f == KODA_ALLOW_LOCAL_BINDING);
	assert_int_equal(p.limit[KODA_WALL_TIME_SECS].value, 60);
	assert_int_equal(p.limit[KODA_MAX_PROCESSES].value, 1024);
	assert_int_equal(p.limit[KODA_MAX_FILE_BYTES].value, 4294967296);
	assert_int_equal(p.limit[KODA_MAX_OPEN_FDS].value, 4096);
	assert_int_equal(p.limit[KODA_MAX_OUTPUT_BYTES].value, 2097152);
	assert_false(p.limit[KODA_CPU_TIME_SECS].set);
	assert_false(p.limit[KODA_MAX_RSS_BYTES].set);
	assert_null(p.ca_bundle);
}

static void
depth_rises_strictly_from_plan_to_auto(void **state)
{
	cleanup(policy_done) struct policy plan, safe, full;

	derive(KODA_PLAN, root, &plan);
	derive(KODA_SAFE, root, &safe);
	derive(KODA_AUTO, root, &full);
	assert_true(plan.depth < safe.depth && safe.depth < full.depth);
}

static void
the_root_is_made_canonical(void **state)
{
	cleanup(policy_done) struct policy p;
	char spelled[PATH_MAX + 16], link[PATH_MAX + 16];

	snprintf(spelled, sizeof(spelled), "%s/./../%s//", root, strrchr(root, '/') + 1);
	derive(KODA_SAFE, spelled, &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], root);
	policy_done(&p);

	snprintf(link, sizeof(link), "%s.link", root);
	assert_int_equal(symlink(root, link), 0);
	derive(KODA_SAFE, link, &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], root);
	assert_int_equal(unlink(link), 0);
}

static void
a_root_that_does_not_exist_is_named_as_written(void **state)
{
	cleanup(policy_done) struct policy p;

	derive(KODA_AUTO, "/no/such/root", &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], "/no/such/root");
	assert_string_equal(p.list[KODA_DENY_WRITE_WITHIN_ALLOW].v[1], "/no/such/root/.git/config");
}

static void
the_file_system_as_root(void **state)
{
	cleanup(policy_done) struct policy p;

	derive(KODA_AUTO, "/", &p);
	assert_string_equal(p.list[KODA_ALLOW_WRITE].v[0], "/");
	assert_string_equal(p.list[KODA_DENY_WRITE_WITHIN_ALLOW].v[0], "/.git/hooks");
}

static const struct {
	const char *label;
	enum koda_mode mode;
	const char *root;
} bad[] = {
	{ "refused: no root", KODA_SAFE, NULL },
	{ "refused: empty root", KODA_SAFE, "" },
	{ "refused: relative root that is not there", KODA_SAFE, "no/such/root" },
	{ "refused: mode 0", (enum koda_mode)0, "/" },
	{ "refused: mode 4", (enum koda_mode)4, "/" },
	{ "refused: mode -1", (enum koda_mode) - 1, "/" },
};

static void
bad_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_error err = { 0 };
	struct policy p;

	assert_int_equal(policy_for_agent(bad[i].mode, bad[i].root, &p, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_true(err.message[0] != '\0');
}

static void
default_domains_are_rules(void **state)
{
	for (size_t i = 0; default_domains[i] != NULL; i++) {
		char copy[256];

		assert_int_equal(policy_domain_check(default_domains[i], NULL), 0);
		snprintf(copy, sizeof(copy), "%s", default_domains[i]);
		policy_domain_normalise(copy);
		assert_string_equal(copy, default_domains[i]);
	}
}

static void
what_a_mode_reaches(void **state)
{
	cleanup(policy_done) struct policy plan, safe;

	derive(KODA_PLAN, root, &plan);
	derive(KODA_SAFE, root, &safe);
	assert_false(access_host(&plan, "github.com", 443));
	assert_true(access_host(&safe, "github.com", 443));
	assert_true(access_host(&safe, "raw.githubusercontent.com", 443));
	assert_false(access_host(&safe, "github.com", 22));
	assert_false(access_host(&safe, "gist.github.com", 443));
	assert_false(access_host(&safe, "example.test", 443));
}

/* A child agent's policy: composed with what its parent has. */
static void
a_child_can_only_narrow(void **state)
{
	cleanup(policy_done) struct policy parent, child, both;
	struct access_subject who = { &both, KODA_AUTO, "" };
	char path[PATH_MAX + 16];

	derive(KODA_SAFE, root, &parent);
	parent.limit[KODA_WALL_TIME_SECS].value = 10;
	assert_int_equal(policy_list_add(&parent.list[KODA_DENY_READ], "/secret", NULL), 0);
	snprintf(path, sizeof(path), "%s/tree", root);
	derive(KODA_AUTO, path, &child);
	assert_int_equal(policy_compose(&parent, &child, &both, NULL), 0);
	assert_string_equal(both.list[KODA_DENY_READ].v[0], "/secret");
	assert_int_equal(both.limit[KODA_WALL_TIME_SECS].value, 10);
	assert_int_equal(both.trust, KODA_TRUST_REQUIRE);
	assert_int_equal(both.depth, 10);
	assert_int_equal(both.list[KODA_ALLOW_WRITE].n, 1);
	assert_string_equal(both.list[KODA_ALLOW_WRITE].v[0], path);
	snprintf(path, sizeof(path), "%s/sibling/x", root);
	assert_false(access_judge(&who, ACCESS_OP_WRITE, path, NULL).allowed);
	policy_done(&both);

	policy_done(&child);
	derive(KODA_PLAN, root, &child);
	assert_int_equal(policy_compose(&parent, &child, &both, NULL), 0);
	assert_int_equal(both.trust, KODA_TRUST_FORBID);
	assert_true(both.list[KODA_ALLOW_WRITE].present);
	assert_int_equal(both.list[KODA_ALLOW_WRITE].n, 0);
	assert_false(access_host(&both, "github.com", 443));
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(depth_rises_strictly_from_plan_to_auto),
		cmocka_unit_test(the_root_is_made_canonical),
		cmocka_unit_test(a_root_that_does_not_exist_is_named_as_written),
		cmocka_unit_test(the_file_system_as_root),
		cmocka_unit_test(default_domains_are_rules),
		cmocka_unit_test(what_a_mode_reaches),
		cmocka_unit_test(a_child_can_only_narrow),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(modes) + N_ELEMENTS(bad)];
	size_t n = 0;

	for (; n < N_ELEMENTS(single); n++)
		tests[n] = single[n];
	for (uintptr_t i = 0; i < N_ELEMENTS(modes); i++)
		tests[n++] = (struct CMUnitTest){ modes[i].label, dials, NULL, NULL, (void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(bad); i++)
		tests[n++] = (struct CMUnitTest){ bad[i].label, bad_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("trust", tests, make_root, remove_root);
}
