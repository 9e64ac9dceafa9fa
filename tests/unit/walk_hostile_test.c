/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/walk.c: the walk over anything unusual: FIFOs, sockets, devices, links, files that may not
 * be read, directories that change under it, and too much of everything.
 */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/kit/walking.h"

#include "search/names.h"
#include "tests/kit/cases.h"

/* ---- not regular files ---- */

static void
bind_socket(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_close int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* The whole path may be too long for a socket address. */
	assert_int_equal(chdir(root), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(fchdir(here), 0);
}

static void
test_no_files(void **state)
{
	cleanup(told_done) struct told t = { .marks = true };

	put("s/a");
	assert_int_equal(mkfifo(in_root("fifo"), 0600), 0);
	assert_int_equal(symlink("s", in_root("dir")), 0);
	assert_int_equal(symlink("nowhere", in_root("dangling")), 0);
	assert_int_equal(symlink(".", in_root("s/loop")), 0);
	bind_socket("socket");
	expect(&no_options, &t,
	    "> link:dangling link:dir fifo:fifo >s s/a link:s/loop <s socket:socket < ");
	assert_int_equal(t.troubles, 0);
}

static void
test_device(void **state)
{
	const struct walk_rules_options o = { .max_depth = 1 };
	cleanup(told_done) struct told t = { .marks = true };

	assert_int_equal(walk_at(&o, "/dev", &t), 0);
	assert_non_null(strstr(t.text, " device:null "));
}

/* None of them is read or waited for. */
static void
test_no_ignore_files(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };
	const struct walk_rules_options o = { .flags = KODA_SEARCH_NO_REQUIRE_GIT };

	put("a");
	put("rules=a");
	assert_int_equal(mkfifo(in_root(".gitignore"), 0600), 0);
	assert_int_equal(symlink("rules", in_root(".ignore")), 0);
	bind_socket(".rgignore");
	expect(&o, &t, "a rules ");
	put("other/info/exclude=a");
	assert_int_equal(symlink("other", in_root(".git")), 0);
	expect(&o, &t, "a other/info/exclude rules ");
	assert_int_equal(unlink(in_root(".git")), 0);
	put(".git/");
	assert_int_equal(symlink("../other/info", in_root(".git/info")), 0);
	expect(&o, &t, "a other/info/exclude rules ");
	assert_int_equal(unlink(in_root(".git/info")), 0);
	put(".git/info/");
	assert_int_equal(mkfifo(in_root(".git/info/exclude"), 0600), 0);
	expect(&o, &t, "a other/info/exclude rules ");
	assert_int_equal(t.troubles, 0);
}

static void
swap_ignore_file(void)
{
	assert_int_equal(unlink(in_root("s/.ignore")), 0);
	assert_int_equal(mkfifo(in_root("s/.ignore"), 0600), 0);
}

/* The walk reads the listing after the swap and sees a FIFO; what remains is the open. */
static void
test_ignore_file_swapped(void **state)
{
	cleanup(told_done) struct told t = { .act_at = ">s", .act = swap_ignore_file };

	put("s/.ignore=a");
	put("s/a");
	expect(&no_options, &t, "s/a ");
}

/* ---- what may not be read ---- */

static void
test_unreadable_directory(void **state)
{
	cleanup(told_done) struct told t = { .marks = true };

	put("a");
	put("s/b");
	put("t/c");
	assert_int_equal(chmod(in_root("s"), 0), 0);
	expect(&no_options, &t, "> a >t t/c <t < ");
	assert_int_equal(t.troubles, 1);
	assert_int_equal(t.errnum, EACCES);
	assert_string_equal(t.trouble, "s");
}

static void
test_unreadable_rules(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };

	put("s/.ignore=a");
	put("s/a");
	assert_int_equal(chmod(in_root("s/.ignore"), 0), 0);
	expect(&no_options, &t, "s/a ");
	assert_int_equal(t.troubles, 1);
	assert_int_equal(t.errnum, EACCES);
	assert_string_equal(t.trouble, "s/.ignore");
}

static void
test_unreadable_place(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };
	cleanup_close int dir = open(root, O_PATH | O_CLOEXEC);
	cleanup_close int file = -1;
	struct walk_place place = { .fd = dir, .path = root };
	struct koda_error err = { 0 };

	put("a");
	file = open(in_root("a"), O_PATH | O_CLOEXEC);
	assert_int_equal(chmod(root, 0), 0);
	assert_int_equal(walk_place_at(&no_options, &place, &t, &err), -1);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, EACCES);
	assert_string_equal(err.path, root);
	assert_int_equal(chmod(root, 0700), 0);
	place.fd = file;
	assert_int_equal(walk_place_at(&no_options, &place, &t, &err), -1);
	assert_int_equal(err.errnum, ENOTDIR);
}

/* ---- what changes meanwhile ---- */

static void
rename_next(void)
{
	assert_int_equal(rename(in_root("b"), in_root("z")), 0);
}

static void
rename_this(void)
{
	assert_int_equal(rename(in_root("a"), in_root("0")), 0);
}

static void
remove_this(void)
{
	assert_int_equal(unlink(in_root("a/x")), 0);
	assert_int_equal(rmdir(in_root("a")), 0);
}

static void
link_next(void)
{
	assert_int_equal(rename(in_root("b"), in_root("z")), 0);
	assert_int_equal(symlink("/", in_root("b")), 0);
}

static void
file_next(void)
{
	assert_int_equal(rename(in_root("b"), in_root("z")), 0);
	proof_put(in_root("b"), "");
}

static void
fifo_next(void)
{
	assert_int_equal(rename(in_root("b"), in_root("z")), 0);
	assert_int_equal(mkfifo(in_root("b"), 0600), 0);
}

/* clang-format off */
static const struct {
	const char *label, *at;
	void (*act)(void);
	const char *want;
	size_t troubles;
} changes[] = {
	{ "a directory renamed before it is entered", ">a", rename_next, "a/x c " , 0 },
	{ "a directory renamed while it is walked", ">a", rename_this, "a/x b/y c ", 0 },
	{ "a directory removed while it is walked", ">a", remove_this, "b/y c ", 0 },
	{ "a directory swapped for a link", ">a", link_next, "a/x c ", 1 },
	{ "a directory swapped for a file", ">a", file_next, "a/x c ", 1 },
	{ "a directory swapped for a FIFO", ">a", fifo_next, "a/x c ", 1 },
};
/* clang-format on */

static void
check_change(void **state)
{
	const size_t i = (uintptr_t)*state;
	cleanup(told_done) struct told t = { .act_at = changes[i].at, .act = changes[i].act };

	put("a/x");
	put("b/y");
	put("c");
	expect(&no_options, &t, changes[i].want);
	assert_int_equal(t.troubles, changes[i].troubles);
	if (t.troubles > 0) {
		assert_string_equal(t.trouble, "b");
		assert_true(t.errnum == ENOTDIR || t.errnum == ELOOP);
	}
}

/* ---- too much ---- */

/* 100,000 names for four files, since a link is made much faster than a file. */
static void
test_many_names(void **state)
{
	cleanup_close int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup(told_done) struct told t = { .text = NULL };
	char name[32], first[32];
	const char *s;

	for (unsigned i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "f%u", i * 7919 % 100000);
		if (i % 25000 == 0) {
			proof_put(in_root(name), "");
			memcpy(first, name, sizeof(first));
		} else if (linkat(dir, first, dir, name, 0) < 0) {
			fail_msg("link %s: %s", name, strerror(errno));
		}
	}
	assert_int_equal(walk_at(&no_options, root, &t), 0);
	assert_int_equal(t.files, 100000);
	s = t.text;
	for (unsigned i = 1; i < 100000; i++) {
		const char *next = strchr(s, ' ') + 1;

		/* A space sorts before every character of these names. */
		assert_true(strcmp(s, next) < 0);
		s = next;
	}
	for (unsigned i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		unlinkat(dir, name, 0);
	}
}

/* Deeper than the longest path that the kernel takes, and more. */
static void
make_deep(const char *name, unsigned depth)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < depth; i++) {
		int below;

		assert_int_equal(mkdirat(fd, name, 0700), 0);
		below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(below >= 0);
		close(fd);
		fd = below;
	}
	close(fd);
}

/* Removes it again, without a descriptor for each level. */
static void
remove_deep(const char *name, unsigned depth)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < 2 * depth; i++) {
		const int next =
		    openat(fd, i < depth ? name : "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_true(next >= 0);
		close(fd);
		fd = next;
		if (i >= depth)
			assert_int_equal(unlinkat(fd, name, AT_REMOVEDIR), 0);
	}
	close(fd);
}

static void
test_long_path(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };
	char name[NAME_MAX + 1];

	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	make_deep(name, 20);
	put("z");
	expect(&no_options, &t, "z ");
	assert_int_equal(t.troubles, 1);
	assert_int_equal(t.errnum, ENAMETOOLONG);
	assert_true(strlen(t.trouble) > 3000);
	remove_deep(name, 20);
}

static void
set_files_limit(rlim_t n)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void
test_deep(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };
	struct rlimit before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	make_deep("d", WALK_DEPTH_MAX + 5);
	put("z");
	/* A login session may allow no more than 1024. */
	set_files_limit(WALK_DEPTH_MAX + 100);
	expect(&no_options, &t, "z ");
	assert_int_equal(t.troubles, 1);
	assert_true(t.errnum == ELOOP || t.errnum == EMFILE);
	set_files_limit(40);
	expect(&no_options, &t, "z ");
	assert_int_equal(t.errnum, EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	remove_deep("d", WALK_DEPTH_MAX + 5);
}

/* Writes rules into a file of `size` bytes: one at the start, `last` at the end, comments
 * between. */
static void
put_large(const char *path, size_t size, const char *last)
{
	cleanup_close int fd = open(in_root(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	cleanup_free char *text = malloc(size);
	const size_t n = strlen(last);

	assert_non_null(text);
	for (size_t i = 0; i < size; i++)
		text[i] = i % 64 == 63 ? '\n' : '#';
	memcpy(text, "a\n", 2);
	memcpy(text + size - n, last, n);
	text[size - n - 1] = '\n';
	assert_int_equal(write(fd, text, size), (ssize_t)size);
}

static void
test_large_ignore_file(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };

	put("a");
	put("b");
	put("bb");
	put_large(".ignore", WALK_IGNORE_BYTES_MAX, "b");
	expect(&no_options, &t, "bb ");
	/* Cut in "bb": it does not become a rule "b". */
	put_large(".ignore", WALK_IGNORE_BYTES_MAX + 1, "bb");
	expect(&no_options, &t, "b bb ");
	assert_int_equal(t.troubles, 0);
}

static void
test_too_many_rules(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };
	cleanup_free char *rules = malloc(2 * WALK_RULES_MAX + 8);

	assert_non_null(rules);
	for (size_t i = 0; i < WALK_RULES_MAX; i++)
		memcpy(rules + 2 * i, "a\n", 3);
	put("a");
	put("b");
	proof_put(in_root(".ignore"), rules);
	expect(&no_options, &t, "b ");
	assert_int_equal(t.troubles, 0);
	memcpy(rules + (size_t)2 * WALK_RULES_MAX, "c\n", 3);
	proof_put(in_root(".ignore"), rules);
	expect(&no_options, &t, "a b ");
	assert_int_equal(t.troubles, 1);
	assert_int_equal(t.errnum, E2BIG);
	assert_string_equal(t.trouble, ".ignore");
}

/* ---- names ---- */

/* Adds a record as the kernel makes it. Returns the offset after it. */
static size_t
add_record(unsigned char *records, size_t at, const char *name, unsigned char type)
{
	struct dirent64 d = { .d_type = type };
	const size_t head = offsetof(struct dirent64, d_name);

	d.d_reclen = (unsigned short)((head + strlen(name) + 1 + 7) / 8 * 8);
	memcpy(records + at, &d, head);
	memcpy(records + at + head, name, strlen(name) + 1);
	return at + d.d_reclen;
}

/* If a file system reports no types, the result is the same. */
static void
test_unknown_types(void **state)
{
	static const struct {
		const char *name;
		unsigned char type;
	} want[] = { { ".git", DT_DIR }, { ".ignore", DT_REG }, { "a.c", DT_REG }, { "a", DT_DIR },
		{ "b", DT_FIFO }, { "c", DT_LNK } };
	cleanup_close int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned char records[1024];
	struct dir_names names;
	unsigned special = 0;
	size_t len = 0, n = 0;

	put("a/");
	put("a.c");
	put(".git/");
	put(".ignore");
	assert_int_equal(mkfifo(in_root("b"), 0600), 0);
	assert_int_equal(symlink("a", in_root("c")), 0);
	for (size_t i = 0; i < N_ELEMENTS(want); i++)
		len = add_record(records, len, want[N_ELEMENTS(want) - 1 - i].name, DT_UNKNOWN);
	len = add_record(records, len, ".", DT_UNKNOWN);
	len = add_record(records, len, "..", DT_DIR);
	len = add_record(records, len, "gone", DT_UNKNOWN);
	assert_int_equal(names_init(&names), 0);
	assert_int_equal(names_take(&names, records, len, &special), 0);
	assert_int_equal(special, NAMES_GIT | NAMES_GIT_DIR | NAMES_IGNORE);
	assert_int_equal(names.n, N_ELEMENTS(want) + 1);
	for (size_t i = 0; i < names.n; i++) {
		if (names_settle(&names.name[i], &names, dir))
			names.name[n++] = names.name[i];
	}
	assert_int_equal(n, N_ELEMENTS(want));
	names.n = n;
	names_sort(&names, 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(names.name[i].type, want[i].type);
		assert_int_equal(names.name[i].len, strlen(want[i].name));
		assert_memory_equal(name_text(&names, &names.name[i]), want[i].name,
		    strlen(want[i].name));
	}
	names_done(&names);
}

/* ---- leaked descriptors ---- */

static size_t
count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void
test_descriptors(void **state)
{
	cleanup(told_done) struct told t = { .stop_at = "s/t/a" };
	size_t before;

	put(".git/info/exclude=x");
	put(".gitignore=x");
	put("s/t/a");
	put("s/.ignore=x");
	assert_int_equal(mkfifo(in_root("s/.rgignore"), 0600), 0);
	before = count_fds();
	assert_int_equal(walk_at(&no_options, root, &t), 1);
	t.stop_at = NULL;
	assert_int_equal(walk_at(&no_options, root, &t), 0);
	assert_int_equal(count_fds(), before);
}

int
main(void)
{
	const struct CMUnitTest single[] = { TEST(test_no_files), TEST(test_device),
		TEST(test_no_ignore_files), TEST(test_ignore_file_swapped),
		TEST(test_unreadable_directory), TEST(test_unreadable_rules),
		TEST(test_unreadable_place), TEST(test_many_names), TEST(test_long_path),
		TEST(test_deep), TEST(test_large_ignore_file), TEST(test_too_many_rules),
		TEST(test_unknown_types), TEST(test_descriptors) };
	struct CMUnitTest tests[N_ELEMENTS(changes) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(changes); i++)
		tests[n++] = (struct CMUnitTest){ changes[i].label, check_change, set_up, tear_down,
			(void *)i };
	OTHERS(single);
	return cmocka_run_group_tests_name("walk_hostile", tests, NULL, NULL);
}
