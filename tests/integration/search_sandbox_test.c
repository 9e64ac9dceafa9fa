/* SPDX-License-Identifier: Apache-2.0 */
/* Searches of a slot that runs commands: in its kernel sandbox, beside its worker. */
#include "tests/kit/searching.h"

static void
kill_sandbox(struct told *t)
{
	pid_t bwrap;

	if (t->n == 1 && family_count(getpid(), "bwrap", &bwrap) > 0)
		assert_int_equal(kill(bwrap, SIGKILL), 0);
}

static void
sandbox_dies(void **state)
{
	struct koda_search_options o = GREP("^[0-9]", IN("many"), .limit = 1000);
	struct koda_search_result result;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, true);
	put_many(&f);
	told.then = kill_sandbox;
	assert_int_equal(search(f.slot, &o, &result, &err), KODA_OK);
	told.then = NULL;
	assert_int_equal(told.n, 1000);
	fixture_end(&f);
}

/* Only stage2 knows how the process ended; the error is otherwise the same. */
static void
dies_twice(void **state)
{
	struct koda_search_options o = GREP("^[0-9]", IN("many"));
	struct koda_search_result result;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, true);
	put_many(&f);
	next_line = 0;
	kills_left = 100;
	assert_int_equal(koda_search(f.slot, &o, in_order, NULL, &result, &err), -1);
	assert_code(&err, KODA_WORKER);
	assert_string_equal(err.message,
	    "the search process died 2 times during this search (gone)");
	fixture_end(&f);
}

/* In the sandbox a hidden directory is an empty mounted one, and a hole is mounted inside it. */
static void
hole_in_view(void **state)
{
	struct koda_search_options o = { .kind = KODA_SEARCH_GLOB };
	struct koda_policy *policy;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	make_dir(&f, "secret");
	make_dir(&f, "secret/open");
	put_text(&f, "secret/key", "token\n");
	put_text(&f, "secret/open/key", "token\n");
	policy = koda_policy_for_agent(KODA_AUTO, f.root, &err);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_READ, at(&f, "secret"), &err), 0);
	assert_int_equal(koda_policy_add(policy, KODA_ALLOW_READ_WITHIN_DENY, at(&f, "secret/open"),
			     &err),
	    0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	f.options.policy = policy;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect(f.slot, &o, "secret/open/key\n");
	koda_policy_free(policy);
	fixture_end(&f);
}

/* The search runs in the view of the slot's commands: it searches their /tmp. */
static void
one_view(void **state)
{
	const struct koda_command_options run = { .shell = "echo inside > /tmp/made-inside" };
	struct koda_search_options o = GREP("inside", IN("/tmp"));
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, true);
	assert_int_equal(koda_run(f.slot, &run, &r, &err), 0);
	koda_command_result_done(&r);
	expect(f.slot, &o, "made-inside:1:inside[0,6]\n");
	fixture_end(&f);
}

int
main(void)
{
	static char with_commands[] = "y";
	const struct CMUnitTest tests[] = {
		{ "cancelled", cancelled, NULL, NULL, with_commands },
		{ "beside", beside, NULL, NULL, with_commands },
		{ "killed", killed, NULL, NULL, with_commands },
		cmocka_unit_test(sandbox_dies),
		cmocka_unit_test(dies_twice),
		cmocka_unit_test(one_view),
		cmocka_unit_test(hole_in_view),
	};

	return cmocka_run_group_tests_name("search_sandbox", tests, NULL, NULL);
}
