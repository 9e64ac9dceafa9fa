/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drafts are made, applied, taken back, done again and discarded, while the host that does it, its
 * worker, its sandbox, or all of them are killed at any moment. What was asked for is there in the end,
 * once and whole, or nothing of it; a user's change stays; no temporary name is left after the next
 * call, and each draft is listed as what it is. Tests host/review, host/draft, worker/draft, stage2/drafts.
 *
 * KODA_CHAOS_OPS: how many operations on files, as often as they are done, applied and taken back.
 * KODA_SOAK_SECONDS: for how long instead. KODA_TEST_SEED repeats the operations, not the kills.
 */
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/kit/drafting.h"
#include "tests/kit/random.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/tree_ops.h"
#include "tests/kit/tree_state.h"

#define OPS       (SANITIZED ? 150 : 400)
#define BATCH_MAX 40
/* Kills of one step; after that it may end. */
#define KILLS_MAX 3
/* How long a step takes that was not tried yet. */
#define STEP_US 400000

#define WHOLE (TREE_MODES | TREE_LINKS | TREE_MTIMES)

static const char *self;
static struct rng rng;

static uint64_t
number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

/* ---- one round ---- */

struct round {
	struct fixture f;
	char model[PATH_MAX];
	uint64_t seed;
	char ops[BATCH_MAX + 1];
	char id[64];
	char entry[32][KODA_HISTORY_ID_SIZE];
	size_t n_entries;
	char *was;
};

static struct {
	uint64_t ops, kills, rounds, unfinished;
} tally;

/* ---- what a host does, in a process of its own ---- */

enum step { STEP_RUN, STEP_APPLY, STEP_UNDO, STEP_REDO, STEP_DISCARD };
static const char *const step_names[] = { "run", "apply", "undo", "redo", "discard" };

static int
host_run(struct round *r, struct koda_session *ses)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT,
		.draft = r->id[0] == '\0' ? NULL : r->id };
	char seed[32];
	const char *const argv[] = { self, "do", r->f.root, seed, r->ops, NULL };
	const struct koda_command_options c = { .argv = argv };
	struct koda_command_result result;
	struct koda_error err;
	struct koda_slot *slot = koda_slot_open(ses, &o, &err);

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)r->seed);
	if (slot == NULL || koda_run(slot, &c, &result, &err) < 0) {
		fprintf(stderr, "run: %s\n", err.message);
		return 4;
	}
	return result.status == 0 ? 0 : 5;
}

static int
on_applied(void *data, const struct koda_applied *one)
{
	if (one->outcome == KODA_APPLIED)
		return 0;
	fprintf(stderr, "%s %s %s: %s\n", koda_apply_outcome_name(one->outcome),
	    koda_change_kind_name(one->kind), one->path, one->reason == NULL ? "" : one->reason);
	return 9;
}

static int
host_decide(struct round *r, struct koda_session *ses, enum step step)
{
	struct koda_error err;
	struct koda_draft *d = koda_draft_open(ses, r->id, &err);
	int status;

	if (d == NULL) {
		/* What was begun was all of it. */
		if (err.code == KODA_INVALID)
			return 0;
		fprintf(stderr, "open: %s\n", err.message);
		return 6;
	}
	status = step == STEP_APPLY ? koda_draft_apply(d, NULL, on_applied, NULL, NULL, &err)
				    : koda_draft_discard(d, NULL, 0, &err);
	if (status != 0)
		fprintf(stderr, "%s: %s\n", step_names[step], status < 0 ? err.message : "");
	koda_draft_close(d);
	return status == 0 ? 0 : 7;
}

static int
host_turn(struct round *r, struct koda_session *ses, bool redo)
{
	const struct koda_undo_options o = { .redo = redo };
	struct koda_error err;

	for (size_t i = 0; i < r->n_entries; i++) {
		const char *id = r->entry[redo ? i : r->n_entries - 1 - i];

		if (koda_history_undo(ses, id, &o, on_applied, NULL, &err) != 0) {
			fprintf(stderr, "%s: %s\n", redo ? "redo" : "undo", err.message);
			return 8;
		}
	}
	return 0;
}

static int
host(struct round *r, enum step step)
{
	struct koda_error err;
	struct koda_session *ses = koda_session_open(&r->f.options, &err);
	int status;

	if (ses == NULL) {
		fprintf(stderr, "session: %s\n", err.message);
		return 3;
	}
	status = step == STEP_RUN                        ? host_run(r, ses)
	    : step == STEP_APPLY || step == STEP_DISCARD ? host_decide(r, ses, step)
							 : host_turn(r, ses, step == STEP_REDO);
	koda_session_close(ses);
	return status;
}

/* ---- killing ---- */

/* Stores the children of a process and theirs in ret, at most max, and returns how many. */
static size_t
descendants(pid_t parent, pid_t *ret, size_t max)
{
	char path[64], text[1024];
	cleanup_close int fd = -1;
	size_t n = 0;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	for (char *save, *p = strtok_r(text, " ", &save); p != NULL && n < max;
	     p = strtok_r(NULL, " ", &save)) {
		const pid_t pid = (pid_t)strtol(p, NULL, 10);

		ret[n++] = pid;
		n += descendants(pid, ret + n, max - n);
	}
	return n;
}

/* The host, something below it (its worker, bwrap, stage2, a command), or everything. */
static void
kill_some(pid_t pid)
{
	pid_t below[64];
	const size_t n = descendants(pid, below, N_ELEMENTS(below));
	const unsigned what = rng_below(&rng, 4);

	tally.kills++;
	if (what < 2 || n == 0)
		kill(pid, SIGKILL);
	if (what == 1)
		for (size_t i = 0; i < n; i++)
			kill(below[i], SIGKILL);
	else if (what > 1 && n > 0)
		kill(below[rng_below(&rng, (unsigned)n)], SIGKILL);
}

/* Waits until nothing of a host is left: orphans become children of this process. */
static int
wait_for_all(pid_t pid)
{
	int status, ret = -1;
	pid_t gone;

	while ((gone = waitpid(-1, &status, 0)) > 0 || errno == EINTR)
		if (gone == pid)
			ret = status;
	return ret;
}

/* How long each step took when it was not killed: kills come until then. */
static uint64_t step_us[N_ELEMENTS(step_names)];

/* Returns the status of the host, which may have been killed: then a signal is in it. */
static int
attempt(struct round *r, enum step step, bool killed)
{
	const uint64_t begun_ms = clock_ms();
	const pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		/* A host that is killed on the way is no failure, and what it says no news. */
		if (killed)
			(void)!freopen("/dev/null", "w", stderr);
		_exit(host(r, step));
	}
	if (killed) {
		const uint64_t longest = step_us[step] == 0 ? STEP_US : step_us[step];
		const uint64_t us = rng_next(&rng) % longest;

		nanosleep(&(struct timespec){ .tv_sec = (time_t)(us / 1000000),
			      .tv_nsec = (long)(us % 1000000 * 1000) },
		    NULL);
		kill_some(pid);
	}
	status = wait_for_all(pid);
	if (!killed)
		step_us[step] = (clock_ms() - begun_ms + 1) * 1000;
	return status;
}

/* ---- invariants ---- */

static int
find_draft(void *data, const struct koda_drafted *one)
{
	struct round *r = data;

	if (one->in_use)
		fail_msg("draft '%s' is in use, and no host is left", one->id);
	if (r->id[0] != '\0' && strcmp(r->id, one->id) != 0)
		fail_msg("draft '%s' was never made", one->id);
	snprintf(r->id, sizeof(r->id), "%s", one->id);
	return 1;
}

/* Is there a draft? */
static bool
has_draft(struct round *r)
{
	struct koda_error err;
	const int n = koda_drafts_visit(r->f.root, find_draft, r, &err);

	if (n < 0)
		fail_msg("drafts: %s", err.message);
	return n == 1;
}

static int
find_entry(void *data, const struct koda_history_entry *one)
{
	struct round *r = data;

	assert_true(r->n_entries < N_ELEMENTS(r->entry));
	if (one->in_use)
		fail_msg("entry '%s' is in use, and no host is left", one->id);
	snprintf(r->entry[r->n_entries++], KODA_HISTORY_ID_SIZE, "%s", one->id);
	return 0;
}

static int
count_unfinished(void *data, const struct koda_history_entry *one)
{
	tally.unfinished += one->unfinished;
	return 0;
}

static void
find_entries(struct round *r)
{
	struct koda_error err;

	r->n_entries = 0;
	if (koda_history_visit(r->f.root, find_entry, r, &err) != 0)
		fail_msg("history: %s", err.message);
}

static void
is_now(const struct round *r, const char *want, const char *when)
{
	cleanup_free char *is = tree_state(r->f.root, WHOLE);
	const char *difference = tree_difference(want, is);

	if (difference != NULL)
		fail_msg("seed %#llx, %s: %s", (unsigned long long)r->seed, when, difference);
}

/* A step, killed some times, and then to its end. */
static void
go(struct round *r, enum step step)
{
	unsigned kills = rng_below(&rng, KILLS_MAX + 1);
	struct koda_error err;
	int status;

	while (kills-- > 0) {
		attempt(r, step, true);
		if (step == STEP_APPLY || step == STEP_DISCARD)
			has_draft(r);
		if (koda_history_visit(r->f.root, count_unfinished, NULL, &err) != 0)
			fail_msg("history: %s", err.message);
	}
	status = attempt(r, step, false);
	if (status != 0)
		fail_msg("seed %#llx, %s: the host ended with 0x%x", (unsigned long long)r->seed,
		    step_names[step], (unsigned)status);
	tally.ops += strlen(r->ops);
}

static void
do_in_model(const struct round *r)
{
	char seed[32];
	int status;
	const pid_t pid = fork();

	assert_true(pid >= 0);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)r->seed);
	if (pid == 0) {
		(void)!freopen("/dev/null", "w", stdout);
		execl(self, self, "do", r->model, seed, r->ops, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
begin(struct round *r)
{
	*r = (struct round){ .seed = rng_next(&rng) };
	memset(r->ops, '1', 1 + rng_below(&rng, BATCH_MAX));
	fixture_prepare(&r->f, KODA_AUTO);
	r->f.options.commands = true;
	snprintf(r->model, sizeof(r->model), "%s/model", r->f.dir);
	assert_int_equal(mkdir(r->model, 0755), 0);
	tree_begin(r->f.root, NULL, r->seed);
	r->was = tree_state(r->f.root, WHOLE);
}

static void
end(struct round *r)
{
	char state[PATH_MAX];

	snprintf(state, sizeof(state), "%s/.local/state", getenv("HOME"));
	tree_clear(state);
	tree_clear(r->f.dir);
	rmdir(r->f.dir);
	free(r->was);
	tally.rounds++;
}

/* Back and forth; the state in between is `then`. */
static void
turn_often(struct round *r, const char *then)
{
	find_entries(r);
	go(r, STEP_UNDO);
	is_now(r, r->was, "undone");
	if (rng_below(&rng, 2) == 0)
		return;
	go(r, STEP_REDO);
	is_now(r, then, "done again");
	go(r, STEP_UNDO);
	is_now(r, r->was, "undone again");
}

/* The command ends, and what it did is known. */
static void
applied_round(struct round *r)
{
	cleanup_free char *want = NULL;

	tree_begin(r->model, NULL, r->seed);
	do_in_model(r);
	want = tree_state(r->model, WHOLE);
	assert_int_equal(attempt(r, STEP_RUN, false), 0);
	assert_true(has_draft(r));
	is_now(r, r->was, "before it is applied");
	go(r, STEP_APPLY);
	assert_false(has_draft(r));
	is_now(r, want, "applied");
	turn_often(r, want);
}

/* The command is killed: the draft has what it had done, and perhaps half of a file. */
static void
killed_round(struct round *r)
{
	cleanup_free char *then = NULL;

	attempt(r, STEP_RUN, true);
	is_now(r, r->was, "after a killed command");
	if (!has_draft(r))
		return;
	if (rng_below(&rng, 3) == 0) {
		go(r, STEP_DISCARD);
		assert_false(has_draft(r));
		is_now(r, r->was, "discarded");
		return;
	}
	go(r, STEP_APPLY);
	assert_false(has_draft(r));
	then = tree_state(r->f.root, WHOLE);
	turn_often(r, then);
}

/* The user changes a file that the draft changes, too, and keeps it. */
static void
conflict_round(struct round *r)
{
	struct koda_error err;
	struct koda_slot *slot;
	struct koda_draft *d;
	char text[64];

	put_text(&r->f, "conflict", "the project's\n");
	free(r->was);
	r->was = tree_state(r->f.root, WHOLE);
	fixture_open(&r->f);
	slot = draft_open_slot(&r->f, NULL);
	draft_out(slot, "echo draft >conflict; echo x >fresh");
	koda_slot_release(slot);
	koda_session_close(r->f.ses);
	assert_true(has_draft(r));
	snprintf(text, sizeof(text), "the user's %llu\n", (unsigned long long)r->seed);
	put_text(&r->f, "conflict", text);
	for (unsigned i = rng_below(&rng, KILLS_MAX + 1); i > 0; i--) {
		attempt(r, STEP_APPLY, true);
		assert_true(has_draft(r));
		assert_string_equal(get_text(&r->f, "conflict"), text);
	}
	fixture_open(&r->f);
	d = koda_draft_open(r->f.ses, r->id, &err);
	assert_non_null(d);
	assert_int_equal(koda_draft_apply(d, NULL, NULL, NULL, NULL, &err), 0);
	assert_string_equal(get_text(&r->f, "conflict"), text);
	assert_string_equal(get_text(&r->f, "fresh"), "x\n");
	assert_int_equal(koda_draft_discard(d, NULL, 0, &err), 0);
	koda_draft_close(d);
	koda_session_close(r->f.ses);
	assert_false(has_draft(r));
	tally.ops += 2;
}

static void
drafts(void **state)
{
	const uint64_t ops = number("KODA_CHAOS_OPS", OPS), soak = number("KODA_SOAK_SECONDS", 0);
	const uint64_t end_ms = clock_ms() + soak * 1000;

	rng.s = number("KODA_TEST_SEED", 0x6b6f6461);
	while (soak > 0 ? clock_ms() < end_ms : tally.ops < ops) {
		struct round r;

		begin(&r);
		switch (tally.rounds % 4) {
		case 0:
		case 2:
			applied_round(&r);
			break;
		case 1:
			killed_round(&r);
			break;
		default:
			conflict_round(&r);
			break;
		}
		assert_int_equal(count_temps(&r.f), 0);
		end(&r);
	}
	print_message("# %llu operations in %llu drafts, %llu kills, %llu found unfinished\n",
	    (unsigned long long)tally.ops, (unsigned long long)tally.rounds,
	    (unsigned long long)tally.kills, (unsigned long long)tally.unfinished);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(drafts),
	};
	static char path[PATH_MAX];

	if (argc == 5 && strcmp(argv[1], "do") == 0) {
		if (chdir(argv[2]) < 0)
			return 2;
		tree_do(strtoull(argv[3], NULL, 10), argv[4]);
		return 0;
	}
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	self = path;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	return cmocka_run_group_tests_name("killed_drafts", tests, NULL, NULL);
}
