/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compromised or broken koda-fs-search against the host: each search gets a true answer in time,
 * the slot's worker and other slots are unaffected, and a sound search then finds what is there.
 */
#include "tests/kit/hosting.h"

/* Time allowed for a search when the host only has to notice the failure; includes a restart. */
#define PROMPT_MS 4000

static const struct {
	const char *behaviour;
	enum koda_code want;
	const char *says;
	enum koda_mode mode;
} cases[] = {
	{ "die", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "crash", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "half-frame", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "wrong-id", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "wrong-kind", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "empty-reply", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "garbage", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "unknown-field", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "over-long", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "zero-length", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "stray-descriptor", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "ten-descriptors", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "prepared", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "committed", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "outcome-to", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "list-for-ever", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "fd-proc", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "not-understood", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "escape-codes", KODA_IO, "\\x1b[2J", KODA_AUTO },
	{ "stays", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "silent", KODA_TIMEOUT, "1000 ms", KODA_AUTO },
	{ "stopped", KODA_TIMEOUT, "1000 ms", KODA_AUTO },
	{ "half-frame-silent", KODA_TIMEOUT, "1000 ms", KODA_AUTO },
	/* Well-formed but endless: stopped by the number of results or by the timeout. */
	{ "found-for-ever", KODA_WORKER, "more results than were requested", KODA_AUTO },
	{ "found-trouble", KODA_WORKER, "too many problems", KODA_AUTO },
	{ "found-nothing", KODA_TIMEOUT, "1000 ms", KODA_AUTO },
	{ "found-and-die", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "found-miscounted", KODA_WORKER, "wrong number of results", KODA_AUTO },
	{ "found-with-descriptor", KODA_WORKER, "descriptor", KODA_AUTO },
	{ "found-elsewhere", KODA_WORKER, "an invalid path", KODA_AUTO },
	/* Failures at the start. */
	{ "die-at-start", KODA_WORKER, "exited with 7", KODA_AUTO },
	{ "silent-start", KODA_TIMEOUT, "1000 ms", KODA_AUTO },
	{ "garbage-start", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "other-policy", KODA_WORKER, "another policy", KODA_AUTO },
	{ "short-digest", KODA_WORKER, "another policy", KODA_AUTO },
	{ "other-version", KODA_UNSUPPORTED, "install both from one build", KODA_AUTO },
	{ "weak", KODA_UNSUPPORTED, "cannot confine the worker fully", KODA_AUTO },
	{ "no-seccomp", KODA_UNSUPPORTED, "cannot confine the worker fully", KODA_AUTO },
	{ "wrong-first-id", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "ready-twice", KODA_WORKER, "died 2 times", KODA_AUTO },
	{ "refuse-seal", KODA_UNSUPPORTED, "no\\x1b[2Jthank you", KODA_AUTO },
	/* The worker's own checks still hold; reported once. */
	{ "weak", KODA_WORKER, "died 2 times", KODA_SAFE },
};

static const struct koda_search_options all = { .kind = KODA_SEARCH_GLOB,
	.limit = 1000,
	.timeout_ms = 1000 };

static int
no_escape(void *data, const struct koda_found *f)
{
	assert_string_equal(f->path, "a");
	if (f->reason != NULL)
		assert_string_equal(f->reason, "\\x1b[2J");
	return 0;
}

static int
count(void *data, const struct koda_found *f)
{
	(*(int *)data)++;
	return 0;
}

static void
misbehaves(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct koda_search_result result;
	struct koda_error err = { 0 };
	char path[PATH_MAX];
	struct fixture f;
	uint64_t began;
	int pid, n = 0;

	fixture_prepare(&f, cases[i].mode);
	put_text(&f, "f", "old");
	snprintf(path, sizeof(path), "%s/behaviour", f.helpers);
	put_file(path, cases[i].behaviour, strlen(cases[i].behaviour));
	put_copy(&f, "koda-fs-search", KODA_TEST_BUILD_DIR "/tests/kit/hostile");
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	pid = koda_slot_pid(f.slot);
	began = clock_ms();
	assert_int_equal(koda_search(f.slot, &all, no_escape, NULL, &result, &err), -1);
	assert_code(&err, cases[i].want);
	assert_true(clock_ms() - began < PROMPT_MS);
	if (strstr(err.message, cases[i].says) == NULL)
		fail_msg("'%s' says nothing of '%s'", err.message, cases[i].says);
	for (const char *p = err.message; *p != '\0'; p++)
		assert_true((unsigned char)*p >= 0x20);
	/* The worker is unaffected, and a sound search finds what is there. */
	assert_int_equal(koda_slot_pid(f.slot), pid);
	assert_code((do_call(f.slot, &STAT("f"), &err), &err), KODA_OK);
	put_search(&f, KODA_TEST_SEARCH);
	if (koda_search(f.slot, &all, count, &n, &result, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(n, 1);
	fixture_end(&f);
}

int
main(void)
{
	static char name[N_ELEMENTS(cases)][64];
	struct CMUnitTest tests[N_ELEMENTS(cases)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		snprintf(name[i], sizeof(name[i]), "%s, mode %d", cases[i].behaviour,
		    (int)cases[i].mode);
		tests[i] = (struct CMUnitTest){ name[i], misbehaves, NULL, NULL, (void *)i };
	}
	return cmocka_run_group_tests_name("hostile_search", tests, NULL, NULL);
}
