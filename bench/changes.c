/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of looking at what a draft changed, of applying it and of taking it back. The rows compare
 * with programs that do the part of it that cannot be left out.
 */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "bench/slots.h"
#include "bench/trees.h"
#include "shared/base/cleanup.h"

#define HUGE_DIRS       2000
#define HUGE_DIRS_BRIEF 100
#define HUGE_FILES      100 /* files in each of them */
#define HUGE_CHANGED    10  /* of them changed */
#define NEW_DIRS        200
#define NEW_DIRS_BRIEF  10
#define NEW_FILES       100 /* files in each of them */
#define NEW_SIZE        512

static struct {
	const char *helpers;
	unsigned dirs, new_dirs;
	char huge[PATH_MAX], project[PATH_MAX], upper[PATH_MAX], history[PATH_MAX];
	struct koda_session *huge_ses, *ses;
	struct koda_draft *changed;
	char changed_id[64]; /* both passes look at the same draft */
	char undo[KODA_HISTORY_ID_SIZE];
	double measured, applied;
} w;

/* ---- looking ---- */

static int
count_change(void *data, const struct koda_change *change)
{
	unsigned *n = data;

	*n += change->kind == KODA_CHANGE_CHANGED;
	return 0;
}

static int
list_changes(void *data)
{
	unsigned n = 0;
	struct koda_error e;

	if (koda_draft_changes(w.changed, count_change, &n, NULL, &e) < 0)
		return complain_error("changes", &e);
	if (n == w.dirs * HUGE_CHANGED)
		return 0;
	fprintf(stderr, "changes: %u instead of %u\n", n, w.dirs * HUGE_CHANGED);
	return -1;
}

static int
find_upper(void *data)
{
	/* What the list says of each name, of the draft's side only. */
	const char *const argv[] = { "find", w.upper, "-fprintf", "/dev/null", "%y %m %s %T@ %p\n",
		NULL };

	return floor_run(argv, NULL);
}

static int
compare_both(void *data)
{
	return floor_compare(w.upper, w.huge);
}

/* ---- applying ---- */

static int
count_applied(void *data, const struct koda_applied *one)
{
	unsigned *n = data;

	*n += one->outcome == KODA_APPLIED;
	return 0;
}

static int
check_count(const char *what, unsigned n)
{
	const unsigned all = w.new_dirs * (NEW_FILES + 1);

	if (n == all)
		return 0;
	fprintf(stderr, "%s: %u instead of %u\n", what, n, all);
	return -1;
}

static struct koda_slot *
make_new_draft(void)
{
	struct koda_slot *slot = slots_open(w.ses, KODA_WORKSPACE_DRAFT);
	char script[512];

	snprintf(script, sizeof(script),
	    "text=$(head -c %d /dev/zero | tr '\\0' x); "
	    "for d in $(seq %u); do mkdir dir$d; for f in $(seq %u); do printf %%s $text >dir$d/file$f; done; done",
	    NEW_SIZE, w.new_dirs, NEW_FILES);
	if (slot == NULL || slots_run(slot, NULL, script) == 0)
		return slot;
	koda_slot_release(slot);
	return NULL;
}

/* Everything that `draft apply` does. */
static int
apply(void *data)
{
	struct koda_slot *slot = make_new_draft();
	struct koda_draft *draft;
	struct koda_error e;
	double start;
	unsigned n = 0;
	int r;
	char id[64];

	if (slot == NULL)
		return -1;
	snprintf(id, sizeof(id), "%s", koda_slot_draft(slot));
	koda_slot_release(slot);
	start = now_seconds();
	draft = koda_draft_open(w.ses, id, &e);
	if (draft == NULL)
		return complain_error("draft", &e);
	r = koda_draft_apply(draft, NULL, count_applied, &n, w.undo, &e);
	koda_draft_close(draft);
	w.measured = w.applied = (now_seconds() - start) * 1e9;
	return r < 0 ? complain_error("apply", &e) : check_count("apply", n);
}

/* Remove what is in the project, and the history. The project itself stays: it is the session's root. */
static int
forget(void *data)
{
	const char *const argv[] = { "sh", "-c", "rm -rf \"$0\" project/*", w.history, NULL };

	return floor_run(argv, NULL);
}

static int
undo(void *data)
{
	unsigned n = 0;
	struct koda_error e;
	double start;

	if (apply(data) < 0)
		return -1;
	start = now_seconds();
	if (koda_history_undo(w.ses, w.undo, NULL, count_applied, &n, &e) < 0)
		return complain_error("undo", &e);
	w.measured = (now_seconds() - start) * 1e9;
	return check_count("undo", n);
}

/* What applying has taken right before, of the same files. */
static int
apply_before(void *data)
{
	w.measured = w.applied;
	return 0;
}

/* Time `step`, which brings the files of "from" to "to". */
static int
time_outside(step_fn *step)
{
	static const char *const remove[] = { "rm", "-rf", "from", "to", NULL };
	double start;
	int r;

	make_flat("from", w.new_dirs, NEW_FILES, NEW_SIZE);
	start = now_seconds();
	r = step(NULL);
	w.measured = (now_seconds() - start) * 1e9;
	return r < 0 ? -1 : floor_run(remove, NULL);
}

static int
move(void *data)
{
	return floor_move("from", "to");
}

static int
move_outside(void *data)
{
	return time_outside(move);
}

static int
copy(void *data)
{
	static const char *const argv[] = { "cp", "-a", "from", "to", NULL };

	return floor_run(argv, NULL);
}

static int
copy_outside(void *data)
{
	return time_outside(copy);
}

/* clang-format off */
static const struct row rows[] = {
	{ "draft_diff",     "ms", 1e-6, { list_changes, find_upper,   .batch = 1, .repeat = 1 }, 2.0, 4, 0 },
	{ "draft_diff_both", "ms", 1e-6, { list_changes, compare_both, .batch = 1, .repeat = 1 }, 0, 4, 0 },
	{ "draft_apply",    "ms", 1e-6, { apply, move_outside, forget, .batch = 1, .repeat = 1, .measured = &w.measured }, 2.0, 3, 0 },
	{ "draft_apply_cp", "ms", 1e-6, { apply, copy_outside, forget, .batch = 1, .repeat = 1, .measured = &w.measured }, 1.0, 3, 0 },
	{ "undo",           "ms", 1e-6, { undo,  apply_before, forget, .batch = 1, .repeat = 1, .measured = &w.measured }, 1.0, 3, 0 },
};
/* clang-format on */

/* ---- other programs ---- */

static int
synchronise(void *data)
{
	static const char *const argv[] = { "rsync", "-a", "from/", "to/", NULL };

	return floor_run(argv, NULL);
}

static int
rsync_outside(void *data)
{
	return time_outside(synchronise);
}

/* git, too, holds the files back until they are wanted. */
static int
stash_outside(void *data)
{
	static const char *const push[] = { "git", "-c", "user.name=bench", "-c",
		"user.email=bench@localhost", "stash", "push", "-q", "-u", NULL };
	static const char *const pop[] = { "git", "stash", "pop", "-q", NULL };
	static const char *const remove[] = { "rm", "-r", "repository/new", NULL };
	double start;

	make_flat("repository/new", w.new_dirs, NEW_FILES, NEW_SIZE);
	if (floor_run(push, "repository") < 0)
		return -1;
	start = now_seconds();
	if (floor_run(pop, "repository") < 0)
		return -1;
	w.measured = (now_seconds() - start) * 1e9;
	return floor_run(remove, NULL);
}

/* clang-format off */
static const struct row peer_rows[] = {
	{ "peer_apply_rsync", "ms", 1e-6, { apply, rsync_outside, forget, .batch = 1, .repeat = 1, .measured = &w.measured }, 0, 3, 0 },
	{ "peer_apply_stash", "ms", 1e-6, { apply, stash_outside, forget, .batch = 1, .repeat = 1, .measured = &w.measured }, 0, 3, 0 },
};
/* clang-format on */

static const char *
missing(const struct row *row)
{
	return row->race.floor == rsync_outside && access("/usr/bin/rsync", X_OK) < 0
	    ? "not installed"
	    : NULL;
}

/* ---- setting up ---- */

static void
make_project(const struct setting *set)
{
	w.helpers = set->helpers;
	w.new_dirs = set->brief ? NEW_DIRS_BRIEF : NEW_DIRS;
	snprintf(w.project, sizeof(w.project), "%s/project", set->root);
	slots_home(set->root, w.history);
	make_dir("project");
}

static void
make_all(const struct setting *set)
{
	make_project(set);
	w.dirs = set->brief ? HUGE_DIRS_BRIEF : HUGE_DIRS;
	snprintf(w.huge, sizeof(w.huge), "%s/huge", set->root);
	make_flat("huge", w.dirs, HUGE_FILES, 0);
}

static void
make_peers(const struct setting *set)
{
	make_project(set);
	make_flat("repository", 1, 1, NEW_SIZE);
	make_repository("repository");
}

/* Store the path of the draft's layer in w.upper. */
static int
find_layer(void)
{
	char pattern[PATH_MAX];
	glob_t found;
	int r;

	snprintf(pattern, sizeof(pattern), "home/.local/state/koda-sandbox/drafts/*/%s/0/u",
	    w.changed_id);
	r = glob(pattern, 0, NULL, &found);
	if (r == 0) {
		snprintf(w.upper, sizeof(w.upper), "%s", found.gl_pathv[0]);
		globfree(&found);
	} else {
		fprintf(stderr, "%s: not found\n", pattern);
	}
	return r == 0 ? 0 : -1;
}

/* Changes the first files of each directory. */
static int
make_changes(void)
{
	struct koda_slot *slot = slots_open(w.huge_ses, KODA_WORKSPACE_DRAFT);
	char script[128];
	int r;

	snprintf(script, sizeof(script),
	    "for d in dir*; do for f in $(seq 0 %d); do echo x >>$d/file$f; done; done",
	    HUGE_CHANGED - 1);
	if (slot == NULL)
		return -1;
	r = slots_run(slot, NULL, script);
	snprintf(w.changed_id, sizeof(w.changed_id), "%s", koda_slot_draft(slot));
	koda_slot_release(slot);
	return r < 0 ? -1 : find_layer();
}

static void
stop(void)
{
	koda_draft_close(w.changed);
	koda_session_close(w.huge_ses);
	koda_session_close(w.ses);
	w.changed = NULL;
	w.huge_ses = w.ses = NULL;
}

static int
start_project(void)
{
	w.ses = slots_session(w.project, w.helpers);
	return w.ses == NULL ? -1 : 0;
}

static int
start_changed(void)
{
	struct koda_error e;

	w.huge_ses = slots_session(w.huge, w.helpers);
	if (w.huge_ses == NULL || (w.changed_id[0] == '\0' && make_changes() < 0))
		return -1;
	w.changed = koda_draft_open(w.huge_ses, w.changed_id, &e);
	return w.changed == NULL ? complain_error("draft", &e) : 0;
}

static int
start_all(void)
{
	if (start_project() == 0 && start_changed() == 0)
		return 0;
	stop();
	return -1;
}

const struct group change_group = { "changes", rows, N_ELEMENTS(rows), make_all, start_all, stop,
	NULL, NULL };
const struct group change_peer_group = { "change_peers", peer_rows, N_ELEMENTS(peer_rows),
	make_peers, start_project, stop, NULL, missing };
