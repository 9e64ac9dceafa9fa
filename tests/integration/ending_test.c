/* SPDX-License-Identifier: Apache-2.0 */
/*
 * However a session ends, files planted by its commands in the last moment are removed before any
 * part of it goes: the real bwrap, stage2 and worker. A background command plants without a pause,
 * so that there is always a file that no comparison during its life has seen.
 */
#include <sys/wait.h>

#include "tests/kit/hosting.h"

/* The command ignores SIGTERM. */
#define PLANTS                                                                                     \
	"trap '' TERM INT HUP; git init -q new && echo x > .planting; "                            \
	"while :; do cp harm new/.git/hooks/pre-commit; done 2>/dev/null"

static unsigned n_left; /* events that report it */
static char degraded[1024];

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	n_left += kind == KODA_EVENT_LEFT;
	if (kind == KODA_EVENT_DEGRADED)
		snprintf(degraded, sizeof(degraded), "%s", text);
}

static struct koda_command *
begin(struct fixture *f, koda_command_done_fn *done)
{
	const struct koda_command_options o = { .shell = PLANTS, .background = true };
	struct koda_command *c;
	struct koda_error err;

	n_left = 0;
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	f->options.event = on_event;
	put_text(f, "harm", "#!/bin/sh\ntouch harmed\n");
	fixture_open(f);
	f->slot = fixture_acquire(f);
	c = koda_command_start(f->slot, &o, done, f, &err);
	if (c == NULL)
		fail_msg("%s", err.message);
	/* Loops with a deadline: the comparisons every two seconds go on meanwhile. */
	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end && !exists(f, ".planting");)
		koda_session_dispatch(f->ses, 5, &err);
	for (uint64_t end = clock_ms() + PATIENCE_MS;
	     clock_ms() < end && !exists(f, "new/.git/hooks/pre-commit");)
		koda_session_dispatch(f->ses, 1, &err);
	assert_true(exists(f, ".planting"));
	return c;
}

/* No planted file is left, and no process that could plant one; the repository itself stays. */
static void
expect_clean(struct fixture *f)
{
	assert_false(exists(f, "new/.git/hooks/pre-commit"));
	assert_true(exists(f, "new/.git/HEAD"));
}

static void
released(void **state)
{
	struct fixture f;
	struct koda_command *c = begin(&f, NULL);
	struct koda_command_result r;
	struct koda_error err;

	koda_slot_release(f.slot);
	expect_clean(&f);
	assert_true(n_left > 0);
	assert_int_equal(koda_command_result(c, &r, &err), -1);
	assert_code(&err, KODA_UNKNOWN);
	koda_command_free(c);
	fixture_end(&f);
}

static void
closed(void **state)
{
	struct fixture f;
	struct koda_command *c = begin(&f, NULL);

	koda_session_close(f.ses);
	f.ses = NULL;
	expect_clean(&f);
	assert_true(n_left > 0);
	koda_command_free(c);
	fixture_end(&f);
}

/* The command was freed and may still be ending. */
static void
given_up(void **state)
{
	struct fixture f;
	struct koda_command *c = begin(&f, NULL);

	koda_command_free(c);
	koda_slot_release(f.slot);
	expect_clean(&f);
	fixture_end(&f);
}

/* Likewise in a session that goes on. */
static void
given_up_and_lived_on(void **state)
{
	struct fixture f;
	struct koda_command *c = begin(&f, NULL);
	struct koda_error err;

	koda_command_free(c);
	for (uint64_t end = clock_ms() + PATIENCE_MS;
	     clock_ms() < end && exists(&f, "new/.git/hooks/pre-commit");)
		koda_session_dispatch(f.ses, 5, &err);
	expect_clean(&f);
	fixture_end(&f);
}

static int
count_plants(void *data, const struct koda_violation *v)
{
	*(unsigned *)data += strstr(v->target, "pre-commit") != NULL && v->certain;
	return 0;
}

/* Violations can be read until the slot is released; new commands are refused. */
static void
ended(void **state)
{
	const struct koda_command_options o = { .shell = "true" };
	struct koda_command_result r;
	struct koda_error err;
	struct fixture f;
	struct koda_command *c = begin(&f, NULL);
	unsigned before = 0, after = 0;

	koda_slot_violations(f.slot, count_plants, &before);
	if (koda_slot_end(f.slot, &err) < 0)
		fail_msg("%s", err.message);
	expect_clean(&f);
	koda_slot_violations(f.slot, count_plants, &after);
	assert_true(after > before || after == 100);
	assert_int_equal(n_left, 0);
	assert_int_equal(koda_run(f.slot, &o, &r, &err), -1);
	assert_code(&err, KODA_INVALID);
	assert_int_equal(koda_slot_end(f.slot, &err), 0);
	koda_command_free(c);
	fixture_end(&f);
}

static bool told;

static void
on_done(void *data, struct koda_command *c)
{
	struct fixture *f = data;

	told = true;
	expect_clean(f);
	koda_command_free(c);
}

static int
release_it(void *data, const struct koda_violation *v)
{
	struct fixture *f = data;

	koda_slot_release(f->slot);
	return 1;
}

/*
 * Releases the slot from inside a callback; the command's callback runs when nothing is left of the
 * command.
 */
static void
released_in_a_callback(void **state)
{
	struct fixture f;
	struct koda_error err;

	told = false;
	begin(&f, on_done);
	/* The first comparison finds something, two seconds after the start at the latest. */
	for (uint64_t end = clock_ms() + PATIENCE_MS;
	     clock_ms() < end && koda_slot_violations(f.slot, release_it, &f) == 0;)
		koda_session_dispatch(f.ses, 5, &err);
	koda_session_close(f.ses);
	f.ses = NULL;
	assert_true(told);
	expect_clean(&f);
	fixture_end(&f);
}

/* The worker is killed just before the end: another worker does the comparison. */
static void
worker_killed(void **state)
{
	struct fixture f;
	struct koda_command *c = begin(&f, NULL);

	assert_int_equal(kill(koda_slot_pid(f.slot), SIGKILL), 0);
	koda_slot_release(f.slot);
	expect_clean(&f);
	koda_command_free(c);
	fixture_end(&f);
}

static pid_t
parent_of(int pid)
{
	char path[64], text[512];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	return (pid_t)strtol(strrchr(text, ')') + 4, NULL, 10);
}

/*
 * A comparison that takes too long is given up and reported; the next session finds what it would
 * have found.
 */
static void
takes_too_long(void **state)
{
	struct fixture f;
	struct koda_command *c = begin(&f, NULL);
	const uint64_t began = clock_ms();
	struct koda_error err;
	struct stat st;
	char journal[PATH_MAX];

	snprintf(journal, sizeof(journal), "%s/.local/state/koda-sandbox/journal", getenv("HOME"));
	assert_int_equal(kill(parent_of(koda_slot_pid(f.slot)), SIGSTOP), 0);
	assert_int_equal(koda_slot_end(f.slot, &err), -1);
	assert_code(&err, KODA_TIMEOUT);
	assert_true(clock_ms() - began >= 8000 && clock_ms() - began < 15000);
	assert_non_null(strstr(degraded, "was not checked at the end"));
	koda_command_free(c);
	koda_session_close(f.ses);
	assert_int_equal(stat(journal, &st), 0);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	expect_clean(&f);
	koda_session_close(f.ses);
	f.ses = NULL;
	assert_int_equal(stat(journal, &st), -1);
	fixture_end(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(released),
		cmocka_unit_test(closed),
		cmocka_unit_test(given_up),
		cmocka_unit_test(given_up_and_lived_on),
		cmocka_unit_test(ended),
		cmocka_unit_test(released_in_a_callback),
		cmocka_unit_test(worker_killed),
		cmocka_unit_test(takes_too_long),
	};

	return cmocka_run_group_tests_name("ending", tests, NULL, NULL);
}
