/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/files/resolve.c: a tree with everything that a path can stumble over, and a table of
 * paths: each is resolved with openat2 and without, and both must agree.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "worker/files/resolve.h"

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s: %s", #x, strerror(errno));                                   \
	} while (0)

#define ITSELF RESOLVE_LINK_ITSELF
#define PARENT RESOLVE_PARENT

/* A row sets only the fields that it is about; the rest is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* base/root is the root, base/out is outside. In a path and in a wanted text, @ is the base. */
static char base[PATH_MAX / 4];
static struct resolver resolver = { .depth = 10 };

/* clang-format off */
static const struct {
	const char *label, *path;
	unsigned flags;
	int code;            /* 0, or the error */
	/* canonical path, of failures too; NULL: not checked */
	const char *want;
	int type;            /* 0: does not exist */
	const char *missing; /* NULL: nothing is missing */
	unsigned hops;
	const char *rule;
} cases[] = {
	{ "a file",                     "f",              0, 0, "@/root/f", S_IFREG },
	{ "below directories",          "d/e/g",          0, 0, "@/root/d/e/g", S_IFREG },
	{ "absolute, in the root",      "@/root/d/e/g",   0, 0, "@/root/d/e/g", S_IFREG },
	{ "absolute, outside",          "@/out/h",        0, 0, "@/out/h", S_IFREG },
	{ "a name like the root's",     "@/root2",        0, 0, "@/root2", 0, "" },
	{ "the root, empty component",  "./",             0, 0, "@/root", S_IFDIR },
	{ "the root, dot",              ".",              PARENT, 0, "@/root", S_IFDIR },
	{ "the root, absolute",         "@/root",         PARENT, 0, "@/root", S_IFDIR },
	{ "slash",                      "/",              PARENT, 0, "/", S_IFDIR },
	{ "many slashes and dots",      ".//d/././/e//g", 0, 0, "@/root/d/e/g", S_IFREG },
	{ "dots inside a name",         "..dots..",       0, 0, "@/root/..dots..", S_IFREG },
	{ "a directory with a slash",   "d/",             PARENT, 0, "@/root/d", S_IFDIR },
	{ "dot at the end",             "d/.",            PARENT, 0, "@/root/d", S_IFDIR },
	{ "a file with a slash",        "f/",             0, KODA_IO, "@/root/f" },
	{ "a file with dot",            "f/.",            0, KODA_IO, "@/root/f" },
	{ "below a file",               "f/x/y",          0, KODA_IO, "@/root/f/x/y" },
	{ "empty",                      "",               0, KODA_INVALID, NULL },
	{ "newline in a name",          "new\nline",      0, 0, "@/root/new\nline", S_IFREG },
	{ "not UTF-8",                  "\xff\xfe",       0, 0, "@/root/\xff\xfe", S_IFREG },
	{ "a FIFO is not opened",       "fifo",           0, 0, "@/root/fifo", S_IFIFO },

	{ "missing",                    "n",              PARENT, 0, "@/root/n", 0, "" },
	{ "missing with a slash",       "n/",             PARENT, 0, "@/root/n", 0, "" },
	{ "missing tail",               "d/n/o/p",        PARENT, 0, "@/root/d/n/o/p", 0, "o/p" },
	{ "missing tail, without asking", "d/n/o/p",      0, 0, "@/root/d/n/o/p", 0, "o/p" },
	{ "missing, dots between",      "n/./o/.",        PARENT, 0, "@/root/n/o", 0, "o" },

	{ "dotdot in the middle",       "d/../f",         PARENT, 0, "@/root/f", S_IFREG },
	{ "dotdot at the end",          "d/e/..",         PARENT, 0, "@/root/d", S_IFDIR },
	{ "dotdot to the root",         "d/..",           PARENT, 0, "@/root", S_IFDIR },
	{ "dotdot above the root",      "..",             0, KODA_INVALID, NULL },
	{ "dotdot above, later",        "d/../../out/h",  0, KODA_INVALID, NULL },
	{ "dotdot above, absolute",     "@/root/../out/h", 0, 0, "@/out/h", S_IFREG },
	{ "dotdot above slash",         "/../..",         0, 0, "/", S_IFDIR },
	{ "dotdot behind a missing one", "n/../f",        0, KODA_INVALID, NULL },
	{ "dotdot behind a file",       "f/../f",         0, KODA_IO, "@/root/f" },

	{ "link to a file",             "l-f",            0, 0, "@/root/f", S_IFREG, NULL, 1 },
	{ "link to a file, parent",     "l-f",            PARENT, 0, "@/root/f", S_IFREG, NULL, 1 },
	{ "link itself",                "l-f",            ITSELF, 0, "@/root/l-f", S_IFLNK },
	{ "link itself, parent",        "l-f",            ITSELF | PARENT, 0, "@/root/l-f", S_IFLNK },
	{ "link to a directory",        "l-d/e/g",        PARENT, 0, "@/root/d/e/g", S_IFREG, NULL, 1 },
	{ "link on the way, itself last", "l-d/l-up",     ITSELF, 0, "@/root/d/l-up", S_IFLNK, NULL, 1 },
	{ "link with a slash",          "l-d/",           0, 0, "@/root/d", S_IFDIR, NULL, 1 },
	{ "link with a slash, itself",  "l-d/",           ITSELF, KODA_IO, "@/root/l-d" },
	{ "link to a file with a slash", "l-f/",          0, KODA_IO, "@/root/f", 0, NULL, 1 },
	{ "link whose target ends in a slash", "l-slash", 0, KODA_IO, "@/root/f", 0, NULL, 1 },
	{ "absolute link",              "l-abs/h",        PARENT, 0, "@/out/h", S_IFREG, NULL, 1 },
	{ "link that leads up",         "d/l-up/f",       PARENT, 0, "@/root/f", S_IFREG, NULL, 1 },
	{ "link above the root",        "l-out/h",        0, 0, "@/out/h", S_IFREG, NULL, 1 },
	{ "dotdot behind a link",       "l-abs/..",       PARENT, 0, "@", S_IFDIR, NULL, 1 },
	{ "dotdot behind a link is not text", "l-abs/../root/f", 0, 0, "@/root/f", S_IFREG, NULL, 1 },
	{ "dotdot of a link to deeper", "l-e/..",         PARENT, 0, "@/root/d", S_IFDIR, NULL, 1 },
	{ "dangling link",              "l-gone",         PARENT, 0, "@/root/d/gone", 0, "", 1 },
	{ "dangling link into nowhere", "l-nowhere/x",    PARENT, 0, "@/out/no/where/x", 0, "where/x", 1 },
	{ "link to the root's dot",     "l-dot/f",        0, 0, "@/root/f", S_IFREG, NULL, 1 },
	{ "cycle of one",               "loop",           0, KODA_POLICY_DENIED, "@/root/loop", 0, NULL, 10, "link_depth" },
	{ "cycle of two",               "ping/x",         0, KODA_POLICY_DENIED, NULL, 0, NULL, 10, "link_depth" },
	{ "cycle itself",               "loop",           ITSELF, 0, "@/root/loop", S_IFLNK },
	{ "ten links",                  "c10",            0, 0, "@/root/f", S_IFREG, NULL, 10 },
	{ "eleven links",               "c11",            0, KODA_POLICY_DENIED, NULL, 0, NULL, 10, "link_depth" },

	{ "link of proc",               "/proc/self/status", 0, KODA_POLICY_DENIED, "/proc/self/status", 0, NULL, 0, "magic_link" },
	{ "descriptor",                 "/dev/fd/0",      0, KODA_POLICY_DENIED, NULL, 0, NULL, 1, "magic_link" },
	{ "another root",               "/proc/self/root/etc", 0, KODA_POLICY_DENIED, NULL, 0, NULL, 0, "magic_link" },
	{ "link to a link of proc",     "l-cwd/f",        0, KODA_POLICY_DENIED, NULL, 0, NULL, 1, "magic_link" },

	{ "no permission",              "closed/x",       0, KODA_IO, "@/root/closed/x" },
	{ "no permission, rest named",  "closed/x/../y",  0, KODA_IO, "@/root/closed/x" },
};
/* clang-format on */

static const char *
expand(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	for (; *text != '\0' && n + sizeof(base) < size; text++) {
		if (*text == '@')
			n += (size_t)sprintf(buf + n, "%s", base);
		else
			buf[n++] = *text;
	}
	buf[n] = '\0';
	return buf;
}

static const char *
at(const char *text)
{
	static char buf[2][PATH_MAX];
	static unsigned i;

	return expand(text, buf[i++ % 2], PATH_MAX);
}

static void
touch(const char *path)
{
	must(close(open(at(path), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) == 0);
}

static void
check_parent(const struct place *pl)
{
	struct stat by_name, by_path;
	char dir[PATH_LEN_MAX + 1], name[NAME_LEN_MAX + 1];
	size_t n = (size_t)(pl->name - pl->path);

	assert_true(pl->parent_fd >= 0);
	snprintf(dir, sizeof(dir), "%.*s", n > 1 ? (int)n - 1 : 1, pl->path);
	must(stat(dir, &by_path) == 0 && fstat(pl->parent_fd, &by_name) == 0);
	assert_int_equal(by_name.st_ino, by_path.st_ino);
	assert_int_equal(resolve_verify(&resolver, pl->parent_fd, dir, strlen(dir), NULL), 0);
	snprintf(name, sizeof(name), "%.*s", (int)place_name_len(pl), pl->name);
	assert_null(strchr(name, '/'));
	if (pl->target_fd >= 0 && name[0] != '\0') {
		must(fstatat(pl->parent_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0);
		assert_int_equal(by_name.st_ino, pl->st.st_ino);
	}
}

static void
check_case(size_t i)
{
	cleanup(place_done) struct place pl;
	struct koda_error err = { 0 };
	char path[PATH_MAX], want[PATH_MAX];
	int r;

	expand(cases[i].path, path, sizeof(path));
	r = resolve(&resolver, (const uint8_t *)path, strlen(path), cases[i].flags, &pl, &err);
	if (r == 0 && cases[i].code != 0)
		fail_msg("'%s' is '%s' and not refused", path, pl.path);
	if (r < 0 && (int)err.code != cases[i].code)
		fail_msg("'%s': %d, %s", path, err.code, err.message);
	assert_int_equal(r, cases[i].code == 0 ? 0 : -1);
	if (cases[i].want != NULL)
		assert_string_equal(pl.path, expand(cases[i].want, want, sizeof(want)));
	assert_int_equal(pl.n_hops, cases[i].hops);
	if (cases[i].rule != NULL)
		assert_string_equal(err.rule, cases[i].rule);
	if (r < 0) {
		assert_int_equal(pl.target_fd, -1);
		assert_int_equal(pl.parent_fd, -1);
		assert_true(err.message[0] != '\0');
		return;
	}
	assert_int_equal(pl.target_fd >= 0, cases[i].type != 0);
	if (pl.target_fd >= 0) {
		struct stat st;

		assert_int_equal(pl.st.st_mode & S_IFMT, cases[i].type);
		must(lstat(pl.path, &st) == 0);
		assert_int_equal(st.st_ino, pl.st.st_ino);
		assert_int_equal(resolve_verify(&resolver, pl.target_fd, pl.path, strlen(pl.path),
				     NULL),
		    0);
		assert_int_equal(fcntl(pl.target_fd, F_GETFL) & O_PATH, O_PATH);
	} else {
		assert_string_equal(pl.missing, cases[i].missing);
	}
	if ((cases[i].flags & RESOLVE_PARENT) != 0)
		check_parent(&pl);
	if (path[1] != '\0' && path[strlen(path) - 1] == '/')
		assert_true(pl.wants_dir);
}

/* Whether openat2 works, probed as the sealed worker does: under valgrind and the shim it does
 * not. */
static bool have_openat2;

static void
test_openat2(void **state)
{
	resolver.no_openat2 = !have_openat2;
	check_case((uintptr_t)*state);
}

static void
test_walk(void **state)
{
	resolver.no_openat2 = true;
	check_case((uintptr_t)*state);
}

static void
test_over_long(void **state)
{
	cleanup(place_done) struct place pl;
	struct koda_error err = { 0 };
	char path[PATH_LEN_MAX + 2];

	resolver.no_openat2 = *state != NULL || !have_openat2;
	memset(path, 'a', sizeof(path));
	for (size_t i = 200; i < sizeof(path); i += 200)
		path[i] = '/';
	/* Short enough by itself, but not after the root. */
	assert_int_equal(resolve(&resolver, (uint8_t *)path, PATH_LEN_MAX, 0, &pl, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	place_done(&pl);
	assert_int_equal(resolve(&resolver, (uint8_t *)path, PATH_LEN_MAX + 1, 0, &pl, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	place_done(&pl);
	memset(path, 'b', 256);
	assert_int_equal(resolve(&resolver, (uint8_t *)path, 256, 0, &pl, &err), -1);
	place_done(&pl);
	assert_int_equal(resolve(&resolver, (const uint8_t *)"a\0b", 3, 0, &pl, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
}

/* Links are limited to 40 whatever the policy says. */
static void
test_41_links(void **state)
{
	cleanup(place_done) struct place pl;
	struct koda_error err = { 0 };

	resolver.no_openat2 = *state != NULL || !have_openat2;
	resolver.depth = 255;
	assert_int_equal(resolve(&resolver, (const uint8_t *)"c40", 3, 0, &pl, &err), 0);
	assert_int_equal(pl.n_hops, 40);
	assert_string_equal(pl.hop[0], at("@/root/c40"));
	assert_string_equal(pl.hop[39], at("@/root/c1"));
	place_done(&pl);
	assert_int_equal(resolve(&resolver, (const uint8_t *)"c41", 3, 0, &pl, &err), -1);
	assert_string_equal(err.rule, "link_depth");
	resolver.depth = 10;
}

/* A descriptor whose directory was moved is not where the text says. */
static void
test_verify(void **state)
{
	struct koda_error err = { 0 };
	cleanup_close int fd = -1, moved = -1;

	must(mkdir(at("@/root/here"), 0755) == 0);
	fd = resolve_canonical_dir(&resolver, at("@/root/here"), strlen(at("@/root/here")));
	assert_true(fd >= 0);
	assert_int_equal(resolve_verify(&resolver, fd, at("@/root/here"), strlen(at("@/root/here")),
			     &err),
	    0);
	must(rename(at("@/root/here"), at("@/out/there")) == 0);
	assert_int_equal(resolve_verify(&resolver, fd, at("@/root/here"), strlen(at("@/root/here")),
			     &err),
	    -1);
	assert_int_equal(err.code, KODA_CONFLICT);
	must(rmdir(at("@/out/there")) == 0);
	assert_int_equal(resolve_verify(&resolver, fd, at("@/out/there"), strlen(at("@/out/there")),
			     &err),
	    -1);
	/* A link in a path that claims to be link-free. */
	moved = resolve_canonical_dir(&resolver, at("@/root/l-d"), strlen(at("@/root/l-d")));
	assert_int_equal(moved, -1);
}

static void
test_reopen(void **state)
{
	cleanup(place_done) struct place pl;
	cleanup_close int fd = -1;
	char c;

	assert_int_equal(resolve(&resolver, (const uint8_t *)"d/e/g", 5, 0, &pl, NULL), 0);
	/* The file itself, and not another one that has its name now. */
	must(rename(at("@/root/d/e/g"), at("@/root/d/e/other")) == 0);
	fd = resolve_reopen(&resolver, pl.target_fd, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, &c, 1), 0);
	must(rename(at("@/root/d/e/other"), at("@/root/d/e/g")) == 0);
}

static unsigned
count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
test_nothing_left_open(void **state)
{
	unsigned before = count_fds();

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		for (unsigned k = 0; k < 8; k++) {
			cleanup(place_done) struct place pl;
			char path[PATH_MAX];

			resolver.no_openat2 = k >= 4 || !have_openat2;
			expand(cases[i].path, path, sizeof(path));
			resolve(&resolver, (const uint8_t *)path, strlen(path), k & 3, &pl, NULL);
		}
	resolver.no_openat2 = !have_openat2;
	assert_int_equal(count_fds(), before);
}

static int
make_tree(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX / 8], name[32], target[32];
	char *real = NULL;
	static char root[PATH_MAX];

	snprintf(path, sizeof(path), "%s/resolve.XXXXXX", tmp != NULL ? tmp : "/tmp");
	must(mkdtemp(path) != NULL && (real = realpath(path, NULL)) != NULL);
	snprintf(base, sizeof(base), "%s", real);
	free(real);
	must(chmod(base, 0755) == 0);
	must(mkdir(at("@/root"), 0755) == 0 && mkdir(at("@/out"), 0755) == 0);
	must(mkdir(at("@/root/d"), 0755) == 0 && mkdir(at("@/root/d/e"), 0755) == 0);
	touch("@/root/f");
	touch("@/root/d/e/g");
	touch("@/root/..dots..");
	touch("@/root/new\nline");
	touch("@/root/\xff\xfe");
	touch("@/out/h");
	must(mkfifo(at("@/root/fifo"), 0644) == 0);
	must(symlink("f", at("@/root/l-f")) == 0 && symlink("d", at("@/root/l-d")) == 0);
	must(symlink("f/", at("@/root/l-slash")) == 0 && symlink(".", at("@/root/l-dot")) == 0);
	must(symlink(at("@/out"), at("@/root/l-abs")) == 0);
	must(symlink("..", at("@/root/d/l-up")) == 0 && symlink("../out", at("@/root/l-out")) == 0);
	must(symlink("d/e", at("@/root/l-e")) == 0 && symlink("d/gone", at("@/root/l-gone")) == 0);
	must(symlink(at("@/out/no/where"), at("@/root/l-nowhere")) == 0);
	must(symlink("loop", at("@/root/loop")) == 0 && symlink("pong", at("@/root/ping")) == 0);
	must(symlink("ping", at("@/root/pong")) == 0);
	must(symlink("/proc/self/cwd", at("@/root/l-cwd")) == 0);
	for (unsigned i = 1; i <= 41; i++) {
		snprintf(name, sizeof(name), "@/root/c%u", i);
		snprintf(target, sizeof(target), i == 1 ? "f" : "c%u", i - 1);
		must(symlink(target, at(name)) == 0);
	}
	must(mkdir(at("@/root/closed"), 0755) == 0);
	must(chmod(at("@/root/closed"), 0) == 0);
	snprintf(root, sizeof(root), "%s/root", base);
	resolver.root = root;
	resolver.root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	{
		struct open_how how = { .flags = O_PATH | O_CLOEXEC };
		cleanup_close int probe =
		    (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

		have_openat2 = probe >= 0;
	}
	resolver.proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return resolver.root_fd >= 0 && resolver.proc_fd >= 0 ? 0 : -1;
}

static int
remove_tree(void **state)
{
	char command[PATH_MAX];

	chmod(at("@/root/closed"), 0700);
	/* Safe for the shell: this test made the name, of characters that mkdtemp() uses. */
	snprintf(command, sizeof(command), "rm -rf '%s'", base);
	return system(command);
}

int
main(void)
{
	struct CMUnitTest tests[2 * N_ELEMENTS(cases) + 8];
	char labels[2 * N_ELEMENTS(cases)][64];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		/* Root searches every directory. */
		if (geteuid() == 0 && strncmp(cases[i].label, "no permission", 13) == 0)
			continue;
		snprintf(labels[n], sizeof(labels[n]), "%s", cases[i].label);
		tests[n] = (struct CMUnitTest){ labels[n], test_openat2, NULL, NULL,
			(void *)(uintptr_t)i };
		n++;
		snprintf(labels[n], sizeof(labels[n]), "%s (walk)", cases[i].label);
		tests[n] =
		    (struct CMUnitTest){ labels[n], test_walk, NULL, NULL, (void *)(uintptr_t)i };
		n++;
	}
	tests[n++] = (struct CMUnitTest){ "over-long", test_over_long, NULL, NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "over-long (walk)", test_over_long, NULL, NULL, tests };
	tests[n++] = (struct CMUnitTest){ "41 links", test_41_links, NULL, NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "41 links (walk)", test_41_links, NULL, NULL, tests };
	tests[n++] = (struct CMUnitTest){ "verify", test_verify, NULL, NULL, NULL };
	tests[n++] = (struct CMUnitTest){ "reopen", test_reopen, NULL, NULL, NULL };
	tests[n++] =
	    (struct CMUnitTest){ "nothing left open", test_nothing_left_open, NULL, NULL, NULL };
	return _cmocka_run_group_tests("resolve", tests, n, make_tree, remove_tree);
}
