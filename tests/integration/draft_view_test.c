/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2/drafts.c, stage2/overlay.c, host/slot/outgoing.c, host/sandbox/worktree.c: what commands and
 * file operations in a draft see of the project while other programs change it, and of the repository
 * that it is in.
 */
#include "tests/kit/drafting.h"

static void
begin(struct fixture *f)
{
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	put_text(f, "replaced", "old\n");
	put_text(f, "removed", "old\n");
	assert_int_equal(mkdir(at(f, "dir"), 0755), 0);
	put_text(f, "dir/inside", "old\n");
	assert_int_equal(mkdir(at(f, "changed"), 0755), 0);
	put_text(f, "changed/mine", "old\n");
	fixture_open(f);
	f->slot = draft_open_slot(f, NULL);
}

/* As an editor saves. */
static void
replace(const struct fixture *f, const char *name, const char *text)
{
	put_text(f, "new", text);
	assert_int_equal(rename(at(f, "new"), at(f, name)), 0);
}

/* What the host does in the project between two looks. */
static void
change_names(const struct fixture *f)
{
	replace(f, "replaced", "new\n");
	assert_int_equal(unlink(at(f, "removed")), 0);
	put_text(f, "missing", "new\n");
	assert_int_equal(rename(at(f, "dir"), at(f, "moved")), 0);
	assert_int_equal(mkdir(at(f, "dir"), 0755), 0);
	put_text(f, "dir/inside", "new\n");
	put_text(f, "changed/theirs", "new\n");
}

#define LOOK "cat replaced removed missing dir/inside moved/inside changed/* 2>/dev/null; ls"

static void
commands_see_names(void **state)
{
	struct fixture f;

	begin(&f);
	draft_out(f.slot, "echo draft >changed/mine");
	assert_string_equal(draft_out(f.slot, LOOK),
	    "old\nold\nold\ndraft\nchanged\ndir\nremoved\nreplaced\n");
	change_names(&f);
	assert_string_equal(draft_out(f.slot, LOOK),
	    "new\nnew\nnew\nold\ndraft\nnew\nchanged\ndir\nmissing\nmoved\nreplaced\n");
	fixture_end(&f);
}

/* NULL: there is no such file. */
static void
reads(const struct fixture *f, const char *name, const char *text)
{
	struct koda_result r;
	struct koda_error err;

	if (text == NULL) {
		assert_int_equal(koda_fs_read(f->slot, name, &r, &err), -1);
		assert_int_equal(err.errnum, ENOENT);
		return;
	}
	if (koda_fs_read(f->slot, name, &r, &err) < 0)
		fail_msg("%s: %s", name, err.message);
	assert_int_equal(r.len, strlen(text));
	assert_memory_equal(r.data, text, strlen(text));
	koda_result_done(&r);
}

static void
file_operations_see_names(void **state)
{
	struct fixture f;

	begin(&f);
	reads(&f, "replaced", "old\n");
	reads(&f, "removed", "old\n");
	reads(&f, "missing", NULL);
	reads(&f, "moved/inside", NULL);
	reads(&f, "dir/inside", "old\n");
	change_names(&f);
	reads(&f, "replaced", "new\n");
	reads(&f, "removed", NULL);
	reads(&f, "missing", "new\n");
	reads(&f, "moved/inside", "old\n");
	reads(&f, "dir/inside", "new\n");
	fixture_end(&f);
}

/* Each file operation looks again, also without a command between them, and what the draft has changed
 * itself stays. */
static void
again_and_again(void **state)
{
	struct fixture f;
	char text[16];

	begin(&f);
	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof(text), "%d\n", i);
		replace(&f, "replaced", text);
		reads(&f, "replaced", text);
	}
	draft_out(f.slot, "echo draft >replaced");
	replace(&f, "replaced", "host\n");
	reads(&f, "replaced", "draft\n");
	assert_string_equal(draft_out(f.slot, "cat replaced"), "draft\n");
	fixture_end(&f);
}

/* Watches a file with inotify until it has seen it change `n` times. */
#define WATCHER                                                                                    \
	"import ctypes, os, sys\n"                                                                 \
	"c = ctypes.CDLL(None)\n"                                                                  \
	"fd = c.inotify_init()\n"                                                                  \
	"assert c.inotify_add_watch(fd, b'replaced', 2) > 0\n"                                     \
	"open('watching', 'w').close()\n"                                                          \
	"for i in range(2):\n"                                                                     \
	"    os.read(fd, 4096)\n"                                                                  \
	"    open('saw%d' % i, 'w').close()\n"

/* Waits in a command until the file exists in the draft. */
#define AWAIT(name) "until test -e " name "; do sleep 0.01; done"

/* What a running command watches stays watched, although other commands start. */
static void
watches_stay(void **state)
{
	const struct koda_command_options o = { .shell = "exec python3 -c \"" WATCHER "\"",
		.background = true };
	struct koda_command *watcher;
	struct koda_error err;
	struct fixture f;

	begin(&f);
	watcher = koda_command_start(f.slot, &o, NULL, NULL, &err);
	assert_non_null(watcher);
	draft_out(f.slot, AWAIT("watching"));
	draft_out(f.slot, "printf 1 >>replaced; " AWAIT("saw0"));
	reads(&f, "replaced", "old\n1");
	draft_out(f.slot, "printf 2 >>replaced; " AWAIT("saw1"));
	assert_int_equal(koda_command_wait(watcher, PATIENCE_MS, &err), 1);
	koda_command_free(watcher);
	fixture_end(&f);
}

/* ---- around the project ---- */

#define AROUND                                                                                     \
	"git rev-parse --show-toplevel --show-prefix 2>&1; git log --format=%s 2>&1;"              \
	" git -C dir ls-files 2>&1; git status --porcelain 2>&1"

/* A project in a directory of a repository finds it, in a draft as in a direct slot. */
static void
repository_around(void **state)
{
	const char *home = getenv("HOME"), *direct, *draft;
	char repository[PATH_MAX / 2], root[PATH_MAX];
	struct fixture f;

	assert_non_null(home);
	fixture_prepare(&f, KODA_AUTO);
	f.options.commands = true;
	snprintf(repository, sizeof(repository), "%s/around.XXXXXX", home);
	assert_non_null(mkdtemp(repository));
	snprintf(root, sizeof(root), "%s/project", repository);
	assert_int_equal(mkdir(root, 0755), 0);
	assert_int_equal(chdir(root), 0);
	assert_int_equal(system(
			     "mkdir dir && echo x >dir/file && cd .. && git init -q && git add . &&"
			     " git -c user.name=a -c user.email=a@b commit -qm around"),
	    0);
	f.options.root = root;
	fixture_open(&f);
	direct = draft_out(fixture_acquire(&f), AROUND);
	draft = draft_out(draft_open_slot(&f, NULL), AROUND);
	assert_non_null(strstr(direct, "around\nfile\n"));
	assert_string_equal(direct, draft);
	assert_int_equal(chdir("/"), 0);
	fixture_end(&f);
	assert_int_equal(nftw(repository, remove_one, 16, FTW_PHYS | FTW_DEPTH), 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_see_names),
		cmocka_unit_test(file_operations_see_names),
		cmocka_unit_test(again_and_again),
		cmocka_unit_test(watches_stay),
		cmocka_unit_test(repository_around),
	};

	return cmocka_run_group_tests_name("draft_view", tests, NULL, NULL);
}
