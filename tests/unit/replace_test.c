/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/files/replace.c: a file is replaced completely or not at all, and keeps what its owner
 * gave it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "tests/kit/skip.h"
#include "worker/files/replace.h"
#include "worker/files/tree.h"

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s: %s", #x, strerror(errno));                                   \
	} while (0)

static char root[PATH_MAX / 4];
static struct resolver resolver = { .depth = 8, .root = root };
static const uint8_t token[TOKEN_BYTES] = { 0xde, 0xad, 0, 1, 2, 3, 4, 0xff };
static const struct stage_how quick = { .umask = 027 };
static const struct stage_how durable = { .umask = 027, .durable = true };

static const char *
in_root(const char *name)
{
	static char buf[4][PATH_MAX];
	static unsigned i;
	char *p = buf[i++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", root, name);
	return p;
}

static void
put(const char *name, const char *text, mode_t mode)
{
	cleanup_close int fd = open(in_root(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	must(fchmod(fd, mode) == 0);
}

static void
assert_text(const char *name, const char *want)
{
	cleanup_close int fd = open(in_root(name), O_RDONLY | O_CLOEXEC);
	char buf[256] = "";

	must(fd >= 0 && read(fd, buf, sizeof(buf) - 1) >= 0);
	assert_string_equal(buf, want);
}

static mode_t
mode_of(const char *name)
{
	struct stat st;

	must(stat(in_root(name), &st) == 0);
	return st.st_mode & 07777;
}

static bool
exists(const char *name)
{
	struct stat st;

	return lstat(in_root(name), &st) == 0;
}

static void
place(const char *name, struct place *ret)
{
	struct koda_error err = { 0 };

	if (resolve(&resolver, (const uint8_t *)name, strlen(name), RESOLVE_PARENT, ret, &err) < 0)
		fail_msg("%s", err.message);
}

/* Returns 0, 1 or -1 like stage_commit(); -2 if stage_make() failed. */
static int
replace(const char *name, const struct file_content *content, const struct stage_how *how,
    bool exclusive, struct koda_error *err)
{
	cleanup(place_done) struct place at;
	cleanup(stage_done) struct stage s = STAGE_EMPTY;
	struct stat st;
	int r;

	place(name, &at);
	if (stage_make(&s, &at, token, 7, content, how, err) < 0)
		return -2;
	assert_true(exists(".koda-dead0001020304ff-7"));
	must(lstat(in_root(".koda-dead0001020304ff-7"), &st) == 0);
	assert_int_equal(st.st_ino, s.ino);
	assert_int_equal(st.st_dev, s.dev);
	r = stage_commit(&s, exclusive, err);
	if (r == 0)
		assert_int_equal(stage_sync(&s), 0);
	return r;
}

static int
replace_text(const char *name, const char *text)
{
	const struct file_content content = { (const uint8_t *)text, strlen(text), -1 };
	struct koda_error err = { 0 };
	int r = replace(name, &content, &quick, false, &err);

	if (r < 0)
		print_message("%s\n", err.message);
	return r;
}

static void
test_new_file(void **state)
{
	assert_int_equal(replace_text("a", "text"), 0);
	assert_text("a", "text");
	assert_int_equal(mode_of("a"), 0640);
	assert_false(exists(".koda-dead0001020304ff-7"));
}

static void
test_empty_file(void **state)
{
	assert_int_equal(replace_text("a", ""), 0);
	assert_text("a", "");
}

static void
test_mode(void **state)
{
	static const mode_t modes[] = { 0600, 0644, 0755, 0200, 0777, 04755, 02755, 01644 };

	for (size_t i = 0; i < N_ELEMENTS(modes); i++) {
		put("a", "old", modes[i]);
		assert_int_equal(replace_text("a", "new"), 0);
		assert_int_equal(mode_of("a"), modes[i]);
	}
}

static void
test_attributes(void **state)
{
	char value[16] = "", big[2048], name[32];

	put("a", "old", 0644);
	memset(big, 'v', sizeof(big));
	if (setxattr(in_root("a"), "user.one", "1", 1, 0) < 0 && errno == EOPNOTSUPP)
		skip_because("the file system has no extended attributes");
	must(setxattr(in_root("a"), "user.big", big, sizeof(big), 0) == 0);
	/* Names that do not fit into the first buffer. */
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "user.a-name-of-some-length.%u", i);
		must(setxattr(in_root("a"), name, "", 0, 0) == 0);
	}
	assert_int_equal(replace_text("a", "new"), 0);
	assert_int_equal(getxattr(in_root("a"), "user.one", value, sizeof(value)), 1);
	assert_string_equal(value, "1");
	assert_int_equal(getxattr(in_root("a"), "user.big", NULL, 0), sizeof(big));
	assert_int_equal(getxattr(in_root("a"), name, NULL, 0), 0);
}

/* An access control list as the kernel stores it: version, then (tag, permissions, id) each. */
#define ACL(...)                 ((const uint16_t[]){ 2, 0, __VA_ARGS__ })
#define ACL_ENTRY(tag, perm, id) (tag), (perm), (uint16_t)(id), (uint16_t)((uint32_t)(id) >> 16)
#define ACL_FOR(perm)                                                                              \
	ACL(ACL_ENTRY(1, 6, -1), ACL_ENTRY(2, perm, 1234), ACL_ENTRY(4, 4, -1),                    \
	    ACL_ENTRY(16, perm, -1), ACL_ENTRY(32, 0, -1))
#define ACL_BYTES (4 + 5 * 8)

static void
test_acl_is_kept(void **state)
{
	uint8_t got[64];

	put("a", "old", 0600);
	if (setxattr(in_root("a"), "system.posix_acl_access", ACL_FOR(4), ACL_BYTES, 0) < 0)
		skip_because("the file system has no ACLs");
	assert_int_equal(replace_text("a", "new"), 0);
	assert_int_equal(getxattr(in_root("a"), "system.posix_acl_access", got, sizeof(got)),
	    ACL_BYTES);
	assert_memory_equal(got, ACL_FOR(4), ACL_BYTES);
}

static void
test_default_acl_lets_nobody_in(void **state)
{
	put("a", "old", 0660);
	if (setxattr(root, "system.posix_acl_default", ACL_FOR(6), ACL_BYTES, 0) < 0)
		skip_because("the file system has no ACLs");
	assert_int_equal(replace_text("a", "new"), 0);
	assert_int_equal(getxattr(in_root("a"), "system.posix_acl_access", NULL, 0), -1);
	assert_int_equal(mode_of("a"), 0660);
	/* A new file gets what the kernel gives a new file there. */
	assert_int_equal(replace_text("b", "new"), 0);
	put("c", "made by the kernel", 0600);
	unlink(in_root("c"));
	must(close(open(in_root("c"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) == 0);
	assert_int_equal(mode_of("b"), mode_of("c"));
	assert_int_equal(getxattr(in_root("b"), "system.posix_acl_access", NULL, 0), ACL_BYTES);
}

static void
test_owner(void **state)
{
	struct stat st;

	put("a", "old", 0640);
	if (geteuid() != 0) {
		/* A user who cannot give files away keeps the file, with its set-ID bits. */
		must(chmod(in_root("a"), 06755) == 0);
		assert_int_equal(replace_text("a", "new"), 0);
		must(stat(in_root("a"), &st) == 0);
		assert_int_equal(st.st_uid, geteuid());
		assert_int_equal(st.st_mode & 07777, 06755);
		return;
	}
	must(chown(in_root("a"), 1234, 4321) == 0 && chmod(in_root("a"), 06755) == 0);
	assert_int_equal(replace_text("a", "new"), 0);
	must(stat(in_root("a"), &st) == 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(st.st_gid, 4321);
	assert_int_equal(st.st_mode & 07777, 06755);
}

static void
test_hard_link(void **state)
{
	put("a", "old", 0644);
	must(link(in_root("a"), in_root("b")) == 0);
	assert_int_equal(replace_text("a", "new"), 0);
	assert_text("a", "new");
	assert_text("b", "old");
}

static void
test_exclusive(void **state)
{
	const struct file_content content = { (const uint8_t *)"new", 3, -1 };

	put("a", "old", 0644);
	assert_int_equal(replace("a", &content, &quick, true, NULL), 1);
	assert_text("a", "old");
	assert_false(exists(".koda-dead0001020304ff-7"));
	assert_int_equal(replace("b", &content, &quick, true, NULL), 0);
	assert_text("b", "new");
}

static void
test_missing_directories(void **state)
{
	const struct file_content content = { (const uint8_t *)"new", 3, -1 };
	struct koda_error err = { 0 };
	mode_t before = umask(027);

	assert_int_equal(replace("d/e/f", &content, &durable, true, &err), 0);
	assert_text("d/e/f", "new");
	assert_int_equal(mode_of("d"), 0750);
	assert_int_equal(mode_of("d/e"), 0750);
	assert_int_equal(replace("g/h", NULL, &durable, true, &err), 0);
	assert_int_equal(mode_of("g/h"), 0750);
	assert_int_equal(replace("i", NULL, &quick, true, &err), 0);
	assert_int_equal(mode_of("i"), 0750);
	umask(before);
}

/* Without `exclusive`, an empty directory would be replaced silently. */
static void
test_missing_appears(void **state)
{
	cleanup(place_done) struct place at;
	cleanup(stage_done) struct stage s = STAGE_EMPTY;
	const struct file_content content = { (const uint8_t *)"new", 3, -1 };

	place("d/e/f", &at);
	assert_int_equal(stage_make(&s, &at, token, 7, &content, &quick, NULL), 0);
	must(mkdir(in_root("d"), 0700) == 0);
	assert_int_equal(stage_commit(&s, true, NULL), 1);
	assert_false(exists("d/e"));
	stage_done(&s);
	assert_false(exists(".koda-dead0001020304ff-7"));
}

static void
test_memfd(void **state)
{
	enum { SIZE = (9 << 20) + 5 };
	cleanup_close int fd = memfd_create("content", MFD_ALLOW_SEALING | MFD_CLOEXEC), out = -1;
	cleanup_free uint8_t *data = malloc(SIZE), *got = malloc(SIZE);
	struct file_content content = { NULL, SIZE, fd };
	struct koda_error err = { 0 };

	must(fd >= 0 && data != NULL && got != NULL);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i + i / 251);
	must(write(fd, data, SIZE) == SIZE);
	assert_int_equal(content_check_fd(fd, &err), -1);
	must(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW) == 0);
	assert_int_equal(content_check_fd(fd, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	assert_int_equal(content_check_fd(fd, &err), SIZE);
	assert_int_equal(content_check_fd(0, &err), -1);
	assert_int_equal(replace("big", &content, &quick, false, &err), 0);
	out = open(in_root("big"), O_RDONLY | O_CLOEXEC);
	must(out >= 0 && read(out, got, SIZE) == SIZE);
	assert_memory_equal(got, data, SIZE);
}

/* The kernel does not move the pages of such a file (sendfile: EINVAL), so it is read and written.
 * Content that ends too early is an error of its own, not the one that sendfile left. */
static void
test_copied(void **state)
{
	cleanup_close int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC), out = -1;
	char want[8192], got[8192];
	struct file_content content = { NULL, 0, fd };
	struct koda_error err = { 0 };
	ssize_t n = 0;

	must(fd >= 0 && (n = pread(fd, want, sizeof(want), 0)) > 0);
	content.len = (size_t)n;
	assert_int_equal(replace("a", &content, &quick, false, &err), 0);
	out = open(in_root("a"), O_RDONLY | O_CLOEXEC);
	must(out >= 0 && read(out, got, sizeof(got)) == n);
	assert_memory_equal(got, want, (size_t)n);
	content.len += 1;
	assert_int_equal(replace("a", &content, &quick, false, &err), -2);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, EIO);
	assert_false(exists(".koda-dead0001020304ff-7"));
}

/* The kernel accepts only part of the content: the old file stays, and nothing is left beside
 * it. */
static void
test_no_room(void **state)
{
	struct rlimit before, limit = { 2000, 0 };
	static const char text[5000];
	const struct file_content content = { (const uint8_t *)text, sizeof(text), -1 };
	struct koda_error err = { 0 };
	int r;

	put("a", "old", 0644);
	must(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit.rlim_max = before.rlim_max;
	must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	r = replace("a", &content, &quick, false, &err);
	if (r == -2)
		r = replace("d/e", &content, &quick, true, &err);
	must(setrlimit(RLIMIT_FSIZE, &before) == 0);
	assert_int_equal(r, -2);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, EFBIG);
	assert_text("a", "old");
	assert_false(exists("d"));
	assert_false(exists(".koda-dead0001020304ff-7"));
}

static void
test_tree_remove(void **state)
{
	cleanup_close int dir = open(root, O_PATH | O_CLOEXEC);
	char path[64] = "t";

	must(dir >= 0);
	assert_int_equal(tree_remove(dir, "nothing"), 0);
	put("keep", "keep", 0644);
	must(mkdir(in_root("t"), 0755) == 0 && symlink("..", in_root("t/up")) == 0);
	must(symlink(in_root("keep"), in_root("t/l")) == 0 && mkfifo(in_root("t/p"), 0600) == 0);
	for (unsigned i = 0; i < 20; i++) {
		strcat(path, "/s");
		must(mkdir(in_root(path), 0755) == 0);
	}
	assert_int_equal(tree_remove(dir, "t"), 0);
	assert_false(exists("t"));
	assert_text("keep", "keep");
	/* A link is removed, not its target. */
	must(mkdir(in_root("d"), 0755) == 0 && symlink("d", in_root("l")) == 0);
	assert_int_equal(tree_remove(dir, "l"), 0);
	assert_true(exists("d"));
}

static int
make_root(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX / 8];
	char *real = NULL;

	snprintf(path, sizeof(path), "%s/replace.XXXXXX", tmp != NULL ? tmp : "/tmp");
	must(mkdtemp(path) != NULL && (real = realpath(path, NULL)) != NULL);
	snprintf(root, sizeof(root), "%s", real);
	free(real);
	resolver.root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	resolver.proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* As in the sealed worker. */
	return resolver.root_fd >= 0 && resolver.proc_fd >= 0 && fchdir(resolver.proc_fd) == 0 ? 0
											       : -1;
}

static int
remove_root(void **state)
{
	cleanup_close int tmp = open("/", O_PATH | O_CLOEXEC);

	close(resolver.root_fd);
	close(resolver.proc_fd);
	return tree_remove(tmp, root + 1);
}

#define CASE(name)                                                                                 \
	{                                                                                          \
#name, test_##name, make_root, remove_root, NULL                                   \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(new_file),
		CASE(empty_file),
		CASE(mode),
		CASE(attributes),
		CASE(acl_is_kept),
		CASE(default_acl_lets_nobody_in),
		CASE(hard_link),
		CASE(exclusive),
		CASE(missing_directories),
		CASE(missing_appears),
		CASE(memfd),
		CASE(copied),
		CASE(no_room),
		CASE(tree_remove),
		CASE(owner),
	};

	signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests_name("replace", tests, NULL, NULL);
}
