/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of working in a draft. The rows compare with the same work in a slot that writes the
 * project itself, in a small project, or outside.
 */
#include <err.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "bench/slots.h"
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
	char history[PATH_MAX]; /* of what was applied */
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

static const char *const just_true[] = { "true", NULL };
static const char *const git_status[] = { "git", "status", "--porcelain", NULL };
/* See bench/commands.c. */
#define COMPILE "cc -O1 -pipe -c *.c"

static int
warm_draft(void *data)
{
	return slots_run(w.draft[CODE], just_true, NULL);
}

static int
warm_direct(void *data)
{
	return slots_run(w.direct[CODE], just_true, NULL);
}

static int
status_draft(void *data)
{
	return slots_run(w.draft[BIG], git_status, NULL);
}

static int
status_direct(void *data)
{
	return slots_run(w.direct[BIG], git_status, NULL);
}

static int
compile_draft(void *data)
{
	return slots_run(w.draft[CODE], NULL, COMPILE);
}

static int
compile_direct(void *data)
{
	return slots_run(w.direct[CODE], NULL, COMPILE);
}

#define APPEND "for f in */*; do echo x >>$f; done"

static int
append_draft(void *data)
{
	double start = now_seconds();
	int r = slots_run(w.draft[MANY], NULL, APPEND);

	w.measured = (now_seconds() - start) * 1e9;
	return r;
}

/* The next sample begins with a draft of its own. */
static int
forget_draft(void *data)
{
	struct koda_draft *draft = slots_draft(w.ses[MANY], w.draft[MANY]);
	struct koda_error e;
	int r;

	w.draft[MANY] = NULL;
	if (draft == NULL)
		return -1;
	r = koda_draft_discard(draft, NULL, 0, &e);
	if (r < 0)
		complain_error("discard", &e);
	koda_draft_close(draft);
	if (r < 0)
		return -1;
	w.draft[MANY] = slots_open(w.ses[MANY], KODA_WORKSPACE_DRAFT);
	return w.draft[MANY] != NULL ? 0 : -1;
}

/* The same work in a bare overlay. The draft cannot be faster than that. */
static int
append_overlay(void *data)
{
	static const char script[] =
	    "mount -t overlay -o userxattr,volatile,lowerdir=many,upperdir=upper,workdir=work none merged\n"
	    "cd merged\n" APPEND;
	static const char *const mount[] = { "unshare", "-Urm", "sh", "-e", "-c", script, NULL };
	/* The kernel leaves work/work with mode 000. */
	static const char *const forget[] = { "sh", "-c", "chmod 700 work/work && rm -r upper work",
		NULL };
	double start;
	int r;

	make_dir("upper");
	make_dir("work");
	make_dir("merged");
	start = now_seconds();
	r = floor_run(mount, NULL);
	w.measured = (now_seconds() - start) * 1e9;
	return r < 0 ? -1 : floor_run(forget, NULL);
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

/* ---- a command in a draft of its own ---- */

struct own_draft {
	const char *script;
	size_t changes; /* that it makes */
};

static const struct own_draft own_nothing = { "true", 0 }, own_file = { "echo x >changed", 1 };

static int
count_change(void *data, const struct koda_change *change)
{
	size_t *n = data;

	(*n)++;
	return 0;
}

static int
count_applied(void *data, const struct koda_applied *one)
{
	size_t *n = data;

	*n += one->outcome == KODA_APPLIED;
	return 0;
}

/* Discards what changed nothing, as the MCP server does, and applies the rest. */
static int
decide(struct koda_draft *draft, const struct own_draft *own)
{
	size_t n = 0, applied = 0;
	struct koda_error e;
	int r = koda_draft_changes(draft, count_change, &n, NULL, &e);

	if (r == 0)
		r = n == 0 ? koda_draft_discard(draft, NULL, 0, &e)
			   : koda_draft_apply(draft, NULL, count_applied, &applied, NULL, &e);
	koda_draft_close(draft);
	if (r < 0)
		return complain_error("draft", &e);
	if (n == own->changes && applied == n)
		return 0;
	fprintf(stderr, "%zu changes, of which %zu were applied\n", n, applied);
	return -1;
}

static int
own_ours(void *data)
{
	const struct own_draft *own = data;
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_error e;
	struct koda_slot *slot = koda_slot_open(w.ses[CODE], &o, &e);
	struct koda_draft *draft;

	if (slot == NULL)
		return complain_error("slot", &e);
	if (slots_run(slot, NULL, own->script) < 0) {
		koda_slot_release(slot);
		return -1;
	}
	draft = slots_draft(w.ses[CODE], slot);
	return draft == NULL ? -1 : decide(draft, own);
}

static int
own_outside(void *data)
{
	const struct own_draft *own = data;
	const char *const argv[] = { "sh", "-c", own->script, NULL };
	char out[16];

	return floor_capture(argv, w.small, out, sizeof(out));
}

static int
own_forget(void *data)
{
	const char *const forget[] = { "rm", "-rf", w.history, "code/changed", NULL };

	return floor_run(forget, NULL);
}

#define OWN(what) (void *)(uintptr_t)(what)

/* clang-format off */
static const struct row rows[] = {
	{ "draft_cold",    "ms", 1e-6, { cold_huge,     cold_small,     .batch = 2, .repeat = 1 }, 1.1, 4, 0 },
	{ "draft_warm",    "us", 1e-3, { warm_draft,    warm_direct,    .batch = 16, .repeat = 1 }, 1.05, 4, 0 },
	{ "draft_read",    "ms", 1e-6, { status_draft,  status_direct,  .batch = 2, .repeat = 1 }, 1.15, 4, 0 },
	{ "draft_build",   "ms", 1e-6, { compile_draft, compile_direct, .batch = 1, .repeat = 1 }, 1.05, 4, 0 },
	{ "draft_copy_up", "ms", 1e-6, { append_draft,  copy_outside,   forget_draft, .batch = 1, .repeat = 1,
	                                 .measured = &w.measured }, 1.3, 4, 0 },
	{ "draft_copy_up_bare", "ms", 1e-6, { append_draft, append_overlay, forget_draft, .batch = 1, .repeat = 1,
	                                 .measured = &w.measured }, 0, 4, 0 },
	{ "exec_draft",    "us", 1e-3, { own_ours, own_outside, own_forget, OWN(&own_nothing), .batch = 4, .repeat = 1 }, 1.7, 4, 0 },
	{ "exec_draft_one", "us", 1e-3, { own_ours, own_outside, own_forget, OWN(&own_file), .batch = 4, .repeat = 1 }, 2.0, 4, 0 },
};
/* clang-format on */

/* ---- setting up ---- */

static void
make(const struct setting *set)
{
	static const char *const names[N_TREES] = { "big", "code", "many" };

	w.program = set->program;
	w.helpers = set->helpers;
	snprintf(w.huge, sizeof(w.huge), "%s/huge", set->root);
	snprintf(w.small, sizeof(w.small), "%s/small", set->root);
	for (int i = 0; i < N_TREES; i++)
		snprintf(w.tree[i], sizeof(w.tree[i]), "%s/%s", set->root, names[i]);
	slots_home(set->root, w.history);
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
	w.ses[tree] = slots_session(w.tree[tree], w.helpers);
	if (w.ses[tree] == NULL)
		return -1;
	w.direct[tree] = slots_open(w.ses[tree], KODA_WORKSPACE_DIRECT);
	w.draft[tree] = slots_open(w.ses[tree], KODA_WORKSPACE_DRAFT);
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
