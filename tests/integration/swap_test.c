/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Swap: what a draft holds comes to the project, is taken back, and comes again (worker/ops/op_swap.c,
 * worker/draft/). On one file system, and across two. Who is killed meanwhile: swap_killed_test.c; who
 * races: swap_race_test.c.
 */
#include <sys/time.h>

#include "tests/kit/swapping.h"

static struct batch batch, back;
static struct told told[ITEMS_MAX], undone[ITEMS_MAX];
static struct worker worker;

static int
begin(void **state)
{
	scene_make(false);
	batch.n = back.n = 0;
	return 0;
}

static int
begin_across(void **state)
{
	scene_make(true);
	batch.n = back.n = 0;
	return 0;
}

static int
end(void **state)
{
	scene_remove();
	return 0;
}

/* ---- apply, undo, redo ---- */

/* A project and what commands made of it: every kind of change. */
static void
make_everything(void)
{
	sh("printf old >changed; chmod 640 changed; touch -d '2020-02-02 02:02:02.123' changed;"
	   "printf gone >deleted; touch -d '2019-01-01' deleted; ln -s changed link;"
	   "mkdir tree tree/deep; printf a >tree/a; printf b >tree/deep/b; ln -s a tree/l;"
	   "chmod 750 tree/deep; touch -d '2018-08-08 08:08:08.8' tree/deep/b;"
	   "printf x >mode; chmod 600 mode; printf t >type; mkdir inner; printf i >inner/i");
	must(setxattr(R("changed"), "user.mine", "kept", 4, 0) == 0 || errno == EOPNOTSUPP);
	sh("cd \"$LAYER\" && printf new >changed; chmod 755 changed; touch -d 2021-01-01 changed;"
	   "printf made >created; ln -s nowhere link; mkdir made type inner; printf n >made/n;"
	   "printf c >inner/c; chmod 400 inner/c; printf h >hard1; ln hard1 hard2");
}

static void
add_everything(void)
{
	add_bring(&batch, "changed");
	add_bring(&batch, "created");
	add_take(&batch, "deleted");
	add_bring(&batch, "link");
	add_take(&batch, "tree");
	add_mode(&batch, "mode", 0755);
	add_take(&batch, "type");
	add_mkdir(&batch, "type", 0711);
	add_mkdir(&batch, "made", 0755);
	add_bring(&batch, "made/n");
	add_bring(&batch, "inner/c");
	add_bring(&batch, "hard1");
	add_bring(&batch, "hard2");
}

static void
check_applied(bool across)
{
	struct stat st, st2;
	char target[64] = "";

	assert_text(R("changed"), "new");
	must(stat(R("changed"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_text(R("created"), "made");
	assert_false(exists(R("deleted")) || exists(R("tree")));
	must(readlink(R("link"), target, sizeof(target) - 1) == 7);
	assert_string_equal(target, "nowhere");
	must(stat(R("mode"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	must(stat(R("type"), &st) == 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0711);
	assert_text(R("made/n"), "n");
	must(stat(R("inner/c"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	must(stat(R("hard1"), &st) == 0 && stat(R("hard2"), &st2) == 0);
	if (!across)
		assert_int_equal(st.st_ino, st2.st_ino);
	assert_no_temps();
}

static void
apply_undo_redo(bool across)
{
	cleanup_free char *before = NULL, *applied = NULL, *after = NULL, *again = NULL;
	static struct batch forth;

	make_everything();
	before = tree_of(scene.root);
	add_everything();
	worker_start(&worker, &plain);
	swap(&worker, &batch, told);
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	check_applied(across);
	applied = tree_of(scene.root);
	/* Nothing of what was applied is in the layer any more. */
	assert_false(exists(L("changed")) || exists(L("created")) || exists(L("hard2")));

	add_back(&back, &batch, told);
	swap(&worker, &back, undone);
	assert_all(&back, undone, KODA__SWAP_OUTCOME__SWAP_DONE);
	after = tree_of(scene.root);
	assert_string_equal(after, before);

	forth.n = 0;
	add_back(&forth, &back, undone);
	swap(&worker, &forth, told);
	assert_all(&forth, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	again = tree_of(scene.root);
	assert_string_equal(again, applied);
	back.n = 0;
	add_back(&back, &forth, told);
	swap(&worker, &back, undone);
	assert_all(&back, undone, KODA__SWAP_OUTCOME__SWAP_DONE);
	free(take_ptr(&after));
	after = tree_of(scene.root);
	assert_string_equal(after, before);
	worker_end(&worker);
}

static void
test_apply_undo_redo(void **state)
{
	apply_undo_redo(false);
}

static void
test_apply_undo_redo_across(void **state)
{
	apply_undo_redo(true);
}

/* The same items, sent again when all is done. */
static void
again(bool across)
{
	cleanup_free char *applied = NULL, *after = NULL;

	make_everything();
	add_everything();
	/* Sending it again would have another identity for what was made by the first of two. */
	worker_start(&worker, &plain);
	swap(&worker, &batch, told);
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	applied = tree_of(scene.root);
	swap(&worker, &batch, undone);
	assert_all(&batch, undone, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	after = tree_of(scene.root);
	assert_string_equal(after, applied);
	for (size_t i = 0; i < batch.n; i++) {
		if (batch.item[i].has_mode || strcmp(batch.place[i], R("type")) == 0)
			continue; /* the mode before is not known any more */
		assert_int_equal(told[i].has_here, undone[i].has_here);
		assert_int_equal(told[i].has_held, undone[i].has_held);
		if (told[i].has_here)
			assert_int_equal(told[i].here.ino, undone[i].here.ino);
		if (told[i].has_held)
			assert_int_equal(told[i].held.ino, undone[i].held.ino);
	}
	worker_end(&worker);
}

static void
test_again(void **state)
{
	again(false);
}

static void
test_again_across(void **state)
{
	again(true);
}

/* ---- conflicts ---- */

static Koda__SwapOutcome
one(const struct how *how)
{
	Koda__SwapOutcome outcome;

	worker_start(&worker, how);
	swap(&worker, &batch, told);
	worker_end(&worker);
	outcome = told[0].outcome;
	assert_no_temps();
	return outcome;
}

static const struct {
	const char *label;
	/* Run before the item is made, and after. */
	const char *before, *after;
	Koda__SwapOutcome outcome, if_taken;
	const char *place, *held; /* afterwards, if_taken; NULL: nothing is held */
	bool take_away;
} conflicts[] = {
	{ "changed since", "printf o >p; printf n >\"$LAYER/p\"", "sleep 0.02; printf other >p",
	    KODA__SWAP_OUTCOME__SWAP_CONFLICT, KODA__SWAP_OUTCOME__SWAP_DONE, "n", "other", false },
	{ "replaced since", "printf o >p; printf n >\"$LAYER/p\"", "printf x >q; mv q p",
	    KODA__SWAP_OUTCOME__SWAP_CONFLICT, KODA__SWAP_OUTCOME__SWAP_DONE, "n", "x", false },
	{ "removed since", "printf o >p; printf n >\"$LAYER/p\"", "rm p",
	    KODA__SWAP_OUTCOME__SWAP_CONFLICT, KODA__SWAP_OUTCOME__SWAP_DONE, "n", NULL, false },
	{ "appeared since", "printf n >\"$LAYER/p\"", "printf x >p",
	    KODA__SWAP_OUTCOME__SWAP_CONFLICT, KODA__SWAP_OUTCOME__SWAP_DONE, "n", "x", false },
	{ "the draft's was changed", "printf n >\"$LAYER/p\"",
	    "sleep 0.02; printf m >>\"$LAYER/p\"", KODA__SWAP_OUTCOME__SWAP_CONFLICT,
	    KODA__SWAP_OUTCOME__SWAP_CONFLICT, NULL, NULL, false },
	{ "the draft's is gone", "printf n >\"$LAYER/p\"", "rm \"$LAYER/p\"",
	    KODA__SWAP_OUTCOME__SWAP_GONE, KODA__SWAP_OUTCOME__SWAP_GONE, NULL, NULL, false },
	{ "deleted, but changed since", "printf o >p", "sleep 0.02; printf x >p",
	    KODA__SWAP_OUTCOME__SWAP_CONFLICT, KODA__SWAP_OUTCOME__SWAP_DONE, NULL, "x", true },
	{ "deleted, but replaced since", "printf o >p", "rm p; mkdir p; printf x >p/x",
	    KODA__SWAP_OUTCOME__SWAP_CONFLICT, KODA__SWAP_OUTCOME__SWAP_DONE, NULL, "", true },
	{ "deleted twice", "printf o >p", "rm p", KODA__SWAP_OUTCOME__SWAP_WAS_DONE,
	    KODA__SWAP_OUTCOME__SWAP_WAS_DONE, NULL, NULL, true },
};

static void
check_conflict(size_t i, bool take)
{
	cleanup_free char *before = NULL, *after = NULL;
	Koda__SwapItem *item;
	const Koda__SwapOutcome want = take ? conflicts[i].if_taken : conflicts[i].outcome;

	sh(conflicts[i].before);
	item = conflicts[i].take_away ? add_take(&batch, "p") : add_bring(&batch, "p");
	item->has_take = item->take = take;
	sh(conflicts[i].after);
	before = tree_of(scene.root);
	assert_int_equal(one(&plain), want);
	if (!take || want != KODA__SWAP_OUTCOME__SWAP_DONE) {
		after = tree_of(scene.root);
		assert_string_equal(after, before);
		assert_false(exists(O("i0")));
		return;
	}
	if (conflicts[i].place == NULL)
		assert_false(exists(R("p")));
	else
		assert_text(R("p"), conflicts[i].place);
	if (conflicts[i].held == NULL)
		assert_false(exists(O("i0")));
	else if (conflicts[i].held[0] == '\0')
		assert_text(O("i0/x"), "x");
	else
		assert_text(O("i0"), conflicts[i].held);
}

static void
test_conflict(void **state)
{
	check_conflict((size_t)*state, false);
}

static void
test_conflict_taken(void **state)
{
	check_conflict((size_t)*state, true);
}

/* The place's directory became a link that leads out, a file, or is gone; or it is elsewhere. */
static void
test_directory_is_not_there(void **state)
{
	static const char *const turns[] = { "mv d e; ln -s ../outside d", "mv d e; printf x >d",
		"mv d \"$BASE/outside/d\"", "rm -r d" };

	sh("mkdir \"$BASE/outside\"");
	for (size_t i = 0; i < N_ELEMENTS(turns); i++) {
		batch.n = 0;
		sh("rm -rf d e \"$BASE/outside/\"* \"$LAYER/d\"; mkdir d \"$LAYER/d\";"
		   "printf n >\"$LAYER/d/p\"; printf n >\"$LAYER/d/q\"; printf o >d/q");
		add_bring(&batch, "d/p");
		add_bring(&batch, "d/q");
		sh(turns[i]);
		assert_int_equal(one(&plain), KODA__SWAP_OUTCOME__SWAP_CONFLICT);
		assert_outcome(&told[1], KODA__SWAP_OUTCOME__SWAP_CONFLICT);
		assert_int_equal(scene_sh("test -e \"$BASE/outside/p\" || "
					  "test -e \"$BASE/outside/d/p\""),
		    1);
		assert_text(L("d/p"), "n");
	}
}

/* What was brought and made is somewhere else when it is to be taken back: nothing is, and that is
 * said. */
static void
undo_without_directory(bool across)
{
	static const char *const turns[] = { "mv d e; ln -s e d", "mv d e; printf x >d",
		"mv d \"$BASE/outside/d\"", "mkdir e; mv d e/d" };
	static const char *const now[] = { "e", "e", "../outside/d", "e/d" };

	sh("mkdir \"$BASE/outside\"");
	for (size_t i = 0; i < N_ELEMENTS(turns); i++) {
		char path[64];

		batch.n = back.n = 0;
		sh("rm -rf d e \"$BASE/outside/\"* \"$LAYER/d\" \"$OLD/\"*; mkdir d \"$LAYER/d\";"
		   "printf n >\"$LAYER/d/p\"; printf n >\"$LAYER/d/q\"; printf o >d/q");
		add_mkdir(&batch, "d/made", 0755);
		add_bring(&batch, "d/p");
		add_bring(&batch, "d/q");
		worker_start(&worker, &plain);
		swap(&worker, &batch, told);
		assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
		sh(turns[i]);
		add_back(&back, &batch, told);
		swap(&worker, &back, undone);
		assert_all(&back, undone, KODA__SWAP_OUTCOME__SWAP_CONFLICT);
		worker_end(&worker);
		snprintf(path, sizeof(path), "%s/p", now[i]);
		assert_text(R(path), "n");
		snprintf(path, sizeof(path), "%s/q", now[i]);
		assert_text(R(path), "n");
		snprintf(path, sizeof(path), "%s/made", now[i]);
		assert_true(exists(R(path)));
	}
}

static void
test_undo_without_directory(void **state)
{
	undo_without_directory(false);
}

static void
test_undo_without_directory_across(void **state)
{
	undo_without_directory(true);
}

/* A worker has taken everything back and died, and its results are lost: that is no conflict. */
static void
test_undo_again(void **state)
{
	sh("mkdir -p \"$LAYER/d/e\"; printf n >\"$LAYER/d/e/p\"");
	add_mkdir(&batch, "d", 0755);
	add_mkdir(&batch, "d/e", 0755);
	add_bring(&batch, "d/e/p");
	worker_start(&worker, &plain);
	swap(&worker, &batch, told);
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	add_back(&back, &batch, told);
	swap(&worker, &back, undone);
	assert_all(&back, undone, KODA__SWAP_OUTCOME__SWAP_DONE);
	assert_false(exists(R("d")));
	swap(&worker, &back, undone);
	assert_all(&back, undone, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	worker_end(&worker);
}

/* What was at the place of an undo was changed by the user: nothing is taken back. */
static void
test_undo_of_what_was_changed(void **state)
{
	sh("printf o >p; printf n >\"$LAYER/p\"");
	add_bring(&batch, "p");
	worker_start(&worker, &plain);
	swap(&worker, &batch, told);
	assert_outcome(&told[0], KODA__SWAP_OUTCOME__SWAP_DONE);
	sh("sleep 0.02; printf more >>p");
	add_back(&back, &batch, told);
	swap(&worker, &back, undone);
	assert_outcome(&undone[0], KODA__SWAP_OUTCOME__SWAP_CONFLICT);
	assert_text(R("p"), "nmore");
	assert_text(O("i0"), "o");
	/* A directory that is not empty any more stays, too. */
	batch.n = back.n = 0;
	add_mkdir(&batch, "made", 0755);
	snprintf(batch.name[0], sizeof(batch.name[0]), "other");
	batch.item[0].name = bytes(batch.name[0]);
	swap(&worker, &batch, told);
	assert_outcome(&told[0], KODA__SWAP_OUTCOME__SWAP_DONE);
	sh("printf x >made/x");
	add_back(&back, &batch, told);
	swap(&worker, &back, undone);
	assert_outcome(&undone[0], KODA__SWAP_OUTCOME__SWAP_CONFLICT);
	assert_text(R("made/x"), "x");
	worker_end(&worker);
}

/* ---- the policy ---- */

static const struct {
	const char *label, *layer, *place, *rule;
	struct how how;
} refusals[] = {
	{ "a hook", "mkdir -p .git/hooks; printf x >.git/hooks/x", ".git/hooks/x", "git_config",
	    { 0 } },
	{ "git's configuration", "mkdir .git; printf x >.git/config", ".git/config", "git_config",
	    { 0 } },
	{ "a link in a git directory", "mkdir .git; ln -s /etc .git/x", ".git/x", "git_config",
	    { 0 } },
	{ "a .git that is a file", "printf x >.git", ".git", "git_config", { 0 } },
	{ "a nested one", "mkdir -p a/.git; printf x >a/.git/config", "a/.git/config", "git_config",
	    { 0 } },
	{ "a git directory by the name of a stream",
	    "mkdir '.git::$INDEX_ALLOCATION'; printf x >'.git::$INDEX_ALLOCATION/config'",
	    ".git::$INDEX_ALLOCATION/config", "git_config", { 0 } },
	{ "a git directory by a backslash", "printf x >'.git\\config'", ".git\\config",
	    "git_config", { 0 } },
	{ "an editor's tasks", "mkdir .vscode; printf x >.vscode/tasks.json", ".vscode/tasks.json",
	    "deny_write_names", { 0 } },
	{ "outside allow_write", "mkdir b; printf x >b/x", "b/x", "allow_write",
	    { .allow_write = "a" } },
	{ "what may not be read", "mkdir b; printf x >b/x", "b/x", "deny_read",
	    { .deny_read = "b" } },
	{ "Plan mode", "mkdir b; printf x >b/x", "b/x", "trust",
	    { .mode = KODA__MODE__MODE_PLAN } },
	{ "set-user-ID", "printf x >x; chmod 4755 x", "x", "set_id", { 0 } },
	{ "set-group-ID", "printf x >x; chmod 2755 x", "x", "set_id", { 0 } },
	{ "a FIFO", "mkfifo x", "x", "special_file", { 0 } },
	{ "a whiteout", "mknod x c 0 0", "x", "special_file", { 0 } },
	{ "a whole directory", "mkdir x; printf x >x/y", "x", "special_file", { 0 } },
};

static void
test_refused(void **state)
{
	const size_t i = (size_t)*state;
	cleanup_free char *before = NULL, *after = NULL;
	char line[256];

	/* The directories are there already, so that only the rule stands in the way. */
	sh("mkdir -p .git/hooks a/.git .vscode b '.git::$INDEX_ALLOCATION'");
	if (strcmp(refusals[i].place, ".git") == 0)
		sh("rm -r .git");
	snprintf(line, sizeof(line), "cd \"$LAYER\" && %s", refusals[i].layer);
	sh(line);
	before = tree_of(scene.root);
	add_bring(&batch, refusals[i].place);
	if (one(&refusals[i].how) != KODA__SWAP_OUTCOME__SWAP_REFUSED)
		fail_msg("outcome %d: %s", told[0].outcome, told[0].reason);
	assert_string_equal(told[0].rule, refusals[i].rule);
	assert_true(strstr(told[0].reason, "refused to ") != NULL);
	after = tree_of(scene.root);
	assert_string_equal(after, before);
	assert_true(exists(L(refusals[i].place)));
}

/* Without the rules, each of them lands: there is nothing else in the way. */
static void
test_lands_without_a_rule(void **state)
{
	sh("cd \"$LAYER\" && mkdir -p git/hooks vscode && printf x >git/hooks/x &&"
	   "printf x >vscode/tasks.json; mkdir -p \"$ROOT/git/hooks\" \"$ROOT/vscode\"");
	add_bring(&batch, "git/hooks/x");
	add_bring(&batch, "vscode/tasks.json");
	one(&plain);
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
}

static void
test_removing_is_judged(void **state)
{
	cleanup_free char *before = NULL, *after = NULL;

	sh("mkdir -p repo/.git/hooks repo/src .git .vscode; printf x >.git/config;"
	   "printf x >.vscode/t; printf x >repo/.git/config");
	before = tree_of(scene.root);
	add_take(&batch, "repo");
	add_take(&batch, ".git");
	add_take(&batch, ".git/config");
	add_take(&batch, ".vscode");
	add_mode(&batch, ".git/config", 0666);
	add_take(&batch, ".vscode/t");
	batch.item[3].has_take = batch.item[3].take = true;
	one(&plain);
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_REFUSED);
	assert_string_equal(told[0].rule, "protected_below");
	after = tree_of(scene.root);
	assert_string_equal(after, before);
}

/* A bare repository whose parts are items of one draft: its configuration does not come. */
static void
test_bare_repository(void **state)
{
	sh("cd \"$LAYER\" && mkdir -p b/objects b/refs b/hooks && printf x >b/HEAD &&"
	   "printf x >b/config && printf x >b/hooks/post-checkout; mkdir \"$ROOT/b\"");
	add_bring(&batch, "b/config");
	add_mkdir(&batch, "b/objects", 0755);
	add_mkdir(&batch, "b/refs", 0755);
	add_mkdir(&batch, "b/hooks", 0755);
	add_bring(&batch, "b/HEAD");
	one(&plain);
	assert_outcome(&told[0], KODA__SWAP_OUTCOME__SWAP_REFUSED);
	assert_string_equal(told[0].rule, "git_config");
	assert_false(exists(R("b/config")) || exists(R("b/hooks")));
}

static void
test_root_itself(void **state)
{
	batch_add(&batch, scene.root);
	batch.item[0].has_layer = false;
	batch.item[0].here = identify(&batch.here[0], scene.root);
	assert_int_equal(one(&plain), KODA__SWAP_OUTCOME__SWAP_REFUSED);
	assert_true(exists(scene.root));
}

/* Permissions: no set-user-ID bit comes with them. */
static void
test_mode(void **state)
{
	struct stat st;

	sh("printf x >p; chmod 600 p; ln -s p l");
	add_mode(&batch, "p", 04755);
	assert_int_equal(one(&plain), KODA__SWAP_OUTCOME__SWAP_REFUSED);
	assert_string_equal(told[0].rule, "set_id");
	batch.n = 0;
	add_mode(&batch, "l", 0777);
	assert_int_equal(one(&plain), KODA__SWAP_OUTCOME__SWAP_FAILED);
	must(stat(R("p"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

/* ---- what the overlay leaves ---- */

static bool
has_attribute(const char *path, const char *name)
{
	char value[64];

	return lgetxattr(path, name, value, sizeof(value)) >= 0;
}

static void
test_marks_of_the_overlay(void **state)
{
	struct stat st;

	sh("cd \"$LAYER\" && printf n >p && printf n >read-only && mkdir d");
	if (setxattr(L("p"), "user.overlay.origin", "x", 1, 0) < 0)
		skip_because("the file system has no user attributes");
	must(setxattr(L("p"), "user.mine", "kept", 4, 0) == 0);
	must(setxattr(L("read-only"), "user.overlay.origin", "x", 1, 0) == 0);
	must(setxattr(L("d"), "user.overlay.impure", "y", 1, 0) == 0);
	must(setxattr(L("d"), "user.mine", "kept", 4, 0) == 0);
	must(chmod(L("read-only"), 0444) == 0);
	add_bring(&batch, "p");
	add_bring(&batch, "read-only");
	add_mkdir(&batch, "d", 0750);
	one(&plain);
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	assert_false(has_attribute(R("p"), "user.overlay.origin"));
	assert_false(has_attribute(R("read-only"), "user.overlay.origin"));
	assert_false(has_attribute(R("d"), "user.overlay.impure"));
	assert_true(has_attribute(R("p"), "user.mine") && has_attribute(R("d"), "user.mine"));
	must(stat(R("read-only"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	must(stat(R("d"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0750);
}

static void
test_whiteout_goes_away(void **state)
{
	sh("printf o >p; mknod \"$LAYER/p\" c 0 0");
	add_take(&batch, "p");
	assert_int_equal(one(&plain), KODA__SWAP_OUTCOME__SWAP_DONE);
	assert_false(exists(R("p")) || exists(L("p")));
	assert_text(O("i0"), "o");
}

/* ---- many ---- */

static void
test_many(void **state)
{
	cleanup_free char *before = NULL, *after = NULL;
	char name[32];

	sh("mkdir -p d/e \"$LAYER/d/e\"; for i in $(seq 64); do printf $i >d/e/o$i; done;"
	   "cd \"$LAYER\"; for i in $(seq 128); do printf $i >d/e/n$i; done;"
	   "for i in $(seq 64); do printf new >d/e/o$i; printf $i >d/m$i; done");
	before = tree_of(scene.root);
	for (unsigned i = 1; i <= 128; i++) {
		snprintf(name, sizeof(name), "d/e/n%u", i);
		add_bring(&batch, name);
	}
	for (unsigned i = 1; i <= 64; i++) {
		snprintf(name, sizeof(name), "d/e/o%u", i);
		add_bring(&batch, name);
		snprintf(name, sizeof(name), "d/m%u", i);
		add_bring(&batch, name);
	}
	assert_int_equal(batch.n, SWAP_ITEMS_MAX);
	worker_start(&worker, &plain);
	swap(&worker, &batch, told);
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	add_back(&back, &batch, told);
	swap(&worker, &back, undone);
	assert_all(&back, undone, KODA__SWAP_OUTCOME__SWAP_DONE);
	after = tree_of(scene.root);
	assert_string_equal(after, before);
	worker_end(&worker);
}

int
main(void)
{
	static const struct CMUnitTest cases[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, begin, end)
		CASE(apply_undo_redo),
		CASE(again),
		CASE(directory_is_not_there),
		CASE(undo_without_directory),
		CASE(undo_again),
		CASE(undo_of_what_was_changed),
		CASE(lands_without_a_rule),
		CASE(removing_is_judged),
		CASE(bare_repository),
		CASE(root_itself),
		CASE(mode),
		CASE(marks_of_the_overlay),
		CASE(whiteout_goes_away),
		CASE(many),
	};
	static const struct CMUnitTest cases_across[] = {
#define CASE_ACROSS(name) cmocka_unit_test_setup_teardown(test_##name, begin_across, end)
		CASE_ACROSS(apply_undo_redo_across),
		CASE_ACROSS(again_across),
		CASE_ACROSS(undo_without_directory_across),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(cases_across) +
	    3 * N_ELEMENTS(conflicts) + N_ELEMENTS(refusals)];
	static char labels[2 * N_ELEMENTS(conflicts)][64];
	const bool across = other_file_system() != NULL;
	size_t n = 0;

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[n++] = cases[i];
	for (size_t i = 0; across && i < N_ELEMENTS(cases_across); i++)
		tests[n++] = cases_across[i];
	for (size_t i = 0; i < N_ELEMENTS(refusals); i++)
		tests[n++] =
		    (struct CMUnitTest){ refusals[i].label, test_refused, begin, end, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(conflicts); i++) {
		char *taken = labels[2 * i], *far = labels[2 * i + 1];

		snprintf(taken, sizeof(labels[0]), "%s, taken", conflicts[i].label);
		snprintf(far, sizeof(labels[0]), "%s, taken across", conflicts[i].label);
		tests[n++] =
		    (struct CMUnitTest){ conflicts[i].label, test_conflict, begin, end, (void *)i };
		tests[n++] =
		    (struct CMUnitTest){ taken, test_conflict_taken, begin, end, (void *)i };
		if (across)
			tests[n++] = (struct CMUnitTest){ far, test_conflict_taken, begin_across,
				end, (void *)i };
	}
	return _cmocka_run_group_tests("swap", tests, n, NULL, NULL);
}
