/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/draft, worker/ops/op_changes.c, op_read_draft.c: what a draft changes, and what of it may be
 * applied. The draft is made by hand, as overlayfs leaves it (and as it never would); the last case
 * has the kernel make one. Everything is a question over the wire to a real worker.
 */
#include "tests/kit/drafted.h"

static void
every_kind(void **state)
{
	DIRS(root, "dir", "moded", "gone", "gone/a");
	put(root, "changed", "old\n");
	put(root, "same", "same\n");
	put(root, "size", "12345\n");
	put(root, "deleted", "x");
	put(root, "mode", "mode\n");
	put(root, "dir/kept", "kept\n");
	put(root, "dir/other", "other\n");
	put(root, "gone/a/b", "b\n");
	must(symlink("here", in(root, "link")) == 0 && symlink("x", in(root, "link-same")) == 0);
	DIRS(upper, "dir", "moded", "made", "made/in");
	put(upper, "changed", "new\n");
	put(upper, "same", "same\n");
	put(upper, "size", "1234567\n");
	put(upper, "mode", "mode\n");
	must(chmod(in(upper, "mode"), 0755) == 0 && chmod(in(upper, "moded"), 0700) == 0);
	put(upper, "dir/other", "Other\n");
	put(upper, "dir/new", "");
	put(upper, "made/in/file", "file\n");
	must(symlink("there", in(upper, "link")) == 0 &&
	    symlink("x", in(upper, "link-same")) == 0 &&
	    symlink("nowhere", in(upper, "new-link")) == 0);
	delete_in_draft("deleted");
	delete_in_draft("gone");
	/* Of something that is gone from the project, too. */
	delete_in_draft("never");
	EXPECT("changed file changed", "deleted file deleted", "created file dir/new",
	    "changed file dir/other", "deleted dir gone (2)", "changed link link",
	    "created dir made", "created dir made/in", "created file made/in/file",
	    "mode file mode", "mode dir moded", "created link new-link", "changed file size");
}

/* Names are sorted as bytes, and a directory's content follows it. */
static void
sorted_by_bytes(void **state)
{
	DIRS(upper, "a", "a-b");
	put(upper, "a/z", "");
	put(upper, "a-b/\xff", "");
	put(upper, "a.c", "");
	put(upper, "B", "");
	put(upper, "\x01\n", "");
	put(upper, "\xc3\xa4", "");
	put(upper, "\xc3", "");
	EXPECT("created file \x01\n", "created file B", "created dir a", "created file a/z",
	    "created dir a-b", "created file a-b/\xff", "created file a.c", "created file \xc3",
	    "created file \xc3\xa4");
}

/* What an opaque directory hides is deleted; below it overlayfs marks no directory. */
static void
opaque_directory(void **state)
{
	DIRS(root, "d", "d/sub", "d/sub/deep", "d/all", "d/all/of", "plain", "plain/x");
	put(root, "d/a", "a");
	put(root, "d/b", "b");
	put(root, "d/sub/c", "c");
	put(root, "d/sub/kept", "kept");
	put(root, "d/sub/deep/e", "e");
	put(root, "d/all/of/it", "it");
	put(root, "plain/x/f", "f");
	DIRS(upper, "d", "d/sub", "d/sub/deep", "plain", "plain/x");
	put(upper, "d/b", "B");
	put(upper, "d/new", "");
	put(upper, "d/sub/kept", "kept");
	delete_in_draft("d/a");
	mark("d", OPAQUE_MARK, "y");
	EXPECT("deleted file d/a", "deleted dir d/all (2)", "changed file d/b",
	    "created file d/new", "deleted file d/sub/c", "deleted file d/sub/deep/e");
}

static void
another_type(void **state)
{
	DIRS(root, "dir", "dir/in", "to-link");
	put(root, "dir/in/x", "x");
	put(root, "file", "file");
	put(root, "to-link/y", "y");
	must(symlink("x", in(root, "link")) == 0 && mkfifo(in(root, "fifo"), 0600) == 0);
	DIRS(upper, "file", "file/sub");
	put(upper, "file/sub/new", "");
	put(upper, "dir", "now a file");
	put(upper, "link", "x");
	put(upper, "fifo", "");
	must(symlink("x", in(upper, "to-link")) == 0);
	EXPECT("deleted dir dir (2)", "created file dir", "deleted other fifo", "created file fifo",
	    "deleted file file", "created dir file", "created dir file/sub",
	    "created file file/sub/new", "deleted link link", "created file link",
	    "deleted dir to-link (1)", "created link to-link");
}

static void
bind_socket(const char *path)
{
	must(mknod(path, S_IFSOCK | 0600, 0) == 0);
}

static void
never_applied(void **state)
{
	put(root, "was-file", "x");
	put(root, "suid-same", "x");
	DIRS(root, "redirected", "strange");
	put(root, "redirected/x", "x");
	DIRS(upper, "redirected", "strange", "closed");
	bind_socket(in(upper, "socket"));
	must(mkfifo(in(upper, "was-file"), 0600) == 0);
	put(upper, "suid", "x");
	put(upper, "sgid", "x");
	put(upper, "suid-same", "x");
	put(upper, "metacopy", "x");
	put(upper, "xattr-deleted", "");
	put(upper, "closed/x", "");
	must(chmod(in(upper, "suid"), 04755) == 0 && chmod(in(upper, "sgid"), 02755) == 0 &&
	    chmod(in(upper, "suid-same"), 04644) == 0);
	mark("metacopy", "user.overlay.metacopy", "");
	mark("redirected", "user.overlay.redirect", "/etc");
	mark("strange", OPAQUE_MARK, "maybe");
	mark("xattr-deleted", "user.overlay.whiteout", "y");
	put(upper, "redirected/x", "y");
	must(chmod(in(upper, "closed"), 0) == 0);
	EXPECT("created dir closed !unreadable", "created file metacopy !overlay_mark",
	    "changed dir redirected !overlay_mark", "created file sgid !set_id",
	    "created other socket !special_file", "changed dir strange !overlay_mark",
	    "created file suid !set_id", "mode file suid-same !set_id",
	    /* The deletion would leave nothing. */
	    "deleted file was-file !special_file", "created other was-file !special_file");
}

/* ---- protected places ---- */

static void
protected_places(void **state)
{
	DIRS(root, ".git", ".git/hooks", ".git/objects", ".git/refs", ".vscode", "sub", "sub/.git",
	    "sub/.idea");
	put(root, ".git/HEAD", "ref: refs/heads/main\n");
	put(root, ".git/config", "");
	put(root, ".git/index", "1");
	put(root, ".vscode/settings.json", "{}");
	put(root, ".envrc", "");
	DIRS(upper, ".git", ".git/hooks", ".git/refs", ".git/refs/heads", ".git/objects",
	    ".git/objects/ab", ".github", ".github/hooks", ".koda", ".koda/agents", ".vscode",
	    "pkg", "pkg/.idea", "sub");
	put(upper, ".git/hooks/pre-commit", "#!/bin/sh\n");
	put(upper, ".git/config", "[core]\n");
	put(upper, ".git/index", "not an index");
	put(upper, ".git/HEAD", "ref: refs/heads/next\n");
	/* git would write to these files, or run what is in them. */
	put(upper, ".git/ORIG_HEAD", "ref: config\n");
	put(upper, ".git/refs/heads/a", "ref: ../../hooks/post-checkout\n");
	put(upper, ".git/refs/heads/b", "ref: refs/heads/main\n");
	put(upper, ".git/refs/heads/c", "0123456789012345678901234567890123456789\n");
	put(upper, ".git/MERGE_RR", "0123456789012345678901234567890123456789\t../../x");
	put(upper, "ORIG_HEAD", "ref: config\n");
	put(upper, ".git/objects/ab/cdef", "");
	put(upper, ".github/hooks/x", "");
	put(upper, ".koda/agents/x", "");
	put(upper, ".vscode/tasks.json", "{}");
	put(upper, ".vscode/settings.json", "{ }");
	put(upper, "pkg/.idea/x", "");
	must(symlink("/etc", in(upper, ".git/link")) == 0);
	/* A link in place of a directory on the way to a protected place. */
	must(symlink("elsewhere", in(upper, "deep")) == 0);
	put(upper, "sub/.git", "gitdir: ../evil\n");
	delete_in_draft(".envrc");
	delete_in_draft("sub/.idea");
	EXPECT("deleted file .envrc !deny_write_within_allow", "changed file .git/HEAD",
	    "created file .git/MERGE_RR !git_config", "created file .git/ORIG_HEAD !git_config",
	    "changed file .git/config !git_config",
	    "created file .git/hooks/pre-commit !git_config", "changed file .git/index !git_config",
	    "created link .git/link !git_config", "created dir .git/objects/ab",
	    "created file .git/objects/ab/cdef", "created dir .git/refs/heads",
	    "created file .git/refs/heads/a !git_config", "created file .git/refs/heads/b",
	    "created file .git/refs/heads/c", "created dir .github",
	    "created dir .github/hooks !deny_write_names",
	    "created file .github/hooks/x !deny_write_names", "created dir .koda",
	    "created dir .koda/agents !koda_place", "created file .koda/agents/x !koda_place",
	    "changed file .vscode/settings.json !deny_write_within_allow",
	    "created file .vscode/tasks.json !deny_write_within_allow", "created file ORIG_HEAD",
	    "created link deep !protected_below", "created dir pkg",
	    "created dir pkg/.idea !deny_write_names", "created file pkg/.idea/x !deny_write_names",
	    "deleted dir sub/.git !git_config", "created file sub/.git !git_config",
	    "deleted dir sub/.idea !deny_write_names");
}

/* git writes through a link as if it were its own file, also in a directory that has another name. */
static void
git_links(void **state)
{
	DIRS(root, "store", "store/objects", "store/refs", "store/logs", "other");
	put(root, "store/HEAD", "ref: refs/heads/main\n");
	DIRS(upper, "store", "store/logs", "other");
	must(symlink("/etc/x", in(upper, "store/FETCH_HEAD")) == 0 &&
	    symlink("/etc/x", in(upper, "store/logs/HEAD")) == 0 &&
	    symlink("/etc/x", in(upper, "other/HEAD")) == 0);
	/* Well-formed, but a name in it may lead through a link. */
	put(upper, "store/MERGE_RR", "0123456789012345678901234567890123456789\tlink/x");
	EXPECT("created link other/HEAD", "created link store/FETCH_HEAD !git_config",
	    "created file store/MERGE_RR !git_config", "created link store/logs/HEAD !git_config");
}

static void
protected_places_hidden(void **state)
{
	DIRS(root, ".git", ".git/hooks", ".vscode", "sub", "sub/in", "sub/in/.git", "whole",
	    "whole/.git", "gone");
	put(root, ".git/config", "");
	put(root, ".git/hooks/x", "");
	put(root, ".git/HEAD", "");
	put(root, ".vscode/settings.json", "{}");
	put(root, "whole/file", "");
	put(root, "gone/.envrc", "");
	DIRS(upper, ".git", "sub");
	mark(".git", OPAQUE_MARK, "y");
	mark("sub", OPAQUE_MARK, "y");
	put(upper, ".git/config", "[alias]\n");
	delete_in_draft(".vscode");
	delete_in_draft("whole");
	delete_in_draft("gone");
	EXPECT("deleted file .git/HEAD !git_config", "changed file .git/config !git_config",
	    "deleted dir .git/hooks !git_config", "deleted dir .vscode !deny_write_within_allow",
	    "deleted dir gone (1)", "deleted dir sub/in !protected_below",
	    "deleted dir whole !protected_below");
}

/* A link in a protected place leads to a directory: that is protected, too. */
static void
led_places(void **state)
{
	DIRS(root, ".vscode", "scripts");
	put(root, "scripts/task", "");
	must(symlink("../scripts", in(root, ".vscode/scripts")) == 0);
	DIRS(upper, "scripts", "other");
	put(upper, "scripts/task", "evil");
	put(upper, "scripts/new", "evil");
	EXPECT("created dir other", "created file scripts/new !protected_link",
	    "changed file scripts/task !protected_link");
}

/* ---- a repository that is made ---- */

/* Neither a name nor one part gives a git directory away; each part that the draft brings is refused
 * if all together are one that runs something. */
static void
made_repository(void **state)
{
	DIRS(upper, "bare", "bare/objects", "bare/objects/aa", "bare/refs", "bare/hooks", "plain",
	    "plain/objects", "plain/refs");
	put(upper, "bare/HEAD", "ref: refs/heads/main\n");
	put(upper, "bare/config", "[core]\nfsmonitor = evil\n");
	put(upper, "bare/objects/aa/x", "");
	put(upper, "bare/hooks/post-checkout", "");
	/* Without configuration it does nothing. */
	put(upper, "plain/HEAD", "ref: refs/heads/main\n");
	EXPECT("created dir bare !git_config", "created file bare/HEAD !git_config",
	    "created file bare/config !git_config", "created dir bare/hooks !git_config",
	    "created file bare/hooks/post-checkout !git_config",
	    "created dir bare/objects !git_config", "created dir bare/objects/aa !git_config",
	    "created file bare/objects/aa/x !git_config", "created dir bare/refs !git_config",
	    "created dir plain", "created file plain/HEAD", "created dir plain/objects",
	    "created dir plain/refs");
}

/* The project has some parts; what the draft deletes can be left out of what is applied. */
static void
completed_repository(void **state)
{
	DIRS(root, "a", "b", "b/refs", "b/objects", "c", "c/refs", "d", "d/objects", "d/refs");
	put(root, "a/config", "[core]\n");
	put(root, "b/config", "[core]\n");
	put(root, "c/config", "[core]\n");
	put(root, "d/HEAD", "");
	DIRS(upper, "a", "a/objects", "a/refs", "a/worktrees", "b", "c", "c/objects", "d");
	put(upper, "a/HEAD", "");
	/* With the deletion it is none; without it, it is one. */
	put(upper, "b/HEAD", "");
	delete_in_draft("b/config");
	put(upper, "c/HEAD", "");
	delete_in_draft("c/refs");
	/* It is one now, and would not be. */
	delete_in_draft("d/HEAD");
	put(upper, "d/config", "");
	EXPECT("created file a/HEAD !git_config", "created dir a/objects !git_config",
	    "created dir a/refs !git_config", "created dir a/worktrees !git_config",
	    "created file b/HEAD !git_config", "deleted file b/config !git_config",
	    "created file c/HEAD !git_config", "created dir c/objects !git_config",
	    "deleted dir c/refs", "deleted file d/HEAD", "created file d/config !git_config");
}

/* Other permissions would be those of its other names, too, which may be outside of the project: the
 * draft's file comes instead. */
static void
mode_of_several_names(void **state)
{
	put(base, "store", "1");
	must(link(in(base, "store"), in(root, "stored")) == 0);
	put(root, "own", "1");
	put(upper, "stored", "1");
	put(upper, "own", "1");
	must(chmod(in(upper, "stored"), 0600) == 0 && chmod(in(upper, "own"), 0600) == 0);
	EXPECT("mode file own", "changed file stored");
}

/* ---- conflicts ---- */

static void
changed_meanwhile(void **state)
{
	DIRS(root, "dir", "dir/sub", "quiet", "hidden", "typed");
	put(root, "changed", "1");
	put(root, "untouched", "1");
	put(root, "deleted", "1");
	put(root, "dir/sub/x", "1");
	put(root, "quiet/x", "1");
	put(root, "hidden/x", "1");
	put(root, "hidden/y", "1");
	put(root, "typed/x", "1");
	DIRS(upper, "hidden");
	put(upper, "changed", "22");
	put(upper, "untouched", "22");
	put(upper, "appeared", "22");
	put(upper, "typed", "22");
	mark("hidden", OPAQUE_MARK, "y");
	delete_in_draft("deleted");
	delete_in_draft("dir");
	delete_in_draft("quiet");
	EXPECT("created file appeared", "changed file changed", "deleted file deleted",
	    "deleted dir dir (2)", "deleted file hidden/x", "deleted file hidden/y",
	    "deleted dir quiet (1)", "deleted dir typed (1)", "created file typed",
	    "changed file untouched");
	put(root, "appeared", "333");
	touch_later(in(root, "appeared"));
	touch_later(in(root, "changed"));
	touch_later(in(root, "deleted"));
	/* Neither directory above it changes. */
	touch_later(in(root, "dir/sub/x"));
	touch_later(in(root, "hidden/y"));
	touch_later(in(root, "typed/x"));
	EXPECT("changed file appeared conflict", "changed file changed conflict",
	    "deleted file deleted conflict", "deleted dir dir conflict (2)",
	    "deleted file hidden/x", "deleted file hidden/y conflict", "deleted dir quiet (1)",
	    "deleted dir typed conflict (1)", "created file typed conflict",
	    "changed file untouched");
}

/* Another directory took the place of one that the draft made: what is in it is older than the draft,
 * and still not what the draft deleted or replaced. */
static void
moved_in_meanwhile(void **state)
{
	DIRS(base, "old", "old/sub");
	put(base, "old/a", "1");
	put(base, "old/sub/b", "1");
	DIRS(upper, "made", "made/sub");
	mark("made", OPAQUE_MARK, "y");
	put(upper, "made/a", "22");
	put(upper, "made/own", "22");
	touch_later(in(base, "old"));
	must(rename(in(base, "old"), in(root, "made")) == 0);
	EXPECT("changed file made/a conflict", "created file made/own",
	    "deleted file made/sub/b conflict");
}

/* ---- pages ---- */

/* After each change, whatever it was, the same changes follow: asked of one worker, and of one that
 * knows nothing of earlier pages. */
static void
every_boundary(void **state)
{
	struct lister w;
	struct list all, rest;

	DIRS(root, "a", "a/b", "file-dir", "o", "o/p", "o/p/q");
	put(root, "file-dir/x", "");
	put(root, "dir-file", "");
	put(root, "a/b/gone", "");
	put(root, "o/p/q/r", "");
	put(root, "o/z", "");
	DIRS(upper, "a", "a/b", "a/b/c", "dir-file", "dir-file/s", "o", "o/p", "bare",
	    "bare/objects", "bare/refs");
	put(upper, "bare/HEAD", "");
	put(upper, "bare/config", "");
	put(upper, "bare/objects/x", "");
	put(upper, "file-dir", "");
	put(upper, "a/b/c/d", "");
	put(upper, "a/b-", "");
	put(upper, "dir-file/s/t", "");
	mark("o", OPAQUE_MARK, "y");
	put(upper, "o/p/new", "");
	delete_in_draft("a/b/gone");
	lister_start(&w);
	list_after(&w, root, NULL, 0, &all);
	assert_true(all.n > 15);
	for (size_t i = 0; i < all.n; i++) {
		list_after(&w, root, all.path[i], all.kind[i], &rest);
		expect_lines(&rest, (const char *const *)all.line + i + 1, all.n - i - 1);
		list_done(&rest);
	}
	/* After what is not there (any more). */
	list_after(&w, root, in(root, "a/b/c/c/c"), KODA__DRAFT_KIND__DRAFT_CREATED, &rest);
	assert_string_equal(rest.line[0], "created file a/b/c/d");
	list_done(&rest);
	list_after(&w, root, in(root, "zzz"), KODA__DRAFT_KIND__DRAFT_CREATED, &rest);
	assert_int_equal(rest.n, 0);
	list_done(&rest);
	assert_int_equal(ask_page(&w, base, KODA__DRAFT_KIND__DRAFT_CREATED)->result_case,
	    KODA__REPLY__RESULT_ERROR);
	list_done(&all);
	lister_end(&w);
}

#define MANY 100000

static void
make_many(const char *top, size_t n)
{
	int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[32];

	must(dir >= 0);
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%08zx", i * 2654435761u % 0xffffffff);
		must(mknodat(dir, name, S_IFREG | 0644, 0) == 0 || errno == EEXIST);
	}
	close(dir);
}

static double
cpu_seconds(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	must(clock_gettime(clock, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Lists all of it; *ret_cpu is what it cost the worker. */
static void
list_many(struct list *list, double *ret_cpu)
{
	struct lister w;
	double before;

	lister_start(&w);
	before = cpu_seconds(w.pid);
	list_after(&w, root, NULL, 0, list);
	*ret_cpu = cpu_seconds(w.pid) - before;
	lister_end(&w);
}

/* Ten times as many names in one directory cost about ten times as much. */
static void
many_names(void **state)
{
	struct list list;
	double few, many;

	make_many(upper, MANY / 10);
	list_many(&list, &few);
	assert_int_equal(list.n, MANY / 10);
	list_done(&list);
	make_many(upper, MANY);
	list_many(&list, &many);
	assert_int_equal(list.n, MANY);
	assert_false(list.cut);
	assert_true(list.pages > 20);
	for (size_t i = 1; i < list.n; i++)
		assert_true(strcmp(list.path[i - 1], list.path[i]) < 0);
	print_message("# %zu names in %zu pages: %.3f s; a tenth of them: %.3f s\n", list.n,
	    list.pages, many, few);
	assert_true(many < 25 * few);
	list_done(&list);
}

/* ---- hostile trees ---- */

/* Makes a chain of directories named "d", and a file "f" at the end. */
static void
make_deep(const char *top, unsigned levels, const char *text)
{
	int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	for (unsigned i = 0; i < levels; i++) {
		int next;

		must(mkdirat(dir, "d", 0755) == 0);
		next = openat(dir, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
		must(next >= 0);
		close(dir);
		dir = next;
	}
	fd = openat(dir, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	close(dir);
}

static size_t
depth_of(const char *path)
{
	size_t n = 0;

	for (path += strlen(root); *path != '\0'; path++)
		n += *path == '/';
	return n;
}

static void
deep_tree(void **state)
{
	struct lister w;
	struct list list;

	make_deep(upper, 199, "x");
	put(upper, "last", "");
	lister_start(&w);
	list_after(&w, root, NULL, 0, &list);
	assert_int_equal(list.n, 201);
	assert_int_equal(depth_of(list.path[199]), 200);
	assert_string_equal(list.line[200], "created file last");
	assert_false(list.cut);
	list_done(&list);
	/* One more is not listed, and said to be missing. */
	must(rename(in(upper, "d"), in(base, "d")) == 0 && mkdir(in(upper, "d"), 0755) == 0 &&
	    rename(in(base, "d"), in(upper, "d/d")) == 0);
	list_after(&w, root, NULL, 0, &list);
	assert_int_equal(list.n, 201);
	assert_true(list.cut);
	assert_string_equal(list.line[200], "created file last");
	list_done(&list);
	lister_end(&w);
}

/* The project is as deep: the way back is the way there. */
static void
deep_in_both(void **state)
{
	struct lister w;
	struct list list;
	char *text;

	char bottom[512];
	int dir;

	make_deep(root, 150, "old");
	/* A deep tree is deleted far down: one descriptor for each of its levels, too. */
	snprintf(bottom, sizeof(bottom), "%s/d", root);
	for (unsigned i = 0; i < 60; i++)
		strcat(bottom, "/d");
	strcat(bottom, "/gone");
	must(mkdir(bottom, 0755) == 0);
	make_deep(bottom, 98, "x");
	put(root, "d/z", "");
	wait_for_tick();
	make_deep(upper, 150, "new");
	dir = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(dir >= 0 && mknodat(dir, bottom + strlen(root) + 1, S_IFCHR | 0600, 0) == 0);
	close(dir);
	delete_in_draft("d/z");
	put(upper, "d/d/d/z", "");
	lister_start(&w);
	list_after(&w, root, NULL, 0, &list);
	assert_int_equal(list.n, 4);
	text = list.line[0];
	assert_true(strncmp(text, "changed file d/d/", 17) == 0);
	assert_non_null(strstr(list.line[1], "/gone (99)"));
	assert_string_equal(list.line[2], "created file d/d/d/z");
	assert_string_equal(list.line[3], "deleted file d/z");
	list_done(&list);
	lister_end(&w);
}

static void
hostile_names(void **state)
{
	char name[256], longest[4096];
	struct lister w;
	struct list list;
	int dir = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);

	memset(name, 'n', 255);
	name[255] = '\0';
	memset(longest, 't', 4095);
	longest[4095] = '\0';
	put(upper, name, "");
	put(upper, "\x1b[31m", "");
	put(upper, "...", "");
	must(symlink(longest, in(upper, "link")) == 0);
	/* Longer than any path: no operation could name it. */
	for (unsigned i = 0; i < 20; i++) {
		int next;

		must(mkdirat(dir, name + 1, 0755) == 0);
		next = openat(dir, name + 1, O_PATH | O_DIRECTORY | O_CLOEXEC);
		must(next >= 0);
		close(dir);
		dir = next;
	}
	close(dir);
	lister_start(&w);
	list_after(&w, root, NULL, 0, &list);
	assert_true(list.cut);
	assert_string_equal(list.line[0], "created file \x1b[31m");
	assert_string_equal(list.line[1], "created file ...");
	assert_string_equal(list.line[2], "created link link");
	assert_string_equal(list.line[list.n - 1] + strlen("created file "), name);
	assert_true(list.n > 10 && list.n < 20);
	list_done(&list);
	lister_end(&w);
}

/* ---- while it is listed ---- */

static void
project_replaced(void **state)
{
	const Koda__Reply *rep;
	char last[PATH_MAX];
	Koda__DraftKind kind;
	struct lister w;

	make_many(upper, 5000);
	lister_start(&w);
	rep = ask_page(&w, NULL, 0);
	assert_true(rep->changes->more);
	snprintf(last, sizeof(last), "%.*s",
	    (int)rep->changes->entry[rep->changes->n_entry - 1]->path.len,
	    (const char *)rep->changes->entry[rep->changes->n_entry - 1]->path.data);
	kind = rep->changes->entry[rep->changes->n_entry - 1]->kind;
	DIRS(base, "other");
	must(rename(root, in(base, "moved")) == 0 && symlink("other", root) == 0);
	rep = ask_page(&w, last, kind);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_ERROR);
	assert_int_equal(rep->error->code, KODA__ERROR_CODE__CONFLICT);
	/* A directory instead of a link, and from the beginning. */
	must(unlink(root) == 0 && mkdir(root, 0755) == 0);
	rep = ask_page(&w, NULL, 0);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_ERROR);
	assert_int_equal(rep->error->code, KODA__ERROR_CODE__CONFLICT);
	must(rmdir(root) == 0 && rename(in(base, "moved"), root) == 0);
	rep = ask_page(&w, last, kind);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_CHANGES);
	lister_end(&w);
}

/* A layer that is not the root is found by its path each time: by then another directory may be
 * there. */
static void
layer_replaced(void **state)
{
	const Koda__Reply *rep;
	struct lister w;

	DIRS(root, "side", "side/x", "fresh");
	put(upper, "made", "");
	snprintf(layer_path, sizeof(layer_path), "%s/side", root);
	lister_start(&w);
	rep = ask_page(&w, NULL, 0);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_CHANGES);
	assert_int_equal(rep->changes->n_entry, 1);
	must(rename(layer_path, in(base, "side")) == 0);
	must(rename(in(root, "fresh"), layer_path) == 0);
	rep = ask_page(&w, NULL, 0);
	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_ERROR);
	assert_int_equal(rep->error->code, KODA__ERROR_CODE__CONFLICT);
	lister_end(&w);
}

/* A directory of the project that became a link to another place is not looked into. */
static void
link_in_the_project(void **state)
{
	DIRS(base, "outside", "outside/sub");
	put(base, "outside/file", "the same");
	put(base, "outside/gone", "");
	must(symlink(in(base, "outside"), in(root, "dir")) == 0);
	DIRS(upper, "dir");
	put(upper, "dir/file", "the same");
	delete_in_draft("dir/gone");
	EXPECT("deleted link dir", "created dir dir", "created file dir/file");
}

/* ---- ReadDraft ---- */

static const Koda__Reply *
read_draft(struct lister *w, const char *path, uint32_t layer, uint64_t offset, uint64_t max)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__ReadDraft msg = KODA__READ_DRAFT__INIT;

	msg.layer = layer;
	msg.path = message_text(path);
	msg.has_offset = offset > 0;
	msg.offset = offset;
	msg.has_max = max > 0;
	msg.max = max;
	req.op_case = KODA__REQUEST__OP_READ_DRAFT;
	req.read_draft = &msg;
	return ask(w, &req, -1);
}

static void
expect_content(struct lister *w, const char *name, uint64_t offset, uint64_t max, const char *want)
{
	const Koda__Reply *rep = read_draft(w, in(root, name), 0, offset, max);

	assert_int_equal(rep->result_case, KODA__REPLY__RESULT_READ);
	assert_int_equal(rep->read->content.len, strlen(want));
	assert_memory_equal(rep->read->content.data, want, strlen(want));
}

static void
expect_no_content(struct lister *w, const char *path, uint32_t layer, int code)
{
	const Koda__Reply *rep = read_draft(w, path, layer, 0, 0);

	if (rep->result_case != KODA__REPLY__RESULT_ERROR)
		fail_msg("%s was read", path);
	assert_int_equal(rep->error->code, code);
}

static void
read_from_draft(void **state)
{
	const Koda__Reply *rep;
	struct lister w;
	int fd;

	put(root, "file", "old");
	put(root, "only-here", "old");
	put(root, "deleted", "old");
	DIRS(upper, "dir", "secret");
	put(upper, "file", "new content");
	put(upper, "dir/file", "deeper");
	put(upper, "secret/file", "secret");
	put(upper, "metacopy", "");
	mark("metacopy", "user.overlay.metacopy", "");
	must(symlink("/etc/passwd", in(upper, "link")) == 0 &&
	    symlink("dir", in(upper, "to")) == 0 && mkfifo(in(upper, "fifo"), 0600) == 0);
	delete_in_draft("deleted");
	fd = open(in(upper, "large"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	must(fd >= 0 && ftruncate(fd, INLINE_MAX + 1) == 0);
	close(fd);
	lister_start(&w);
	expect_content(&w, "file", 0, 0, "new content");
	expect_content(&w, "file", 4, 3, "con");
	expect_content(&w, "file", 100, 0, "");
	expect_content(&w, "dir/file", 0, 0, "deeper");
	expect_content(&w, "large", INLINE_MAX + 1, 1, "");
	expect_no_content(&w, in(root, "only-here"), 0, KODA__ERROR_CODE__IO);
	expect_no_content(&w, in(root, "deleted"), 0, KODA__ERROR_CODE__IO);
	expect_no_content(&w, in(root, "dir"), 0, KODA__ERROR_CODE__IO);
	expect_no_content(&w, in(root, "fifo"), 0, KODA__ERROR_CODE__IO);
	expect_no_content(&w, in(root, "link"), 0, KODA__ERROR_CODE__IO);
	expect_no_content(&w, in(root, "metacopy"), 0, KODA__ERROR_CODE__IO);
	expect_no_content(&w, in(root, "to/file"), 0, KODA__ERROR_CODE__IO);
	expect_no_content(&w, in(root, "secret/file"), 0, KODA__ERROR_CODE__POLICY_DENIED);
	expect_no_content(&w, in(root, "file"), 1, KODA__ERROR_CODE__INVALID);
	expect_no_content(&w, "/etc/passwd", 0, KODA__ERROR_CODE__INVALID);
	expect_no_content(&w, root, 0, KODA__ERROR_CODE__INVALID);
	rep = read_draft(&w, in(root, "large"), 0, 0, 0);
	assert_true(rep->read->descriptor);
	assert_int_equal(rep->read->size, INLINE_MAX + 1);
	fd = frame_take_fd(&w.fs);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	lister_end(&w);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, drafted_make, drafted_remove)
	static const struct CMUnitTest tests[] = {
		CASE(every_kind),
		CASE(sorted_by_bytes),
		CASE(opaque_directory),
		CASE(another_type),
		CASE(never_applied),
		CASE(protected_places),
		CASE(git_links),
		CASE(protected_places_hidden),
		CASE(led_places),
		CASE(made_repository),
		CASE(completed_repository),
		CASE(mode_of_several_names),
		CASE(changed_meanwhile),
		CASE(moved_in_meanwhile),
		CASE(every_boundary),
		CASE(many_names),
		CASE(deep_tree),
		CASE(deep_in_both),
		CASE(hostile_names),
		CASE(project_replaced),
		CASE(layer_replaced),
		CASE(link_in_the_project),
		CASE(read_from_draft),
	};

	return cmocka_run_group_tests_name("changes", tests, NULL, NULL);
}
