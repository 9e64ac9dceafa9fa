/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a slot with real workers: deadlines, deaths while idle and busy, the restart
 * budget. */
#include <malloc.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "tests/kit/hosting.h"
#include "tests/kit/sanitized.h"

/* The worker is stopped from outside while idle: each request would then wait for ever. */
static void
deadline(void **state)
{
	static const struct {
		struct koda_op op;
		unsigned at_least, at_most;
	} calls[] = {
		{ { .kind = KODA_OP_READ, .path = "f", .timeout_ms = 300 }, 290, 1500 },
		{ { .kind = KODA_OP_READ, .path = "f", .timeout_ms = 2300 }, 2290, 4500 },
		{ { .kind = KODA_OP_LIST, .path = ".", .timeout_ms = 300 }, 290, 1500 },
		{ { .kind = KODA_OP_WRITE,
		      .path = "f",
		      .data = "new",
		      .len = 3,
		      .timeout_ms = 300 },
		    290, 1500 },
		{ { .kind = KODA_OP_REMOVE, .path = "f", .timeout_ms = 300 }, 290, 1500 },
	};
	size_t i = (uintptr_t)*state;
	struct koda_error err;
	struct fixture f;
	uint64_t took;
	int pid;

	fixture_start(&f, KODA_AUTO);
	put_text(&f, "f", "old");
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGSTOP);
	took = clock_ms();
	assert_code((do_call(f.slot, &calls[i].op, &err), &err), KODA_TIMEOUT);
	took = clock_ms() - took;
	assert_true(took >= calls[i].at_least);
	assert_true(took <= calls[i].at_most);
	assert_string_equal(get_text(&f, "f"), "old");
	assert_int_equal(process_state(pid), 0);
	assert_code((do_call(f.slot, &WRITE("f", "later"), &err), &err), KODA_OK);
	assert_string_equal(get_text(&f, "f"), "later");
	fixture_end(&f);
}

static volatile sig_atomic_t ticks;

static void
on_tick(int sig)
{
	ticks = ticks + 1;
}

/* Constant signals do not put the deadline off. */
static void
deadline_among_signals(void **state)
{
	const struct itimerval often = { { 0, 50000 }, { 0, 50000 } }, off = { { 0, 0 }, { 0, 0 } };
	struct sigaction act = { .sa_handler = on_tick, .sa_flags = SA_RESTART }, old;
	struct koda_error err;
	struct fixture f;
	uint64_t began;

	fixture_start(&f, KODA_AUTO);
	kill(koda_slot_pid(f.slot), SIGSTOP);
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	began = clock_ms();
	assert_code((do_call(f.slot, &STAT(".", .timeout_ms = 2200), &err), &err), KODA_TIMEOUT);
	setitimer(ITIMER_REAL, &off, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_true(clock_ms() - began < 4500);
	assert_true(ticks > 10);
	fixture_end(&f);
}

/* A call in line behind one that hangs: if it was not begun, it did not happen. */
static void
deadline_in_line(void **state)
{
	struct koda_error err;
	struct answer a[3];
	struct fixture f;

	fixture_start(&f, KODA_AUTO);
	kill(koda_slot_pid(f.slot), SIGSTOP);
	start_call(f.slot, &WRITE("a", "a", .timeout_ms = 300), &a[0]);
	start_call(f.slot, &WRITE("b", "b", .timeout_ms = 9000), &a[1]);
	start_call(f.slot, &STAT(".", .timeout_ms = 9000), &a[2]);
	for (int i = 0; i < 3; i++)
		wait_answer(f.ses, &a[i]);
	assert_code(&a[0].err, KODA_TIMEOUT);
	assert_code(&a[1].err, KODA_OK);
	assert_code(&a[2].err, KODA_OK);
	assert_false(exists(&f, "a"));
	assert_string_equal(get_text(&f, "b"), "b");
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	fixture_end(&f);
}

static void
killed_while_idle(void **state)
{
	struct koda_error err;
	struct koda_stats stats;
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	for (int i = 0; i < 5; i++) {
		pid = koda_slot_pid(f.slot);
		kill(pid, SIGKILL);
		assert_true(wait_for_state(pid, 'Z'));
		if (i % 2 == 0)
			assert_code((do_call(f.slot, &WRITE("f", "x"), &err), &err), KODA_OK);
		else
			assert_code((do_call(f.slot, &STAT("f"), &err), &err), KODA_OK);
		assert_int_not_equal(koda_slot_pid(f.slot), pid);
	}
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.respawns, 5);
	assert_int_equal(stats.spawns, 6);
	assert_int_equal(stats.workers, 1);
	fixture_end(&f);
}

static void
killed_in_the_pool(void **state)
{
	struct koda_error err;
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	pid = koda_slot_pid(f.slot);
	koda_slot_release(f.slot);
	kill(pid, SIGKILL);
	assert_true(wait_for_state(pid, 'Z'));
	f.slot = fixture_acquire(&f);
	assert_int_not_equal(koda_slot_pid(f.slot), pid);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	fixture_end(&f);
}

/* A worker dies while it handles a read: the next worker repeats it. */
static void
reads_are_repeated(void **state)
{
	struct answer a[3];
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	put_text(&f, "f", "old");
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGSTOP);
	start_call(f.slot, &(struct koda_op){ .kind = KODA_OP_READ, .path = "f" }, &a[0]);
	start_call(f.slot, &(struct koda_op){ .kind = KODA_OP_LIST, .path = "." }, &a[1]);
	start_call(f.slot, &STAT("f"), &a[2]);
	kill(pid, SIGKILL);
	for (int i = 0; i < 3; i++) {
		wait_answer(f.ses, &a[i]);
		assert_code(&a[i].err, KODA_OK);
		assert_int_equal(a[i].times, 1);
	}
	assert_memory_equal(a[0].data, "old", 3);
	assert_int_equal(a[1].n_entries, 1);
	fixture_end(&f);
}

/* The program of the worker is gone while the slot is in use. */
static void
helper_goes_away(void **state)
{
	char path[PATH_MAX];
	struct koda_error err;
	struct fixture f;

	fixture_start(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/koda-fs-worker", f.helpers);
	assert_int_equal(unlink(path), 0);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	kill(koda_slot_pid(f.slot), SIGKILL);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_UNSUPPORTED);
	assert_non_null(strstr(err.message, "koda-fs-worker"));
	/* For good: a slot that has failed returns the same error again, at once. */
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_UNSUPPORTED);
	assert_int_equal(koda_slot_pid(f.slot), -1);
	put_real_worker(&f);
	koda_slot_release(f.slot);
	f.slot = fixture_acquire(&f);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	fixture_end(&f);
}

/* The worker is killed again and again between calls: each death is followed by an answer, so
 * the slot never gives up. */
static void
deaths_with_answers_between(void **state)
{
	struct koda_error err;
	struct fixture f;

	fixture_start(&f, KODA_AUTO);
	for (int i = 0; i < 12; i++) {
		kill(koda_slot_pid(f.slot), SIGKILL);
		assert_code((do_call(f.slot, &STAT("."), &err), &err), KODA_OK);
	}
	fixture_end(&f);
}

/* No descriptor is left to start a worker with: the call reports it, and the slot serves the
 * next one. */
static void
short_of_descriptors(void **state)
{
	struct rlimit old, tight;
	struct koda_error err;
	struct fixture f;
	int pid, probe;

	fixture_start(&f, KODA_AUTO);
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGKILL);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	kill(koda_slot_pid(f.slot), SIGKILL);
	probe = open("/", O_PATH | O_CLOEXEC);
	close(probe);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	tight.rlim_cur = (rlim_t)probe;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	do_call(f.slot, &WRITE("f", "x"), &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(err.errnum, EMFILE);
	assert_false(exists(&f, "f"));
	assert_code((do_call(f.slot, &WRITE("f", "x"), &err), &err), KODA_OK);
	fixture_end(&f);
}

static size_t
address_space(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &pages), 1);
	fclose(f);
	return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Memory is short when a worker gets its policy: the next call does not wait until that worker is
 * given up. */
static void
short_of_memory(void **state)
{
	struct koda_policy *policy;
	struct koda_error err;
	struct rlimit old;
	struct fixture f;
	unsigned n_short = 0;
	char rule[256];

	fixture_prepare(&f, KODA_AUTO);
	policy = koda_policy_for_agent(KODA_AUTO, f.root, &err);
	assert_non_null(policy);
	for (int i = 0; i < 2000; i++) {
		snprintf(rule, sizeof(rule), "/nowhere/%0200d", i);
		assert_int_equal(koda_policy_add(policy, KODA_DENY_WRITE_WITHIN_ALLOW, rule, &err),
		    0);
	}
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	f.options.policy = policy;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	/* So that freed memory goes back to the kernel. */
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
	malloc_trim(0);
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	for (size_t more = 0; more < 1 << 20; more += 128 << 10) {
		struct rlimit tight = { address_space() + more, old.rlim_max };
		uint64_t since;

		kill(koda_slot_pid(f.slot), SIGKILL);
		assert_true(wait_for_state(koda_slot_pid(f.slot), 'Z'));
		if (!SANITIZED) /* its runtime cannot work without memory of its own */
			assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
		do_call(f.slot, &PING(), &err);
		assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
		n_short += err.errnum == ENOMEM;
		since = clock_ms();
		assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
		assert_true(clock_ms() - since < 4000);
	}
	assert_true(SANITIZED || n_short > 0);
	fixture_end(&f);
	koda_policy_free(policy);
}

int
main(void)
{
	struct CMUnitTest tests[16];
	size_t n = 0;

	for (uintptr_t i = 0; i < 5; i++)
		tests[n++] = (struct CMUnitTest){ "deadline", deadline, NULL, NULL, (void *)i };
#define ADD(fn) tests[n++] = (struct CMUnitTest){ #fn, fn, NULL, NULL, NULL }
	ADD(deadline_among_signals);
	ADD(deadline_in_line);
	ADD(killed_while_idle);
	ADD(killed_in_the_pool);
	ADD(reads_are_repeated);
	ADD(helper_goes_away);
	ADD(deaths_with_answers_between);
	ADD(short_of_descriptors);
	ADD(short_of_memory);
	return _cmocka_run_group_tests("slot", tests, n, NULL, NULL);
}
