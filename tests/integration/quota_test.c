/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a slot as a whole: the real bwrap, stage2 and worker. */
#include <sys/wait.h>

#include "host/command/state.h"
#include "tests/kit/hosting.h"

#define MIB (UINT64_C(1) << 20)

static struct koda_policy *
start_with(struct fixture *f, enum koda_limit limit, uint64_t value)
{
	struct koda_policy *p;
	struct koda_error err;

	fixture_prepare(f, KODA_AUTO);
	p = koda_policy_for_agent(KODA_AUTO, f->root, &err);
	assert_non_null(p);
	assert_int_equal(koda_policy_set_limit(p, limit, value, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	f->options.policy = p;
	f->options.commands = true;
	fixture_open(f);
	f->slot = fixture_acquire(f);
	return p;
}

static struct koda_command *
begin(struct fixture *f, const char *shell)
{
	const struct koda_command_options o = { .shell = shell, .background = true };
	struct koda_command *c;
	struct koda_error err;

	c = koda_command_start(f->slot, &o, NULL, NULL, &err);
	if (c == NULL)
		fail_msg("%s: %s", shell, err.message);
	return c;
}

static void
finish(struct koda_command *c, struct koda_command_result *ret)
{
	struct koda_error err;

	if (koda_command_wait(c, 20000, &err) <= 0 || koda_command_result(c, ret, &err) < 0)
		fail_msg("%s", err.message);
	koda_command_free(c);
}

static void
run(struct fixture *f, const char *shell, struct koda_command_result *ret)
{
	const struct koda_command_options o = { .shell = shell };
	struct koda_error err;

	if (koda_run(f->slot, &o, ret, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
}

/* Starts processes with 60 MiB each; each one alone is below the limit. */
#define EAT(n)                                                                                     \
	"for i in " n                                                                              \
	"; do python3 -c 'import time; b = bytearray(60 << 20); time.sleep(20)' & done; wait"

/* The limit is named, nothing of the command is left, and a command that used little goes on. */
static void
memory_of_many(void **state)
{
	struct koda_command_result r;
	struct koda_command *small;
	struct koda_policy *p;
	struct fixture f;

	p = start_with(&f, KODA_MAX_RSS_BYTES, 200 * MIB);
	run(&f, "mkfifo go", &r);
	koda_command_result_done(&r);
	small = begin(&f, "cat go; exit 4");
	run(&f, EAT("1 2 3 4 5 6"), &r);
	assert_int_equal(r.signal, SIGKILL);
	assert_int_equal(r.hit, KODA_HIT_MEMORY);
	assert_string_equal(koda_limit_hit_name(r.hit), "max_rss_bytes");
	koda_command_result_done(&r);
	run(&f, "echo > go", &r);
	assert_int_equal(r.status, 0);
	koda_command_result_done(&r);
	finish(small, &r);
	assert_int_equal(r.status, 4);
	assert_int_equal(r.hit, KODA_HIT_NONE);
	koda_command_result_done(&r);
	fixture_end(&f);
	koda_policy_free(p);
}

/* The highest number is a limit like any other, and no command reaches it. */
static void
highest_limit(void **state)
{
	struct koda_command_result r;
	struct koda_policy *p;
	struct fixture f;

	p = start_with(&f, KODA_MAX_RSS_BYTES, UINT64_MAX);
	run(&f, "python3 -c 'import time; b = bytearray(60 << 20); time.sleep(1.2)'", &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.hit, KODA_HIT_NONE);
	koda_command_result_done(&r);
	fixture_end(&f);
	koda_policy_free(p);
}

/* In the background, where no timeout ends it. */
static void
memory_in_the_background(void **state)
{
	struct koda_command_result r;
	struct koda_policy *p;
	struct fixture f;

	p = start_with(&f, KODA_MAX_RSS_BYTES, 200 * MIB);
	finish(begin(&f, EAT("1 2 3 4 5 6")), &r);
	assert_int_equal(r.hit, KODA_HIT_MEMORY);
	koda_command_result_done(&r);
	fixture_end(&f);
	koda_policy_free(p);
}

static void
below_the_limit(void **state)
{
	struct koda_command_result r;
	struct koda_policy *p;
	struct fixture f;

	p = start_with(&f, KODA_MAX_RSS_BYTES, 400 * MIB);
	run(&f,
	    "for i in 1 2 3; do python3 -c 'import time; b = bytearray(60 << 20); time.sleep(1)' & done; wait",
	    &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.hit, KODA_HIT_NONE);
	koda_command_result_done(&r);
	fixture_end(&f);
	koda_policy_free(p);
}

/*
 * Files in the private file systems outlive their command and count: after the limit was hit the
 * next command gets new file systems instead of the same end.
 */
static void
memory_in_files(void **state)
{
	struct koda_command_result r;
	struct koda_policy *p;
	struct fixture f;
	uint64_t boots;

	p = start_with(&f, KODA_MAX_RSS_BYTES, 100 * MIB);
	run(&f, "head -c 90000000 /dev/zero > /tmp/a", &r);
	assert_int_equal(r.status, 0);
	koda_command_result_done(&r);
	boots = f.slot->commands->sandbox->boots;
	run(&f,
	    "test -s /tmp/a && echo b > /dev/shm/b && python3 -c 'import time; b = bytearray(60 << 20); time.sleep(20)'",
	    &r);
	assert_int_equal(r.hit, KODA_HIT_MEMORY);
	koda_command_result_done(&r);
	run(&f, "test ! -e /tmp/a && test ! -e /dev/shm/b", &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(f.slot->commands->sandbox->boots, boots + 1);
	koda_command_result_done(&r);
	fixture_end(&f);
	koda_policy_free(p);
}

/*
 * By default no single process is refused memory that it only reserves, such as AddressSanitizer's
 * shadow or a heap.
 */
static void
reserving_is_not_using(void **state)
{
	struct koda_command_result r;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	run(&f, "test \"$(ulimit -d)\" = unlimited && test \"$(ulimit -v)\" = unlimited", &r);
	assert_int_equal(r.status, 0);
	koda_command_result_done(&r);
	run(&f, "python3 -c 'import mmap; mmap.mmap(-1, 1 << 42, mmap.MAP_PRIVATE | 0x4000)'", &r);
	assert_int_equal(r.status, 0);
	koda_command_result_done(&r);
	fixture_end(&f);
}

/* The kernel does not apply this limit to root; stage2 does. */
static void
processes_of_root(void **state)
{
	struct koda_command_result r;
	struct koda_policy *p;
	struct fixture f;

	p = start_with(&f, KODA_MAX_PROCESSES, 100);
	run(&f, "i=0; while [ $i -lt 300 ]; do sleep 20 & i=$((i+1)); done; wait", &r);
	assert_int_equal(r.hit, KODA_HIT_PROCESSES);
	koda_command_result_done(&r);
	run(&f, "i=0; while [ $i -lt 50 ]; do sleep 1 & i=$((i+1)); done; wait", &r);
	assert_int_equal(r.status, 0);
	koda_command_result_done(&r);
	fixture_end(&f);
	koda_policy_free(p);
}

int
main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(memory_of_many),
		cmocka_unit_test(memory_in_the_background),
		cmocka_unit_test(below_the_limit),
		cmocka_unit_test(highest_limit),
		cmocka_unit_test(memory_in_files),
		cmocka_unit_test(reserving_is_not_using),
		cmocka_unit_test(processes_of_root),
	};

	/* The last test is for root only. */
	return _cmocka_run_group_tests("quota", all, N_ELEMENTS(all) - (getuid() != 0), NULL, NULL);
}
