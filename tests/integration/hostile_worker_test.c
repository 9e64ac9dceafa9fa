/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compromised or broken worker against the host: each call gets a true answer in time, another
 * slot of the same session is unaffected, and the slot works again with a sound worker.
 */
#include <dirent.h>

#include "tests/kit/hosting.h"
#include "tests/kit/leaks.h"
#include "tests/kit/sanitized.h"

/* Time allowed for a call when the host only has to notice the failure; includes two restarts. */
#define PROMPT_MS 4000

static const struct koda_op op_read = { .kind = KODA_OP_READ, .path = "f" };
static const struct koda_op op_read_some = { .kind = KODA_OP_READ, .path = "f", .max = 10 };
static const struct koda_op op_read_short = { .kind = KODA_OP_READ,
	.path = "f",
	.timeout_ms = 500 };
static const struct koda_op op_list = { .kind = KODA_OP_LIST, .path = "." };
static const struct koda_op op_list_short = { .kind = KODA_OP_LIST,
	.path = ".",
	.timeout_ms = 700 };
static const struct koda_op op_write = { .kind = KODA_OP_WRITE,
	.path = "f",
	.data = "new",
	.len = 3 };
static const struct koda_op op_remove = { .kind = KODA_OP_REMOVE, .path = "f" };

static const struct {
	const char *behaviour;
	const struct koda_op *op;
	enum koda_code want;
	const char *says;
} cases[] = {
	/* A harmless read is repeated once with another worker, then the host gives up. */
	{ "die", &op_read, KODA_WORKER, "died 2 times" },
	{ "crash", &op_read, KODA_WORKER, "died 2 times" },
	{ "half-frame", &op_read, KODA_WORKER, "died 2 times" },
	{ "wrong-id", &op_read, KODA_WORKER, "died 2 times" },
	{ "wrong-kind", &op_read, KODA_WORKER, "died 2 times" },
	{ "empty-reply", &op_read, KODA_WORKER, "died 2 times" },
	{ "garbage", &op_read, KODA_WORKER, "died 2 times" },
	{ "unknown-field", &op_read, KODA_WORKER, "died 2 times" },
	{ "over-long", &op_read, KODA_WORKER, "died 2 times" },
	{ "zero-length", &op_read, KODA_WORKER, "died 2 times" },
	{ "stray-descriptor", &op_read, KODA_WORKER, "died 2 times" },
	{ "ten-descriptors", &op_read, KODA_WORKER, "died 2 times" },
	{ "prepared", &op_read, KODA_WORKER, "died 2 times" },
	{ "committed", &op_read, KODA_WORKER, "died 2 times" },
	{ "verdict", &op_read, KODA_WORKER, "died 2 times" },
	{ "not-understood", &op_read, KODA_WORKER, "died 2 times" },
	{ "relative-path", &op_read, KODA_WORKER, "died 2 times" },
	{ "nul-in-path", &op_read, KODA_WORKER, "died 2 times" },
	{ "too-much", &op_read_some, KODA_WORKER, "died 2 times" },
	{ "more-for-ever", &op_read_some, KODA_WORKER, "died 2 times" },
	{ "fd-absent", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-pipe", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-directory", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-writable", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-path", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-proc", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-device", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-socket", &op_read, KODA_WORKER, "died 2 times" },
	{ "fd-size", &op_read, KODA_CONFLICT, "changed while" },
	{ "silent", &op_read_short, KODA_TIMEOUT, "500 ms" },
	{ "stopped", &op_read_short, KODA_TIMEOUT, "500 ms" },
	{ "half-frame-silent", &op_read_short, KODA_TIMEOUT, "500 ms" },
	{ "more-for-ever", &op_read_short, KODA_TIMEOUT, "500 ms" },
	{ "list-for-ever", &op_list_short, KODA_TIMEOUT, "700 ms" },
	{ "list-empty-page", &op_list, KODA_WORKER, "died 2 times" },
	{ "list-slash", &op_list, KODA_WORKER, "died 2 times" },
	{ "escape-codes", &op_read, KODA_IO, "\\x1b[2J" },
	/* A change by a lying worker may have happened: it is neither repeated nor denied. */
	{ "wrong-id", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "wrong-kind", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "garbage", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "ten-descriptors", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "committed", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "committed", &op_remove, KODA_UNKNOWN, "broke the protocol" },
	{ "verdict", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "prepared-slash", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "prepared-for-ever", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "outcome-to", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "record-garbage", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "record-no-size", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "record-torn", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "record-zero", &op_remove, KODA_UNKNOWN, "broke the protocol" },
	{ "record-answer", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "record-prepared-slash", &op_write, KODA_UNKNOWN, "broke the protocol" },
	{ "record-refused", &op_write, KODA_UNKNOWN, "broke the protocol" },
};

static void
put_behaviour(const struct fixture *f, const char *behaviour)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/behaviour", f->helpers);
	put_file(path, behaviour, strlen(behaviour));
	put_worker(f, KODA_TEST_BUILD_DIR "/tests/kit/hostile");
}

static void
check_sound(struct fixture *f, struct koda_slot *slot)
{
	struct koda_result result;
	struct koda_error err;

	if (koda_fs_read(slot, "f", &result, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(result.len, 3);
	assert_memory_equal(result.data, "old", 3);
	assert_string_equal(result.path, at(f, "f"));
	koda_result_done(&result);
}

static void
misbehaves(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_slot *bystander, *slot;
	struct koda_error err;
	struct fixture f;
	uint64_t began;
	size_t fds;
	int pid;

	fixture_start(&f, KODA_AUTO);
	bystander = f.slot;
	put_text(&f, "f", "old");
	put_behaviour(&f, cases[i].behaviour);
	slot = fixture_acquire(&f);
	fds = count_descriptors();
	pid = koda_slot_pid(bystander);
	began = clock_ms();
	assert_code((do_call(slot, cases[i].op, &err), &err), cases[i].want);
	assert_true(clock_ms() - began < PROMPT_MS);
	if (strstr(err.message, cases[i].says) == NULL)
		fail_msg("'%s' says nothing of '%s'", err.message, cases[i].says);
	for (const char *p = err.message; *p != '\0'; p++)
		assert_true((unsigned char)*p >= 0x20);
	assert_null(strchr(err.path, '\n'));
	/* The other slot is unaffected. */
	check_sound(&f, bystander);
	assert_int_equal(koda_slot_pid(bystander), pid);
	/* With a sound worker this slot works again. */
	put_real_worker(&f);
	if (koda_slot_pid(slot) > 0)
		kill(koda_slot_pid(slot), SIGKILL);
	check_sound(&f, slot);
	assert_true(count_descriptors() <= fds);
	fixture_end(&f);
}

/* The same asynchronously: calls of the bystander go on while the host waits for the other slot. */
static void
misbehaves_meanwhile(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_slot *bystander, *slot;
	struct answer bad, good;
	struct koda_error err;
	struct fixture f;
	int n = 0;

	fixture_start(&f, KODA_AUTO);
	bystander = f.slot;
	put_text(&f, "f", "old");
	put_behaviour(&f, cases[i].behaviour);
	slot = fixture_acquire(&f);
	start_call(slot, cases[i].op, &bad);
	start_call(bystander, &op_read, &good);
	for (uint64_t end = clock_ms() + PATIENCE_MS;
	     !(bad.done && good.done) && clock_ms() < end;) {
		assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
		if (good.done && !bad.done) {
			assert_code(&good.err, KODA_OK);
			n++;
			start_call(bystander, &op_read, &good);
		}
	}
	assert_true(bad.done);
	assert_int_equal(bad.times, 1);
	assert_code(&bad.err, cases[i].want);
	assert_code(&good.err, KODA_OK);
	/* A worker that hangs does not slow down the bystander, which made hundreds of calls. */
	if (cases[i].want == KODA_TIMEOUT)
		assert_true(n > 100);
	fixture_end(&f);
}

/* ---- at the start ---- */

static const struct {
	const char *behaviour;
	enum koda_mode mode;
	enum koda_code want;
	const char *says;
	unsigned within_ms;
} starts[] = {
	{ "die-at-start", KODA_AUTO, KODA_WORKER, "exited with 7", 2000 },
	{ "other-policy", KODA_AUTO, KODA_WORKER, "another policy", 2000 },
	{ "short-digest", KODA_AUTO, KODA_WORKER, "another policy", 2000 },
	{ "garbage-start", KODA_AUTO, KODA_WORKER, "5 times", 2000 },
	{ "wrong-first-id", KODA_AUTO, KODA_WORKER, "before Ready", 2000 },
	{ "ready-twice", KODA_AUTO, KODA_WORKER, "the worker died", 2000 },
	{ "die-at-ping", KODA_AUTO, KODA_WORKER, "2 times", 2000 },
	{ "other-version", KODA_AUTO, KODA_UNSUPPORTED, "install both from one build", 2000 },
	{ "refuse-seal", KODA_AUTO, KODA_UNSUPPORTED, "cannot start", 2000 },
	{ "weak", KODA_AUTO, KODA_UNSUPPORTED, "Landlock ABI 1", 2000 },
	{ "no-seccomp", KODA_AUTO, KODA_UNSUPPORTED, "seccomp no", 2000 },
	{ "weak", KODA_SAFE, KODA_OK, "Landlock ABI 1", 2000 },
	{ "no-seccomp", KODA_PLAN, KODA_OK, "seccomp no", 2000 },
	{ "silent-start", KODA_AUTO, KODA_TIMEOUT, "5000 ms", 8000 },
	{ "silent-ping", KODA_AUTO, KODA_TIMEOUT, "5000 ms", 8000 },
};

struct events {
	int spawns, deaths, degraded;
	char last[KODA_MESSAGE_MAX];
};

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	struct events *e = data;

	e->spawns += kind == KODA_EVENT_SPAWN;
	e->deaths += kind == KODA_EVENT_DEATH;
	e->degraded += kind == KODA_EVENT_DEGRADED;
	if (kind == KODA_EVENT_DEGRADED)
		snprintf(e->last, sizeof(e->last), "%s", text);
}

static void
starts_badly(void **state)
{
	size_t i = (uintptr_t)*state;
	struct events events = { 0 };
	struct koda_stats stats;
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;
	uint64_t began;

	fixture_prepare(&f, starts[i].mode);
	f.options.event = on_event;
	f.options.data = &events;
	fixture_open(&f);
	put_text(&f, "f", "old");
	put_behaviour(&f, starts[i].behaviour);
	began = clock_ms();
	slot = koda_slot_acquire(f.ses, NULL, &err);
	assert_true(clock_ms() - began < starts[i].within_ms);
	if (starts[i].want == KODA_OK) {
		assert_non_null(slot);
		/* Reported once per session, not once per slot. */
		assert_non_null(koda_slot_acquire(f.ses, NULL, &err));
		assert_int_equal(events.degraded, 1);
		assert_non_null(strstr(events.last, starts[i].says));
		assert_int_equal(events.deaths, 0);
	} else {
		assert_null(slot);
		assert_code(&err, starts[i].want);
		if (strstr(err.message, starts[i].says) == NULL)
			fail_msg("'%s' says nothing of '%s'", err.message, starts[i].says);
		assert_int_equal(events.degraded, 0);
		assert_true(events.spawns <= 5);
		koda_session_stats(f.ses, &stats);
		assert_int_equal(stats.slots, 0);
		assert_int_equal(stats.workers, 0);
		assert_int_equal(stats.spawns, events.spawns);
		put_real_worker(&f);
		check_sound(&f, fixture_acquire(&f));
	}
	fixture_end(&f);
}

/* ---- memory ---- */

static long
resident_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long size, resident = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
	fclose(file);
	return resident;
}

/*
 * A listing in pages of one name costs the memory of its names, not a copy of all names per page.
 */
static void
pages_are_held_once(void **state)
{
	struct koda_op op = op_list;
	struct koda_error err;
	struct fixture f;
	long before;

	fixture_prepare(&f, KODA_AUTO);
	fixture_open(&f);
	put_behaviour(&f, "list-for-ever");
	f.slot = fixture_acquire(&f);
	op.timeout_ms = 1500;
	before = resident_pages();
	assert_code((do_call(f.slot, &op, &err), &err), KODA_TIMEOUT);
	/* AddressSanitizer keeps up to 256 MiB that were freed. */
	assert_true((resident_pages() - before) * sysconf(_SC_PAGESIZE) <
	    (64 + (SANITIZED ? 256 : 0)) << 20);
	fixture_end(&f);
}

/* What a worker sent before it was caught lying is not part of its successor's answer. */
static void
nothing_of_it_is_kept(void **state)
{
	struct koda_result result;
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	fixture_open(&f);
	put_text(&f, "f", "old");
	put_behaviour(&f, "half-true");
	slot = fixture_acquire(&f);
	put_real_worker(&f);
	check_sound(&f, slot);

	put_behaviour(&f, "list-then-lie");
	slot = fixture_acquire(&f);
	put_real_worker(&f);
	if (koda_call(slot, &op_list, &result, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(result.path, f.root);
	assert_int_equal(result.n_entries, 1);
	assert_string_equal(result.entries[0].name, "f");
	koda_result_done(&result);
	fixture_end(&f);
}

static int approvals;

static void
approve(void *data, const struct koda_question *q)
{
	approvals++;
	koda_approval_answer(q->approval, true);
}

/* The user is not asked to approve a preview that cannot be bound to the change. */
static void
preview_binds_nothing(void **state)
{
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_SAFE);
	f.options.approve = approve;
	fixture_open(&f);
	put_behaviour(&f, "bare-preview");
	f.slot = fixture_acquire(&f);
	approvals = 0;
	assert_code((do_call(f.slot, &op_write, &err), &err), KODA_WORKER);
	assert_int_equal(approvals, 0);
	fixture_end(&f);
}

/*
 * The worker dies after Prepared, and so do its successors: the outcome is unknown, and the host
 * does not retry for ever.
 */
static void
prepared_and_dies(void **state)
{
	struct koda_error err;
	struct koda_stats stats;
	struct fixture f;
	uint64_t began = clock_ms();

	fixture_prepare(&f, KODA_AUTO);
	fixture_open(&f);
	put_behaviour(&f, "prepared-and-die");
	f.slot = fixture_acquire(&f);
	assert_code((do_call(f.slot, &op_write, &err), &err), KODA_UNKNOWN);
	koda_session_stats(f.ses, &stats);
	assert_true(stats.spawns <= 6);
	assert_true(clock_ms() - began < PROMPT_MS);
	fixture_end(&f);
}

int
main(void)
{
	static char name[N_ELEMENTS(cases)][2][96], start_name[N_ELEMENTS(starts)][64];
	struct CMUnitTest tests[2 * N_ELEMENTS(cases) + N_ELEMENTS(starts) + 4];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		snprintf(name[i][0], sizeof(name[i][0]), "%s, operation %d", cases[i].behaviour,
		    (int)cases[i].op->kind);
		snprintf(name[i][1], sizeof(name[i][1]), "%s, meanwhile", name[i][0]);
		tests[n++] = (struct CMUnitTest){ name[i][0], misbehaves, NULL, NULL, (void *)i };
		tests[n++] =
		    (struct CMUnitTest){ name[i][1], misbehaves_meanwhile, NULL, NULL, (void *)i };
	}
	for (size_t i = 0; i < N_ELEMENTS(starts); i++) {
		snprintf(start_name[i], sizeof(start_name[i]), "%s, mode %d", starts[i].behaviour,
		    (int)starts[i].mode);
		tests[n++] =
		    (struct CMUnitTest){ start_name[i], starts_badly, NULL, NULL, (void *)i };
	}
	tests[n++] =
	    (struct CMUnitTest){ "pages are held once", pages_are_held_once, NULL, NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "a preview that binds nothing", preview_binds_nothing,
		NULL, NULL, NULL };
	tests[n++] =
	    (struct CMUnitTest){ "nothing of it is kept", nothing_of_it_is_kept, NULL, NULL, NULL };
	tests[n++] =
	    (struct CMUnitTest){ "prepared and dies", prepared_and_dies, NULL, NULL, NULL };
	return _cmocka_run_group_tests("hostile", tests, n, NULL, NULL);
}
