/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/files/keep, host/workspace/keeping: what file operations change is kept in the history, and
 * koda_history_undo() takes it back, bit for bit. (keep_killed_test.c: whatever was killed on the way;
 * keep_bound_test.c: how much is kept, and where there is no place for it.)
 */
#include "tests/kit/keeping.h"
#include "tests/kit/skip.h"

/* ---- every operation ---- */

/* live: by the session that made the changes; else by the next one. */
static void
there_and_back(const struct scene *s, const char *where, bool live, bool commands)
{
	cleanup_free char *before = NULL, *after = NULL;
	struct kept k;

	begin(&k, where);
	k.f.options.commands = commands;
	start(&k);
	before = picture(&k.f);
	run(&k, s);
	after = picture(&k.f);
	if (!live)
		restart(&k);
	look(&k);
	assert_int_equal(k.n_entries, 1);
	assert_string_equal(list(&k), s->listed);
	for (int i = 0; i < 2; i++) {
		turn(&k, false, KODA_TAKE_NONE);
		assert_all_applied(&k);
		assert_picture(&k.f, before);
		turn(&k, true, KODA_TAKE_NONE);
		assert_all_applied(&k);
		assert_picture(&k.f, after);
	}
	assert_int_equal(count_temps(&k.f), 0);
	look(&k);
	assert_int_equal(k.undone, 0);
	assert_string_equal(events, "");
	end(&k);
}

static void
taken_back(void **state)
{
	there_and_back(*state, NULL, false, false);
}

static void
taken_back_live(void **state)
{
	there_and_back(*state, NULL, true, false);
}

static void
taken_back_across(void **state)
{
	struct stat a, b;

	if (stat("/dev/shm", &a) < 0 || stat(getenv("TMPDIR") ?: "/tmp", &b) < 0 ||
	    a.st_dev == b.st_dev || access("/dev/shm", W_OK) < 0)
		skip_because("there is no second file system");
	there_and_back(*state, "/dev/shm", false, false);
}

/* The worker is in the sandbox, in which the history is another mount. */
static void
taken_back_sandboxed(void **state)
{
	there_and_back(*state, NULL, true, true);
}

/* ---- who only reads ---- */

static void
reading_leaves_nothing(void **state)
{
	struct koda_error err;
	char path[PATH_MAX];
	struct stat st;
	struct kept k;

	begin(&k, NULL);
	start(&k);
	assert_code((do_call(k.f.slot, &STAT("old"), &err), &err), KODA_OK);
	look(&k);
	assert_int_equal(k.n_entries, 0);
	koda_session_close(k.f.ses);
	k.f.ses = NULL;
	snprintf(path, sizeof(path), "%s/koda-sandbox", k.state);
	assert_int_equal(lstat(path, &st), -1);
	end(&k);
}

static void
no_history(void **state)
{
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	k.f.options.no_history = true;
	start(&k);
	assert_code((do_call(k.f.slot, &WRITE("old", "new"), &err), &err), KODA_OK);
	restart(&k);
	look(&k);
	assert_int_equal(k.n_entries, 0);
	end(&k);
}

/* ---- conflicts, rules ---- */

static void
changed_since(void **state)
{
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k,
	    &(struct scene){ .op = { PUT("old", "new"), PUT("fresh", "x"), REMOVE("other"),
				 RENAME("dir/a", "dir/z", false) } });
	restart(&k);
	look(&k);
	put_text(&k.f, "old", "the user's");
	put_text(&k.f, "other", "the user's other");
	put_text(&k.f, "dir/a", "the user's a");
	turn(&k, false, KODA_TAKE_NONE);
	assert_non_null(strstr(k.told, "conflict changed old"));
	assert_non_null(strstr(k.told, "applied created fresh"));
	assert_non_null(strstr(k.told, "conflict deleted other"));
	assert_non_null(strstr(k.told, "conflict renamed dir/a"));
	assert_string_equal(get_text(&k.f, "old"), "the user's");
	assert_string_equal(get_text(&k.f, "other"), "the user's other");
	assert_string_equal(get_text(&k.f, "dir/a"), "the user's a");
	assert_string_equal(get_text(&k.f, "dir/z"), "a");
	assert_false(exists(&k.f, "fresh"));
	end(&k);
}

static void
refused_by_rule(void **state)
{
	struct koda_policy *policy;
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k, &scenes[0]);
	koda_session_close(k.f.ses);
	policy = koda_policy_for_agent(KODA_AUTO, k.f.root, &err);
	assert_non_null(policy);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_WRITE_WITHIN_ALLOW, at(&k.f, "old"),
			     &err),
	    0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	k.f.options.policy = policy;
	start(&k);
	look(&k);
	assert_non_null(strstr(turn(&k, false, KODA_TAKE_NONE), "refused changed old"));
	assert_string_equal(get_text(&k.f, "old"), "new");
	k.f.options.policy = NULL;
	end(&k);
	koda_policy_free(policy);
}

static void
refused_in_plan(void **state)
{
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k, &scenes[0]);
	koda_session_close(k.f.ses);
	k.f.options.mode = KODA_PLAN;
	start(&k);
	look(&k);
	assert_non_null(strstr(turn(&k, false, KODA_TAKE_NONE), "refused changed old"));
	assert_string_equal(get_text(&k.f, "old"), "new");
	end(&k);
}

/* ---- what workers say ---- */

/* A worker that was taken over has written what it likes where logs are. */
static void
hostile_logs(void **state)
{
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k, &scenes[0]);
	koda_session_close(k.f.ses);
	shell("cd \"$0\"/koda-sandbox/history/*/*/old; for l in *.log; do printf "
	      "'\\0\\0\\0\\4xxxx' >>$l; done; mkfifo 0000000000000000.log; "
	      "ln -s /dev/zero 0000000000000001.log; mkdir 0000000000000002.log; "
	      "head -c 100000 /dev/urandom >0000000000000003.log; "
	      "head -c 100000 /dev/zero >0000000000000004.log",
	    k.state);
	start(&k);
	look(&k);
	assert_string_equal(list(&k), "changed old\n");
	turn(&k, false, KODA_TAKE_NONE);
	assert_all_applied(&k);
	assert_string_equal(get_text(&k.f, "old"), "one two");
	end(&k);
}

/* ---- a part of an entry ---- */

static void
in_part(void **state)
{
	const char *const other = "other", *const to = "dir/z";
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k,
	    &(struct scene){ .op = { PUT("old", "new"), PUT("other", "new other"),
				 RENAME("dir/a", "dir/z", false) } });
	restart(&k);
	look(&k);
	turn_with(&k, &(struct koda_undo_options){ .paths = &other, .n_paths = 1 });
	assert_string_equal(k.told, "applied changed other\n");
	assert_string_equal(get_text(&k.f, "other"), "other");
	assert_string_equal(get_text(&k.f, "old"), "new");
	/* A rename has two names. */
	turn_with(&k, &(struct koda_undo_options){ .paths = &to, .n_paths = 1 });
	assert_string_equal(k.told, "applied renamed dir/a\n");
	assert_string_equal(get_text(&k.f, "dir/a"), "a");
	assert_false(exists(&k.f, "dir/z"));
	look(&k);
	assert_int_equal(k.changes, 3);
	assert_int_equal(k.undone, 2);
	turn(&k, true, KODA_TAKE_NONE);
	assert_all_applied(&k);
	assert_string_equal(get_text(&k.f, "other"), "new other");
	assert_string_equal(get_text(&k.f, "dir/z"), "a");
	end(&k);
}

static void
since(void **state)
{
	struct koda_undo_options o = { .dry_run = true };
	struct timespec ts;
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k, &(struct scene){ .op = { PUT("old", "new") } });
	clock_gettime(CLOCK_REALTIME, &ts);
	o.since = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
	do
		clock_gettime(CLOCK_REALTIME, &ts);
	while ((double)ts.tv_sec + (double)ts.tv_nsec / 1e9 < o.since + 1e-5);
	run(&k, &(struct scene){ .op = { PUT("other", "new other"), PUT("fresh", "x") } });
	restart(&k);
	look(&k);
	assert_true(k.changed >= o.since);
	turn_with(&k, &o);
	assert_string_equal(k.told, "applied created fresh\napplied changed other\n");
	assert_string_equal(get_text(&k.f, "other"), "new other");
	o.dry_run = false;
	turn_with(&k, &o);
	assert_string_equal(k.told, "applied created fresh\napplied changed other\n");
	assert_string_equal(get_text(&k.f, "old"), "new");
	assert_string_equal(get_text(&k.f, "other"), "other");
	assert_false(exists(&k.f, "fresh"));
	end(&k);
}

/* Doing it again has conflicts, too. */
static void
changed_after_undo(void **state)
{
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k,
	    &(struct scene){ .op = { PUT("old", "new"), PUT("fresh", "x"), REMOVE("other"),
				 RENAME("dir/a", "dir/z", false) } });
	restart(&k);
	look(&k);
	turn(&k, false, KODA_TAKE_NONE);
	assert_all_applied(&k);
	put_text(&k.f, "old", "the user's");
	put_text(&k.f, "fresh", "the user's fresh");
	put_text(&k.f, "dir/z", "the user's z");
	turn(&k, true, KODA_TAKE_NONE);
	assert_non_null(strstr(k.told, "conflict changed old"));
	assert_non_null(strstr(k.told, "conflict created fresh"));
	assert_non_null(strstr(k.told, "applied deleted other"));
	assert_non_null(strstr(k.told, "conflict renamed dir/a"));
	assert_string_equal(get_text(&k.f, "old"), "the user's");
	assert_string_equal(get_text(&k.f, "fresh"), "the user's fresh");
	assert_string_equal(get_text(&k.f, "dir/z"), "the user's z");
	assert_string_equal(get_text(&k.f, "dir/a"), "a");
	/* What the user wrote is held when it is replaced, and comes back. */
	turn(&k, true, KODA_TAKE_DRAFT);
	assert_string_equal(get_text(&k.f, "old"), "new");
	turn(&k, false, KODA_TAKE_NONE);
	assert_string_equal(get_text(&k.f, "old"), "the user's");
	end(&k);
}

int
main(void)
{
	enum { SCENES = N_ELEMENTS(scenes) };
	static const struct CMUnitTest plain[] = {
		cmocka_unit_test(reading_leaves_nothing),
		cmocka_unit_test(no_history),
		cmocka_unit_test(changed_since),
		cmocka_unit_test(refused_by_rule),
		cmocka_unit_test(refused_in_plan),
		cmocka_unit_test(in_part),
		cmocka_unit_test(since),
		cmocka_unit_test(changed_after_undo),
		cmocka_unit_test(hostile_logs),
	};
	static struct CMUnitTest tests[N_ELEMENTS(plain) + 4 * SCENES];
	static char names[4 * SCENES][96];
	static const struct {
		const char *label;
		CMUnitTestFunction run;
	} ways[] = { { "next session", taken_back }, { "same session", taken_back_live },
		{ "two file systems", taken_back_across },
		{ "with commands", taken_back_sandboxed } };
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(plain); i++)
		tests[n++] = plain[i];
	for (size_t i = 0; i < SCENES; i++)
		for (size_t w = 0; w < 4; w++) {
			snprintf(names[4 * i + w], sizeof(names[0]), "%s, %s", scenes[i].label,
			    ways[w].label);
			tests[n++] = (struct CMUnitTest){ names[4 * i + w], ways[w].run, NULL, NULL,
				(void *)(uintptr_t)&scenes[i] };
		}
	return _cmocka_run_group_tests("keep", tests, n, NULL, NULL);
}
