/*
 * The cost of working in a draft. The rows compare with the same work in a slot that writes the
 * project itself, in a small project, or outside.
 */
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "bench/trees.h"

#define HUGE_DIRS       2000
#define HUGE_DIRS_BRIEF 100
#define HUGE_FILES      100 /* files in each of them */
#define SMALL_FILES     100
#define MANY_DIRS       20
#define MANY_FILES      100 /* files in each of them */
#define MANY_SIZE       4096

enum tree { BIG, CODE, MANY, N_TREES };

static struct {
	const char *program, *helpers;
	char huge[PATH_MAX], small[PATH_MAX], tree[N_TREES][PATH_MAX];
	struct koda_session *ses[N_TREES];
	struct koda_slot *direct[N_TREES], *draft[N_TREES];
	double measured;
} w;

/* ---- the rows ---- */

static int
cold_in(const char *root)
{
	const char *const argv[] = { w.program, "run", "--draft", "--mode", "auto", "--root", root,
		"--", "true", NULL };

	return floor_run(argv, NULL);
}

static int
cold_huge(void *data)
{
	return cold_in(w.huge);
}

static int
cold_small(void *data)
{
	return cold_in(w.small);
}

static int
run(struct koda_slot *slot, const char *const *argv, const char *shell)
{
	const struct koda_command_options o = { .argv = argv, .shell = shell };
	struct koda_command_result result;
	struct koda_error e;
	int status;

	if (koda_run(slot, &o, &result, &e) < 0)
		return complain_error("run", &e);
	status = result.status;
	if (status != 0)
		fprintf(stderr, "the command ended with %d: %.*s\n", status,
		    (int)result.err.head_len, result.err.head);
	koda_command_result_done(&result);
	return status == 0 ? 0 : -1;
}

static const char *const just_true[] = { "true", NULL };
static const char *const git_status[] = { "git", "status", "--porcelain", NULL };
/* See bench/commands.c. */
#define COMPILE "cc -O1 -pipe -c *.c"

static int
warm_draft(void *data)
{
	return run(w.draft[CODE], just_true, NULL);
}

static int
warm_direct(void *data)
{
	return run(w.direct[CODE], just_true, NULL);
}

static int
status_draft(void *data)
{
	return run(w.draft[BIG], git_status, NULL);
}

static int
status_direct(void *data)
{
	return run(w.direct[BIG], git_status, NULL);
}

static int
compile_draft(void *data)
{
	return run(w.draft[CODE], NULL, COMPILE);
}

static int
compile_direct(void *data)
{
	return run(w.direct[CODE], NULL, COMPILE);
}

static struct koda_slot *
open_slot(struct koda_session *ses, enum koda_workspace workspace)
{
	const struct koda_slot_options o = { .workspace = workspace };
	struct koda_error e;
	struct koda_slot *slot = koda_slot_open(ses, &o, &e);

	if (slot == NULL)
		complain_error("slot", &e);
	return slot != NULL && run(slot, just_true, NULL) == 0 ? slot : NULL;
}

static int
append_draft(void *data)
{
	double start = now_seconds();
	int r = run(w.draft[MANY], NULL, "for f in */*; do echo x >>$f; done");

	w.measured = (now_seconds() - start) * 1e9;
	return r;
}

/* The next sample begins with a draft of its own. */
static int
forget_draft(void *data)
{
	struct koda_slot *slot = w.draft[MANY];
	struct koda_draft *draft;
	struct koda_error e;
	char id[64];
	int r;

	snprintf(id, sizeof(id), "%s", koda_slot_draft(slot));
	w.draft[MANY] = NULL;
	koda_slot_release(slot);
	draft = koda_draft_open(w.ses[MANY], id, &e);
	if (draft == NULL)
		return complain_error("draft", &e);
	r = koda_draft_discard(draft, NULL, 0, &e);
	if (r < 0)
		complain_error("discard", &e);
	koda_draft_close(draft);
	return r == 0 && (w.draft[MANY] = open_slot(w.ses[MANY], KODA_WORKSPACE_DRAFT)) != NULL
	    ? 0
	    : -1;
}

static int
copy_outside(void *data)
{
	static const char *const copy[] = { "cp", "-r", "--reflink=never", "many", "copy", NULL };
	static const char *const forget[] = { "rm", "-r", "copy", NULL };
	double start = now_seconds();
	int r = floor_run(copy, NULL);

	w.measured = (now_seconds() - start) * 1e9;
	return r < 0 ? -1 : floor_run(forget, NULL);
}

/* clang-format off */
static const struct row rows[] = {
	{ "draft_cold",    "ms", 1e-6, { cold_huge,     cold_small,     .batch = 2, .repeat = 1 }, 1.1, 4, 0 },
	{ "draft_warm",    "us", 1e-3, { warm_draft,    warm_direct,    .batch = 16, .repeat = 1 }, 1.05, 4, 0 },
	{ "draft_read",    "ms", 1e-6, { status_draft,  status_direct,  .batch = 2, .repeat = 1 }, 1.15, 4, 0 },
	{ "draft_build",   "ms", 1e-6, { compile_draft, compile_direct, .batch = 1, .repeat = 1 }, 1.05, 4, 0 },
	{ "draft_copy_up", "ms", 1e-6, { append_draft,  copy_outside,   forget_draft, .batch = 1, .repeat = 1,
	                                 .measured = &w.measured }, 1.3, 4, 0 },
};
/* clang-format on */

/* ---- setting up ---- */

static void
make_flat(const char *dir, unsigned dirs, unsigned files, size_t size)
{
	static const char text[MANY_SIZE];
	char name[PATH_MAX];

	make_dir(dir);
	for (unsigned i = 0; i < dirs; i++) {
		snprintf(name, sizeof(name), "%s/dir%u", dir, i);
		make_dir(name);
		for (unsigned k = 0; k < files; k++) {
			snprintf(name, sizeof(name), "%s/dir%u/file%u", dir, i, k);
			put_file(name, text, size);
		}
	}
}

static void
make(const struct setting *set)
{
	static const char *const names[N_TREES] = { "big", "code", "many" };
	char home[PATH_MAX];

	w.program = set->program;
	w.helpers = set->helpers;
	snprintf(w.huge, sizeof(w.huge), "%s/huge", set->root);
	snprintf(w.small, sizeof(w.small), "%s/small", set->root);
	for (int i = 0; i < N_TREES; i++)
		snprintf(w.tree[i], sizeof(w.tree[i]), "%s/%s", set->root, names[i]);
	/* See bench/commands.c. */
	snprintf(home, sizeof(home), "%s/home", set->root);
	if (setenv("HOME", home, 1) < 0 || unsetenv("XDG_STATE_HOME") < 0 ||
	    unsetenv("XDG_CONFIG_HOME") < 0)
		err(1, "environment");
	make_dir("home");
	make_flat("huge", set->brief ? HUGE_DIRS_BRIEF : HUGE_DIRS, HUGE_FILES, 0);
	make_flat("small", 1, SMALL_FILES, 0);
	make_flat("many", MANY_DIRS, MANY_FILES, MANY_SIZE);
	make_big("big");
	make_repository(w.tree[BIG]);
	make_dir("code");
	make_sources("code", set->brief);
}

/* ---- processes ---- */

static void
stop(void)
{
	for (int i = 0; i < N_TREES; i++) {
		koda_session_close(w.ses[i]);
		w.ses[i] = NULL;
	}
}

static int
start_in(enum tree tree)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_error e;

	options.root = w.tree[tree];
	options.mode = KODA_AUTO;
	options.helper_dir = w.helpers;
	options.commands = true;
	w.ses[tree] = koda_session_open(&options, &e);
	if (w.ses[tree] == NULL)
		return complain_error("session", &e);
	w.direct[tree] = open_slot(w.ses[tree], KODA_WORKSPACE_DIRECT);
	w.draft[tree] = open_slot(w.ses[tree], KODA_WORKSPACE_DRAFT);
	return w.direct[tree] != NULL && w.draft[tree] != NULL ? 0 : -1;
}

static int
start(void)
{
	for (int i = 0; i < N_TREES; i++) {
		if (start_in((enum tree)i) < 0) {
			stop();
			return -1;
		}
	}
	return 0;
}

const struct group draft_group = { "drafts", rows, sizeof(rows) / sizeof(rows[0]), make, start,
	stop, NULL, NULL };
