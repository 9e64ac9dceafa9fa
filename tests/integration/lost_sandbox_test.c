/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox that dies and cannot be built again, in a mode that goes on without commands: at every
 * point at which the host may notice it, the slot's commands end once, nothing that is still in use
 * is freed, and what commands left is not taken for compared.
 */
#include <dirent.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "tests/kit/family.h"
#include "tests/kit/hosting.h"

/* A wait is interrupted at each of the first so many times that koda_slot_acquire() waits. */
#define WAITS 12

static struct fixture *running; /* for the callbacks */
static char degraded[1024];

static pid_t
child_of(pid_t parent, const char *name)
{
	static struct family_member all[FAMILY_MAX];
	const size_t n = family_list(all);

	for (size_t i = 0; i < n; i++)
		if (all[i].parent == parent && all[i].state != 'Z' &&
		    (name == NULL || strcmp(all[i].name, name) == 0))
			return all[i].pid;
	return -1;
}

static void
lose_sandbox(const struct fixture *f)
{
	const pid_t bwrap = child_of(getpid(), "bwrap");
	char program[PATH_MAX];
	pid_t stage2 = -1;

	snprintf(program, sizeof(program), "%s/koda-sandbox-stage2", f->helpers);
	unlink(program);
	assert_true(bwrap > 0);
	for (uint64_t end = clock_ms() + PATIENCE_MS; stage2 < 0 && clock_ms() < end;)
		stage2 = child_of(bwrap, NULL);
	assert_true(stage2 > 0);
	assert_int_equal(kill(stage2, SIGKILL), 0);
	assert_true(wait_for_state(stage2, 0));
}

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind == KODA_EVENT_DEGRADED)
		snprintf(degraded, sizeof(degraded), "%s", text);
}

static void
start(struct fixture *f)
{
	fixture_prepare(f, KODA_SAFE);
	put_copy(f, "koda-sandbox-stage2", KODA_TEST_STAGE2);
	f->options.commands = true;
	f->options.event = on_event;
	running = f;
	degraded[0] = '\0';
	fixture_open(f);
	f->slot = fixture_acquire(f);
}

/* Starts a command, and waits until it has made the file `begun`. */
static struct koda_command *
start_command(const struct fixture *f, const char *shell)
{
	const struct koda_command_options o = { .shell = shell, .approved = true };
	struct koda_error err;
	struct koda_command *c = koda_command_start(f->slot, &o, NULL, NULL, &err);

	if (c == NULL)
		fail_msg("%s", err.message);
	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end && !exists(f, "begun");)
		blink();
	assert_true(exists(f, "begun"));
	return c;
}

/* Replaces the worker by one that has not scanned yet. */
static void
renew_worker(const struct fixture *f)
{
	const int worker = koda_slot_pid(f->slot);
	struct koda_error err;

	assert_true(worker > 0);
	assert_int_equal(kill(worker, SIGKILL), 0);
	assert_true(wait_for_state(worker, 0));
	assert_code((do_call(f->slot, &PING(), &err), &err), KODA_OK);
}

static int
run_true(struct koda_slot *slot, struct koda_error *err)
{
	const struct koda_command_options o = { .shell = "true", .approved = true };
	struct koda_command_result r;
	int status = koda_run(slot, &o, &r, err);

	koda_command_result_done(&r);
	return status;
}

static int
explain(struct koda_slot *slot, struct koda_error *err)
{
	const char *rule;
	bool allowed;

	return koda_slot_explain_command(slot, KODA_WRITE_ACCESS, "/etc/x", &allowed, &rule, err);
}

static int
add_guards(struct koda_slot *slot, struct koda_error *err)
{
	struct koda_policy *policy = koda_policy_new();
	int r = koda_slot_add_guards(slot, policy, err);

	koda_policy_free(policy);
	return r;
}

/* The worker of a sandbox that is dead has not scanned: that is noticed inside the scan. */
static void
noticed_in_the_scan(void **state)
{
	int (*const *call)(struct koda_slot * slot, struct koda_error * err) = *state;
	struct koda_error err;
	struct fixture f;

	start(&f);
	renew_worker(&f);
	lose_sandbox(&f);
	assert_int_equal((*call)(f.slot, &err), -1);
	assert_code(&err, KODA_UNSUPPORTED);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	assert_int_equal(run_true(f.slot, &err), -1);
	assert_code(&err, KODA_UNSUPPORTED);
	fixture_end(&f);
}

/* The same in the comparison of a command whose sandbox died. */
static void
noticed_in_a_comparison(void **state)
{
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	start(&f);
	c = start_command(&f, "touch begun; sleep 1000");
	renew_worker(&f);
	lose_sandbox(&f);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	assert_int_equal(koda_command_result(c, &r, &err), -1);
	assert_code(&err, KODA_UNKNOWN);
	koda_command_free(c);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	fixture_end(&f);
}

/* Returns false if stage2 died before it reported the command's end. */
static bool
ends_before_it(unsigned ms)
{
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;
	bool ended;

	start(&f);
	c = start_command(&f, "touch begun");
	for (uint64_t end = clock_ms() + ms; clock_ms() < end;)
		blink();
	lose_sandbox(&f);
	assert_int_equal(koda_command_wait(c, PATIENCE_MS, &err), 1);
	ended = koda_command_result(c, &r, &err) == 0;
	if (ended) {
		assert_int_equal(r.n_violations, 1);
		assert_string_equal(r.violations[0].rule, "not_compared");
	} else {
		assert_code(&err, KODA_UNKNOWN);
	}
	koda_command_result_done(&r);
	koda_command_free(c);
	fixture_end(&f);
	return ended;
}

/* The command has ended by itself, so it has a result, which says that nothing was compared. */
static void
noticed_after_the_end(void **state)
{
	unsigned ms = 50;

	while (!ends_before_it(ms)) {
		ms *= 2;
		assert_true(ms < PATIENCE_MS);
	}
}

/*
 * The same when the slot ends. A worker outside of the sandbox takes nothing away, so what the
 * command planted is left to the next session.
 */
static void
noticed_at_the_end(void **state)
{
	static const char planted[] = "new/.git/hooks/pre-commit";
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	start(&f);
	put_text(&f, "harm", "#!/bin/sh\ntouch harmed\n");
	c = start_command(&f,
	    "git init -q new; cp harm new/.git/hooks/pre-commit; "
	    "chmod +x new/.git/hooks/pre-commit; touch begun; sleep 1000");
	renew_worker(&f);
	lose_sandbox(&f);
	assert_int_equal(koda_slot_end(f.slot, &err), -1);
	assert_non_null(strstr(degraded, "was not checked at the end"));
	koda_command_free(c);
	koda_session_close(f.ses);
	put_copy(&f, "koda-sandbox-stage2", KODA_TEST_STAGE2);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	assert_false(exists(&f, planted));
	fixture_end(&f);
}

/* ---- callbacks while the commands are dropped ---- */

static void
dispatches(void *data, const struct koda_question *question)
{
	struct koda_error err;

	koda_session_dispatch(running->ses, 0, &err);
	koda_approval_answer(question->approval, true);
}

/* The protection waits for its scan while a turn of the loop runs inside an approval callback. */
static void
a_turn_inside_the_scan(void **state)
{
	struct koda_error err;
	struct answer a;
	struct fixture f;
	int worker;

	start(&f);
	koda_session_close(f.ses);
	f.options.approve = dispatches;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	renew_worker(&f);
	worker = koda_slot_pid(f.slot);
	assert_int_equal(kill(worker, SIGSTOP), 0);
	start_call(f.slot, &WRITE("a", "text"), &a);
	lose_sandbox(&f);
	assert_int_equal(run_true(f.slot, &err), -1);
	assert_code(&err, KODA_UNSUPPORTED);
	wait_answer(f.ses, &a);
	assert_code(&a.err, KODA_OK);
	assert_string_equal(get_text(&f, "a"), "text");
	fixture_end(&f);
}

static int forked; /* how the forked child ended; -1: there was none */
static bool locked;

/* The worker that is started directly: the commands are dropped, and not freed yet. */
static void
forks(void *data, enum koda_event_kind kind, const char *text)
{
	char path[PATH_MAX];
	pid_t child;
	int fd;

	on_event(data, kind, text);
	if (kind != KODA_EVENT_SPAWN || degraded[0] == '\0' || forked >= 0)
		return;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		koda_session_close(running->ses);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &forked, 0), child);
	snprintf(path, sizeof(path), "%s/.local/state/koda-sandbox", getenv("HOME"));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	locked = fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0;
	close(fd);
}

/* koda's own directory is locked together with the parent: closing in the child changes nothing. */
static void
forked_meanwhile(void **state)
{
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	forked = -1;
	start(&f);
	koda_session_close(f.ses);
	f.options.event = forks;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	c = start_command(&f, "touch begun; sleep 1000");
	lose_sandbox(&f);
	assert_int_equal(run_true(f.slot, &err), -1);
	assert_code(&err, KODA_UNSUPPORTED);
	assert_int_equal(forked, 0);
	assert_false(locked);
	koda_command_free(c);
	fixture_end(&f);
}

static unsigned waits, lost_at;

static int
loses(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	if (waits++ == lost_at)
		lose_sandbox(running);
	return poll(fds, n, timeout_ms);
}

/* As if it could not be built the first time: the slot does file operations only. Acquiring may
 * fail once, if the sandbox dies at its last step. */
static void
while_acquired(void **state)
{
	struct koda_error err;
	struct fixture f;

	for (lost_at = 1; lost_at < WAITS; lost_at++) {
		start(&f);
		koda_session_close(f.ses);
		f.options.wait = loses;
		waits = 0;
		fixture_open(&f);
		f.slot = koda_slot_acquire(f.ses, NULL, &err);
		if (f.slot == NULL) {
			assert_code(&err, KODA_WORKER);
			f.slot = fixture_acquire(&f);
		}
		if (waits > lost_at) {
			assert_int_equal(run_true(f.slot, &err), -1);
			assert_code(&err, KODA_UNSUPPORTED);
		}
		assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
		fixture_end(&f);
	}
}

/* ---- a command that ends while it is asked about ---- */

static void
ends_slot(void *data, const struct koda_question *question)
{
	struct koda_error err;

	assert_int_equal(koda_slot_end(running->slot, &err), 0);
	koda_session_dispatch(running->ses, 0, &err);
}

static unsigned n_done;

static void
frees(void *data, struct koda_command *command)
{
	n_done++;
	koda_command_free(command);
}

static void
freed_while_asked_about(void **state)
{
	const struct koda_command_options o = { .shell = "true" };
	struct koda_error err;
	struct fixture f;

	start(&f);
	koda_session_close(f.ses);
	f.options.approve = ends_slot;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	n_done = 0;
	assert_null(koda_command_start(f.slot, &o, frees, NULL, &err));
	assert_code(&err, KODA_WORKER);
	assert_int_equal(n_done, 1);
	fixture_end(&f);
}

int
main(void)
{
	static int (*const calls[])(struct koda_slot * slot, struct koda_error * err) = { run_true,
		explain, add_guards };
	const struct CMUnitTest tests[] = {
		{ "run", noticed_in_the_scan, NULL, NULL, (void *)&calls[0] },
		{ "explain", noticed_in_the_scan, NULL, NULL, (void *)&calls[1] },
		{ "guards", noticed_in_the_scan, NULL, NULL, (void *)&calls[2] },
		cmocka_unit_test(noticed_in_a_comparison),
		cmocka_unit_test(noticed_after_the_end),
		cmocka_unit_test(noticed_at_the_end),
		cmocka_unit_test(a_turn_inside_the_scan),
		cmocka_unit_test(forked_meanwhile),
		cmocka_unit_test(while_acquired),
		cmocka_unit_test(freed_while_asked_about),
	};

	return cmocka_run_group_tests_name("lost_sandbox", tests, NULL, NULL);
}
