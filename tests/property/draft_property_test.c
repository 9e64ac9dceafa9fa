/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done in a draft and then applied is the same as what is done in the project itself: random
 * operations, by programs, in a draft and in a tree like it, then all of it applied, or a part and then
 * the rest; taken back, the project is as it was, and done again, as it became. Content, permissions,
 * attributes, links, which names are one file, and when content changed. Tests worker/draft,
 * worker/ops/op_swap.c, op_changes.c and host/review.
 *
 * KODA_DRAFT_DRAWS: how many drafts. KODA_TEST_SEED: the first one's seed. A failure is reduced to the
 * operations that it needs, and printed as KODA_DRAFT_OPS, which does only these.
 */
#include <ctype.h>
#include <sys/wait.h>

#include "tests/kit/drafting.h"
#include "tests/kit/random.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/tree_ops.h"
#include "tests/kit/tree_state.h"

#define DRAWS    (SANITIZED ? 10 : 40)
#define SEED     0x6b6f6461
#define OPS_ROOM 48
#define WHY_SIZE 8192
#define LOG_SIZE (64 << 10)

#define WHOLE (TREE_MODES | TREE_LINKS | TREE_MTIMES)

static const char *self;

/* ---- one draft ---- */

struct trial {
	struct fixture f;
	char model[PATH_MAX], outside[PATH_MAX];
	uint64_t seed;
	const char *ops; /* of each operation '1' or '0' */
	struct rng rng;
	bool partly;
	char undo[2][KODA_HISTORY_ID_SIZE];
	char *was, *want; /* states of trees */
	struct {
		char **path;
		size_t n;
	} selected;
	char log[2][LOG_SIZE]; /* in the model, in the draft */
	char why[WHY_SIZE];    /* why it failed; "": it did not */
};

__attribute__((format(printf, 2, 3))) static bool
fails(struct trial *t, const char *format, ...)
{
	va_list args;

	if (t->why[0] != '\0')
		return false;
	va_start(args, format);
	vsnprintf(t->why, sizeof(t->why), format, args);
	va_end(args);
	return false;
}

static void
do_in_model(struct trial *t)
{
	char number[32];
	int out[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	snprintf(number, sizeof(number), "%llu", (unsigned long long)t->seed);
	assert_int_equal(pipe(out), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(out[1], 1);
		close(out[0]);
		close(out[1]);
		execl(self, self, "do", t->model, number, t->ops, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	while ((n = read(out[0], t->log[0] + len, LOG_SIZE - 1 - len)) > 0)
		len += (size_t)n;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static bool
run_in(struct trial *t, struct koda_slot *slot, const char *ops)
{
	char number[32];
	const char *const argv[] = { self, "do", t->f.root, number, ops, NULL };
	const struct koda_command_options o = { .argv = argv, .max_output = LOG_SIZE };
	const size_t len = strlen(t->log[1]);
	struct koda_command_result r;
	struct koda_error err;

	snprintf(number, sizeof(number), "%llu", (unsigned long long)t->seed);
	if (koda_run(slot, &o, &r, &err) < 0)
		return fails(t, "run: %s", err.message);
	if (r.status != 0)
		fails(t, "status %d: %.*s", r.status, (int)r.err.head_len, r.err.head);
	snprintf(t->log[1] + len, LOG_SIZE - len, "%.*s%.*s", (int)r.out.head_len, r.out.head,
	    (int)r.out.tail_len, r.out.tail);
	koda_command_result_done(&r);
	return t->why[0] == '\0';
}

/* Two processes one after the other, and, sometimes, two mounts of the draft. */
static bool
do_in_draft(struct trial *t, char id[64])
{
	char part[2][TREE_OPS_MAX + 1];
	const size_t n = strlen(t->ops), cut = rng_below(&t->rng, (unsigned)n + 1);
	struct koda_slot *slot = draft_open_slot(&t->f, NULL);
	bool done;

	snprintf(id, 64, "%s", koda_slot_draft(slot));
	for (size_t i = 0; i <= n; i++) {
		part[0][i] = i == n || i < cut ? t->ops[i] : '0';
		part[1][i] = i == n || i >= cut ? t->ops[i] : '0';
	}
	done = run_in(t, slot, part[0]);
	if (done && rng_below(&t->rng, 4) == 0) {
		koda_slot_release(slot);
		slot = draft_open_slot(&t->f, id);
	}
	done = done && run_in(t, slot, part[1]);
	koda_slot_release(slot);
	return done;
}

/* ---- checking ---- */

static bool
is_now(struct trial *t, const char *want, unsigned parts, const char *when)
{
	cleanup_free char *is = tree_state(t->f.root, parts);
	const char *difference = tree_difference(want, is);

	return difference == NULL || fails(t, "%s: %s", when, difference);
}

struct deciding {
	struct trial *t;
	const char *what;
	bool may_skip;
};

static int
on_decided(void *data, const struct koda_applied *one)
{
	const struct deciding *d = data;

	if (one->outcome != KODA_APPLIED && !(d->may_skip && one->outcome == KODA_APPLY_SKIPPED))
		fails(d->t, "%s: %s %s '%s': %s", d->what, koda_apply_outcome_name(one->outcome),
		    koda_change_kind_name(one->kind), one->path + strlen(d->t->f.root),
		    one->reason == NULL ? "" : one->reason);
	return 0;
}

/* A name that looks like a glob means itself alone. */
static char *
exact(const char *path)
{
	const bool is_glob = strpbrk(path, "*?[") != NULL;
	char *ret = calloc(2, strlen(path) + 1), *to = ret;

	assert_non_null(ret);
	for (; *path != '\0'; path++) {
		if (is_glob && strchr("*?[\\", *path) != NULL)
			*to++ = '\\';
		*to++ = *path;
	}
	return ret;
}

static int
on_change(void *data, const struct koda_change *c)
{
	struct trial *t = data;

	if (c->rule != NULL || c->conflict)
		fails(t, "listed: %s '%s' is in conflict or refused: %s",
		    koda_change_kind_name(c->kind), c->path + strlen(t->f.root),
		    c->rule == NULL ? "" : c->rule);
	if (!t->partly || rng_below(&t->rng, 2) == 0)
		return 0;
	t->selected.path =
	    reallocarray(t->selected.path, t->selected.n + 1, sizeof(*t->selected.path));
	assert_non_null(t->selected.path);
	t->selected.path[t->selected.n++] = exact(c->path);
	return 0;
}

static bool
apply_part(struct trial *t, struct koda_draft *d, unsigned k)
{
	const struct koda_apply_options o = { .paths = (const char *const *)t->selected.path,
		.n_paths = k == 0 ? t->selected.n : 0 };
	struct deciding deciding = { t, k == 0 ? "apply" : "apply the rest",
		k == 0 && t->selected.n > 0 };
	struct koda_error err;

	if (koda_draft_apply(d, &o, on_decided, &deciding, t->undo[k], &err) != 0)
		return fails(t, "%s: %s", deciding.what, err.message);
	return t->why[0] == '\0';
}

static int
count(void *data, const struct koda_drafted *one)
{
	++*(size_t *)data;
	return 0;
}

static size_t
n_drafts(const struct trial *t)
{
	struct koda_error err;
	size_t n = 0;

	assert_int_equal(koda_drafts_visit(t->f.root, count, &n, &err), 0);
	return n;
}

static bool
apply(struct trial *t, const char *id)
{
	struct koda_error err;
	struct koda_draft *d = koda_draft_open(t->f.ses, id, &err);

	if (d == NULL)
		return fails(t, "open: %s", err.message);
	if (koda_draft_changes(d, on_change, t, NULL, &err) != 0)
		fails(t, "list: %s", err.message);
	/* The part may have been all of it. */
	else if (t->why[0] == '\0' && apply_part(t, d, 0) && n_drafts(t) > 0)
		apply_part(t, d, 1);
	koda_draft_close(d);
	if (n_drafts(t) > 0)
		fails(t, "the draft is still there");
	return t->why[0] == '\0';
}

static bool
turn(struct trial *t, unsigned k, bool redo)
{
	const struct koda_undo_options o = { .redo = redo };
	struct deciding deciding = { t, redo ? "redo" : "undo", false };
	struct koda_error err;

	if (t->undo[k][0] != '\0' &&
	    koda_history_undo(t->f.ses, t->undo[k], &o, on_decided, &deciding, &err) != 0)
		return fails(t, "%s: %s", deciding.what, err.message);
	return t->why[0] == '\0';
}

static void
try(struct trial *t)
{
	/* A file of which one name is applied now and another one later is copied. */
	const unsigned parts = t->partly ? WHOLE & ~TREE_LINKS : WHOLE;
	const unsigned parts_before = t->partly ? WHOLE : WHOLE | TREE_INODES;
	char id[64];

	tree_begin(t->f.root, t->outside, t->seed);
	tree_begin(t->model, NULL, t->seed);
	do_in_model(t);
	t->was = tree_state(t->f.root, parts_before);
	t->want = tree_state(t->model, parts);
	fixture_open(&t->f);
	if (!do_in_draft(t, id))
		return;
	if (tree_difference(t->log[0], t->log[1]) != NULL)
		fails(t, "in the draft: %s", tree_difference(t->log[0], t->log[1]));
	else if (is_now(t, t->was, parts_before, "before it is applied") && apply(t, id) &&
	    is_now(t, t->want, parts, "applied") && turn(t, 1, false) && turn(t, 0, false) &&
	    is_now(t, t->was, parts_before, "undone") && turn(t, 0, true) && turn(t, 1, true))
		is_now(t, t->want, parts, "done again");
}

/* Returns whether it succeeded. Otherwise *ret_why, which the caller frees, says why not. */
static bool
is_right(uint64_t seed, const char *ops, char **ret_why)
{
	struct trial *t = calloc(1, sizeof(*t));
	char state[PATH_MAX];
	bool right;

	assert_non_null(t);
	t->seed = seed;
	t->ops = ops;
	t->rng.s = ~seed;
	t->partly = rng_below(&t->rng, 2) == 0;
	fixture_prepare(&t->f, KODA_AUTO);
	t->f.options.commands = true;
	snprintf(t->model, sizeof(t->model), "%s/model", t->f.dir);
	snprintf(t->outside, sizeof(t->outside), "%s/outside", t->f.dir);
	assert_true(mkdir(t->model, 0755) == 0 && mkdir(t->outside, 0755) == 0);
	try(t);
	right = t->why[0] == '\0';
	if (!right && ret_why != NULL)
		assert_true(asprintf(ret_why, "%s%s\nin the model:\n%s\nin the draft:\n%s", t->why,
				t->partly ? " (in two parts)" : "", t->log[0], t->log[1]) > 0);
	koda_session_close(t->f.ses);
	tree_clear(t->f.dir);
	rmdir(t->f.dir);
	/* The history would grow with each draft. */
	snprintf(state, sizeof(state), "%s/.local/state", getenv("HOME"));
	tree_clear(state);
	while (t->selected.n > 0)
		free(t->selected.path[--t->selected.n]);
	free(t->selected.path);
	free(t->was);
	free(t->want);
	free(t);
	return right;
}

/* ---- many ---- */

/* Leaves out what the failure does not need. */
static void
reduce(uint64_t seed, char *ops)
{
	const size_t n = strlen(ops);

	for (size_t chunk = n / 2; chunk > 0; chunk /= 2)
		for (size_t at = 0; at < n; at += chunk) {
			const size_t len = at + chunk > n ? n - at : chunk;
			char was[TREE_OPS_MAX + 1];

			if (memchr(ops + at, '1', len) == NULL)
				continue;
			strcpy(was, ops);
			memset(ops + at, '0', len);
			if (is_right(seed, ops, NULL))
				strcpy(ops, was);
		}
}

static uint64_t
number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

static void
drafts_are_applied(void **state)
{
	const uint64_t first = number("KODA_TEST_SEED", SEED);
	const uint64_t n = getenv("KODA_DRAFT_OPS") != NULL ? 1 : number("KODA_DRAFT_DRAWS", DRAWS);
	const bool all = getenv("KODA_DRAFT_ALL") != NULL;
	unsigned wrong = 0;

	for (uint64_t i = 0; i < n; i++) {
		const uint64_t seed = first + i;
		struct rng r = { seed };
		char ops[TREE_OPS_MAX + 1] = "", *why = NULL;

		if (getenv("KODA_DRAFT_OPS") != NULL)
			snprintf(ops, sizeof(ops), "%s", getenv("KODA_DRAFT_OPS"));
		else
			memset(ops, '1', 1 + rng_below(&r, OPS_ROOM));
		if (is_right(seed, ops, NULL))
			continue;
		reduce(seed, ops);
		if (is_right(seed, ops, &why))
			why = strdup("not every time");
		print_message("# KODA_TEST_SEED=%#llx KODA_DRAFT_OPS=%s\n# %s\n",
		    (unsigned long long)seed, ops, why);
		free(why);
		if (!all)
			fail_msg("a draft is not what was done in it");
		wrong++;
	}
	print_message("# %llu drafts from seed %#llx\n", (unsigned long long)n,
	    (unsigned long long)first);
	assert_int_equal(wrong, 0);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(drafts_are_applied),
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
	return cmocka_run_group_tests_name("draft_property", tests, NULL, NULL);
}
