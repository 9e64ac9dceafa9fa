/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/protect/neighbours.c: what the command of another session is planting, according to the
 * journals of a live host and of a killed one.
 */
#include <sys/stat.h>

#include "host/protect/journal.h"
#include "host/protect/neighbours.h"
#include "shared/rules/policy.h"
#include "tests/kit/proof.h"

static char base[PATH_MAX], project[PATH_MAX + 16];

static int
set_up(void **state)
{
	proof_mkdtemp(base);
	snprintf(project, sizeof(project), "%s/project", base);
	return mkdir(project, 0700);
}

static int
tear_down(void **state)
{
	proof_rmtree(base);
	return 0;
}

static Koda__Place
place_at(char path[2 * PATH_MAX], const char *name, Koda__PlaceKind kind, uint64_t ino)
{
	Koda__Place p = KODA__PLACE__INIT;

	snprintf(path, 2 * PATH_MAX, "%s/%s", project, name);
	p.kind = kind;
	p.type = KODA__FILE_TYPE__FILE_DIRECTORY;
	p.path = (ProtobufCBinaryData){ strlen(path), (uint8_t *)path };
	p.ino = ino;
	return p;
}

/* Reports which of four places are planted: a known place, a repository's file, a name at some
 * depth, another file. */
static void
look(const struct state *own, bool planted[4])
{
	static char path[4][2 * PATH_MAX];
	Koda__Place place[4] = {
		place_at(path[0], "old/.vscode", KODA__PLACE_KIND__PLACE_NAME, 7),
		place_at(path[1], "new/.git", KODA__PLACE_KIND__PLACE_GIT_DIR, 8),
		place_at(path[2], "deep/.vscode", KODA__PLACE_KIND__PLACE_NAME, 9),
		place_at(path[3], "deep/.idea", KODA__PLACE_KIND__PLACE_NAME, 10),
	};
	Koda__Place *list[4] = { &place[0], &place[1], &place[2], &place[3] };

	memset(planted, 0, 4 * sizeof(*planted));
	neighbours_planted(own, list, 4, planted);
}

static void
live_and_killed(void **state)
{
	char path[2 * PATH_MAX], own_path[PATH_MAX + 16];
	Koda__Place known = place_at(path, "old/.vscode", KODA__PLACE_KIND__PLACE_NAME, 7);
	Koda__Place *list[1] = { &known };
	const char *dir = project;
	struct policy policy;
	struct journal_input in = { .root = project,
		.policy = &policy,
		.dir = &dir,
		.n_dirs = 1,
		.place = list,
		.n_places = 1 };
	struct state own = STATE_NONE;
	struct koda_error err;
	struct journal j;
	bool planted[4];

	snprintf(own_path, sizeof(own_path), "%s/state", base);
	if (state_hold(&own, own_path, &err) < 0)
		fail_msg("%s", err.message);
	policy_init(&policy);
	assert_int_equal(policy_list_add(&policy.list[KODA_DENY_WRITE_NAMES], ".vscode", NULL), 0);
	if (journal_begin(&j, state_journal(&own, true), &in, &err) < 0)
		fail_msg("%s", err.message);
	policy_done(&policy);
	look(&own, planted);
	assert_false(planted[0]);
	assert_true(planted[1]);
	assert_false(planted[2]); /* its host removes it */
	assert_false(planted[3]);

	/* Killed after the other hosts have looked for killed hosts: no other host looks now. */
	journal_end(&j, false);
	look(&own, planted);
	assert_false(planted[0]);
	assert_true(planted[1]);
	assert_true(planted[2]);
	assert_false(planted[3]);

	/* Another directory has the name now. */
	assert_int_equal(rename(project, proof_path("%.*s/away", PATH_MAX - 64, base)), 0);
	assert_int_equal(mkdir(project, 0700), 0);
	look(&own, planted);
	assert_false(planted[1]);
	assert_false(planted[2]);
	state_let_go(&own, own_path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(live_and_killed, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("neighbours", tests, NULL, NULL);
}
