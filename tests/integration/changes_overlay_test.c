/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/draft on what the kernel leaves: commands of a slot change a draft, and the worker lists
 * exactly what they did. The cases made by hand are in changes_test.c.
 */
#include "tests/kit/drafted.h"
#include "tests/kit/hosting.h"

#include "host/draft/store.h"

static void
run_in(struct koda_slot *slot, const char *shell)
{
	const struct koda_command_options o = { .shell = shell };
	struct koda_command_result r;
	struct koda_error err;

	if (koda_run(slot, &o, &r, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
	if (r.status != 0)
		fail_msg("%s: status %d: %.*s", shell, r.status, (int)r.err.head_len, r.err.head);
	koda_command_result_done(&r);
}

static void
begin(struct fixture *f)
{
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	snprintf(root, sizeof(root), "%s", f->root);
	DIRS(root, "again", "again/sub", "again/sub/deep", "gone", "gone/x", "moved", "kept",
	    "kept/in", "swap", "over");
	put(root, "append", "one\n");
	put(root, "again/a", "a");
	put(root, "again/sub/b", "b");
	put(root, "again/sub/deep/c", "c");
	put(root, "gone/x/y", "y");
	put(root, "moved/m", "m");
	put(root, "kept/in/k", "k");
	put(root, "renamed", "r");
	put(root, "touched", "t");
	put(root, "mode", "m");
	put(root, "swap/file", "s");
	put(root, "over/o", "o");
	put(root, "linked", "l");
	fixture_open(f);
}

/* What became of the project in the draft, in the words of changes_test.c. */
static void
list_draft(const struct fixture *f, const char *id, struct list *list)
{
	struct draft d = DRAFT_CLOSED;
	struct koda_error err;
	char state[PATH_MAX], path[64];
	struct lister w;

	snprintf(state, sizeof(state), "%s/.local/state/koda-sandbox", getenv("HOME"));
	if (draft_open(state, f->root, id, &d, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(d.dir[0].path, f->root);
	assert_string_equal(d.dir[0].name, "0");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", d.fd);
	lister_start_in(&w, f->root, path);
	list_after(&w, f->root, NULL, 0, list);
	lister_end(&w);
	draft_close(&d);
}

static void
expect_draft(struct fixture *f, const char *shell, const char *const *lines, size_t n)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_error err;
	struct koda_slot *slot = koda_slot_open(f->ses, &o, &err);
	struct list list;
	char id[64];

	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	snprintf(id, sizeof(id), "%s", koda_slot_draft(slot));
	run_in(slot, shell);
	koda_slot_release(slot);
	koda_session_close(f->ses);
	list_draft(f, id, &list);
	expect_lines(&list, lines, n);
	list_done(&list);
	f->ses = NULL;
	fixture_end(f);
}
#define EXPECT_DRAFT(f, shell, ...)                                                                \
	expect_draft(f, shell, (const char *const[]){ __VA_ARGS__ },                               \
	    N_ELEMENTS(((const char *const[]){ __VA_ARGS__ })))

static void
as_overlayfs_leaves_it(void **state)
{
	struct fixture f;

	begin(&f);
	EXPECT_DRAFT(&f,
	    "echo two >>append; echo new >new; mkdir -p made/in; echo x >made/in/x; rm -r gone; "
	    "mv renamed renamed-to; touch touched; chmod 700 mode; ln -s append link; mkfifo fifo; "
	    "rm swap/file; mkdir swap/file; echo x >swap/file/x; ln linked hard; "
	    /* What is in it is deleted without a mark of its own. */
	    "rm -r again; mkdir -p again/sub/deep; echo B >again/sub/b; "
	    "mv moved moved-to; "
	    /* Copied up, and as it was. */
	    "chmod 700 kept; chmod 755 kept; t=$(stat -c %y kept/in/k); echo k >>kept/in/k; "
	    "printf k >kept/in/k; touch -d \"$t\" kept/in/k; "
	    /* A directory of the draft that is renamed over one of the project. */
	    "mkdir fresh; echo f >fresh/f; rm -r over; mv fresh over",
	    "deleted file again/a", "changed file again/sub/b", "deleted file again/sub/deep/c",
	    "changed file append", "created other fifo !special_file", "deleted dir gone (2)",
	    "created file hard", "created link link", "changed file linked", "created dir made",
	    "created dir made/in", "created file made/in/x", "mode file mode",
	    "deleted dir moved (1)", "created dir moved-to", "created file moved-to/m",
	    "created file new", "created file over/f", "deleted file over/o",
	    "deleted file renamed", "created file renamed-to", "deleted file swap/file",
	    "created dir swap/file", "created file swap/file/x", "changed file touched");
}

/* A repository that a command makes, with and without a name, and what it plants in one. */
static void
planted_in_a_draft(void **state)
{
	struct fixture f;

	begin(&f);
	DIRS(f.root, ".git", ".git/objects", ".git/refs", ".git/hooks");
	put(f.root, ".git/HEAD", "ref: refs/heads/main\n");
	put(f.root, ".git/config", "[core]\n");
	EXPECT_DRAFT(&f,
	    "echo x >.git/hooks/post-checkout; echo '[alias]' >>.git/config; "
	    "mkdir -p kept/in/objects kept/in/refs; echo x >kept/in/HEAD; echo x >kept/in/config; "
	    "mkdir .vscode; echo '{}' >.vscode/tasks.json",
	    "changed file .git/config !git_config",
	    "created file .git/hooks/post-checkout !git_config",
	    "created dir .vscode !deny_write_within_allow",
	    "created file .vscode/tasks.json !deny_write_within_allow",
	    "created file kept/in/HEAD !git_config", "created file kept/in/config !git_config",
	    "created dir kept/in/objects !git_config", "created dir kept/in/refs !git_config");
}

/* What git itself changes for a commit and a branch may all be applied. */
static void
commit_in_a_draft(void **state)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	char line[2 * PATH_MAX], id[64];
	bool index = false, ref = false;
	struct koda_slot *slot;
	struct koda_error err;
	struct fixture f;
	struct list list;

	begin(&f);
	snprintf(line, sizeof(line),
	    "cd '%s' && git init -q -b main && git config user.email a@b && git config user.name n && "
	    "git add -A && git commit -q -m one",
	    f.root);
	must(system(line) == 0);
	slot = koda_slot_open(f.ses, &o, &err);
	if (slot == NULL)
		fail_msg("draft: %s", err.message);
	snprintf(id, sizeof(id), "%s", koda_slot_draft(slot));
	run_in(slot,
	    "echo x >>append; git checkout -q -b next; git commit -q -a -m two; git tag t; "
	    "git checkout -q main; git merge -q next; git gc -q; git status >/dev/null");
	koda_slot_release(slot);
	koda_session_close(f.ses);
	list_draft(&f, id, &list);
	for (size_t i = 0; i < list.n; i++) {
		if (strchr(list.line[i], '!') != NULL)
			fail_msg("%s", list.line[i]);
		index |= strcmp(list.line[i], "changed file .git/index") == 0;
		ref |= strstr(list.line[i], ".git/packed-refs") != NULL;
	}
	assert_true(index && ref);
	list_done(&list);
	f.ses = NULL;
	fixture_end(&f);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_overlayfs_leaves_it),
		cmocka_unit_test(planted_in_a_draft),
		cmocka_unit_test(commit_in_a_draft),
	};

	return cmocka_run_group_tests_name("changes_overlay", tests, NULL, NULL);
}
