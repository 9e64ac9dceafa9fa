/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands and edits in several slots while workers, inits and bwraps are killed at random: every
 * answer is honest, every acknowledged edit is on the disk, and nothing is left behind. And:
 * hundreds of sessions leave no process, mount, file or descriptor. KODA_CHAOS_OPS: how many
 * operations; KODA_CHAOS_SEED: the random seed.
 */
#include <dirent.h>
#include <sys/wait.h>

#include "tests/kit/hosting.h"
#include "tests/kit/leaks.h"

#define SLOTS 3

static uint64_t seed;

static unsigned
dice(unsigned sides)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % sides;
}

static unsigned
number(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : (unsigned)strtoul(text, NULL, 10);
}

/* Stores at most max children of a process in ret, and returns how many. */
static size_t
children(int parent, int *ret, size_t max)
{
	char path[64], text[4096];
	cleanup_close int fd = -1;
	size_t n = 0;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	for (char *p = strtok(text, " "); p != NULL && n < max; p = strtok(NULL, " "))
		ret[n++] = atoi(p);
	return n;
}

/* Kills one of: bwrap, the init, a child of the init (the worker, the template, a reaper). */
static void
kill_something(void)
{
	int bwrap[SLOTS * 4], init[2], of_init[16], victim;
	size_t n = children(getpid(), bwrap, N_ELEMENTS(bwrap));
	unsigned what = dice(4);

	if (n == 0)
		return;
	victim = bwrap[dice((unsigned)n)];
	if (what > 0 && children(victim, init, 1) == 1) {
		victim = init[0];
		if (what > 1 && (n = children(victim, of_init, N_ELEMENTS(of_init))) > 0)
			victim = of_init[dice((unsigned)n)];
	}
	kill(victim, SIGKILL);
}

struct tally {
	unsigned done, unknown, refused;
};

static void
one_command(struct koda_slot *slot, struct tally *t)
{
	char shell[96], want[32];
	const struct koda_command_options o = { .shell = shell, .timeout_ms = 20000 };
	struct koda_command_result r;
	struct koda_command *c;
	struct koda_error err;
	unsigned token = dice(1000000);

	snprintf(want, sizeof(want), "%u\n", token);
	snprintf(shell, sizeof(shell), "sleep 0.00%u; echo %u", dice(9), token);
	c = koda_command_start(slot, &o, NULL, NULL, &err);
	if (c == NULL) {
		/* A process died just before it: the command did not run, and the error says so. */
		if (err.code != KODA_WORKER && err.code != KODA_UNKNOWN)
			fail_msg("start: %s: %s", koda_code_name(err.code), err.message);
		t->refused++;
		return;
	}
	if (dice(3) == 0)
		kill_something();
	if (koda_command_wait(c, PATIENCE_MS, &err) != 1)
		fail_msg("a command without an end");
	if (koda_command_result(c, &r, &err) == 0) {
		/* If there is a status, the output is complete. */
		if (r.status == 0 &&
		    (r.out.head_len != strlen(want) || memcmp(r.out.head, want, strlen(want)) != 0))
			fail_msg("'%.*s' instead of '%s'", (int)r.out.head_len, r.out.head, want);
		if (r.status != 0 && r.signal != SIGKILL)
			fail_msg("status %d", r.status);
		t->done++;
		koda_command_result_done(&r);
	} else {
		if (err.code != KODA_UNKNOWN && err.code != KODA_WORKER)
			fail_msg("%s: %s", koda_code_name(err.code), err.message);
		t->unknown++;
	}
	koda_command_free(c);
}

/* Edits increment a counter in a file: each acknowledged edit happened exactly once. */
static void
one_edit(const struct fixture *f, struct koda_slot *slot, unsigned i, unsigned *count,
    struct tally *t)
{
	char name[32], from[32], to[32];
	struct koda_edit edit = { from, 0, to, 0, false };
	struct koda_result res;
	struct koda_error err;
	const char *now;

	snprintf(name, sizeof(name), "counter%u", i);
	snprintf(from, sizeof(from), "at %u.", *count);
	snprintf(to, sizeof(to), "at %u.", *count + 1);
	edit.old_len = strlen(from);
	edit.new_len = strlen(to);
	if (dice(4) == 0)
		kill_something();
	if (koda_fs_edit(slot, name, &edit, 1, &res, &err) == 0) {
		koda_result_done(&res);
		(*count)++;
		t->done++;
	} else if (err.code == KODA_UNKNOWN) {
		t->unknown++;
		now = get_text(f, name);
		assert_non_null(now);
		if (strcmp(now, to) == 0)
			(*count)++;
	} else if (err.code == KODA_WORKER) {
		t->refused++;
	} else {
		fail_msg("edit: %s: %s", koda_code_name(err.code), err.message);
	}
	now = get_text(f, name);
	snprintf(to, sizeof(to), "at %u.", *count);
	assert_non_null(now);
	assert_string_equal(now, to);
}

static void
deaths(void **state)
{
	const unsigned ops = number("KODA_CHAOS_OPS", 600);
	struct koda_slot *slot[SLOTS] = { NULL };
	unsigned count[SLOTS] = { 0 };
	struct tally t = { 0 };
	struct koda_error err;
	struct fixture f;

	seed = number("KODA_CHAOS_SEED", 1);
	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	for (unsigned i = 0; i < SLOTS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "counter%u", i);
		put_text(&f, name, "at 0.");
	}
	fixture_open(&f);
	for (unsigned n = 0; n < ops / 8; n++) {
		unsigned i = dice(SLOTS);

		/* A slot gives up if its worker is killed too often: a new one goes on. */
		if (slot[i] == NULL)
			slot[i] = koda_slot_acquire(f.ses, NULL, &err);
		if (slot[i] == NULL)
			fail_msg("acquire: %s", err.message);
		if (dice(2) == 0)
			one_command(slot[i], &t);
		else
			one_edit(&f, slot[i], i, &count[i], &t);
		if (dice(20) == 0) {
			koda_slot_release(slot[i]);
			slot[i] = NULL;
		}
	}
	print_message("# %u done, %u unknown, %u refused\n", t.done, t.unknown, t.refused);
	assert_true(t.done > ops / 32);
	fixture_end(&f);
}

/* ---- what is left behind ---- */

static unsigned
count_lines(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned n = 0;
	int c;

	assert_non_null(file);
	while ((c = fgetc(file)) != EOF)
		n += c == '\n';
	fclose(file);
	return n;
}

static void
nothing_left(void **state)
{
	const unsigned runs = number("KODA_CHAOS_OPS", 600) >= 20000 ? 500 : 60;
	const struct koda_command_options o = { .shell = "echo x > /tmp/y; sleep 1000 & true" };
	unsigned fds = 0, mounts = 0, temporary = 0;
	int child[4];

	for (unsigned i = 0; i <= runs; i++) {
		struct koda_command_result r;
		struct koda_error err;
		struct fixture f;

		fixture_prepare(&f, KODA_AUTO);
		f.options.commands = true;
		fixture_open(&f);
		f.slot = fixture_acquire(&f);
		if (koda_run(f.slot, &o, &r, &err) < 0)
			fail_msg("%s", err.message);
		assert_int_equal(r.status, 0);
		koda_command_result_done(&r);
		fixture_end(&f);
		/* The first session makes what stays: a state directory, a libc buffer. */
		if (i == 0) {
			fds = count_entries("/proc/self/fd");
			mounts = count_lines("/proc/self/mountinfo");
			temporary =
			    count_entries(getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"));
		}
	}
	assert_int_equal(children(getpid(), child, N_ELEMENTS(child)), 0);
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_int_equal(count_lines("/proc/self/mountinfo"), mounts);
	if (getenv("TMPDIR") != NULL)
		assert_int_equal(count_entries(getenv("TMPDIR")), temporary);
}

/* The host itself is killed with SIGKILL in the middle of it; also while a forked child of it
 * lives on with its descriptors. */
static void
host_dies(void **state)
{
	int init[2] = { 0 }, bwrap[2] = { 0 }, pipes[2], status;
	struct fixture f;
	const bool forked = *state != NULL;
	pid_t host, heir = -1;

	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	host = fork();
	assert_true(host >= 0);
	if (host == 0) {
		const struct koda_command_options o = { .shell =
							    "(setsid sleep 1000 &); sleep 1000" };
		struct koda_error err;

		f.ses = koda_session_open(&f.options, &err);
		f.slot = f.ses == NULL ? NULL : koda_slot_acquire(f.ses, NULL, &err);
		if (f.slot != NULL && koda_command_start(f.slot, &o, NULL, NULL, &err) != NULL &&
		    (heir = forked ? fork() : 0) >= 0) {
			if (forked && heir == 0)
				for (;;)
					pause();
			if (write(pipes[1], &heir, sizeof(heir)) == sizeof(heir))
				pause();
		}
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &heir, sizeof(heir)), sizeof(heir));
	assert_true(children(host, bwrap, 2) == (forked ? 2 : 1));
	assert_int_equal(children(bwrap[0], init, 2), 1);
	assert_int_equal(kill(host, SIGKILL), 0);
	assert_int_equal(waitpid(host, &status, 0), host);
	assert_true(wait_for_state(init[0], 0)); /* it ends after every process below it */
	assert_true(wait_for_state(bwrap[0], 0));
	if (forked)
		assert_int_equal(kill(heir, SIGKILL), 0);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(nftw(f.dir, remove_one, 16, FTW_PHYS | FTW_DEPTH), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deaths),
		cmocka_unit_test(nothing_left),
		cmocka_unit_test(host_dies),
		{ "host_dies_forked", host_dies, NULL, NULL, (void *)"" },
	};

	return cmocka_run_group_tests_name("killed_slots", tests, NULL, NULL);
}
