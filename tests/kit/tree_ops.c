/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/tree_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/kit/random.h"

#define PATH_ROOM 4000
#define CONTENT   70000
#define ATTRIBUTE "user.koda.test"
/* Later than this there are no times of content; each operation has a second of its own. */
#define STAMP_BASE 1600000000

/* 255 bytes */
#define TEN      "long.name."
#define FIFTY    TEN TEN TEN TEN TEN
#define LONGEST  FIFTY FIFTY FIFTY FIFTY FIFTY ".long"
#define DEEP_MAX 40

static const char *const names[] = { "a", "b", "c", "d", "e", "A", "with space", "new\nline", "-rf",
	"*.c", "\xff\xfe", "\xc3\xa4", "a\xcc\x88", "back\\slash", ".hidden", "...", LONGEST,
	"quo'te", "\x1b[31m", "x.o", "Makefile" };
/* What a project has for sure, so that most operations find something. */
static const char *const first_dirs[] = { "a", "b", "b/c", "b/c/d", "with space" };
static const mode_t file_modes[] = { 0644, 0600, 0755, 0444, 0640, 0664, 0400 };
static const mode_t dir_modes[] = { 0755, 0700, 0750, 0775, 01755 };

#define ONE_OF(r, list) (list)[rng_below(r, sizeof(list) / sizeof((list)[0]))]

/* ---- what is there ---- */

enum { A_FILE = 1, A_DIR = 2, A_LINK = 4, A_NAME = A_FILE | A_DIR | A_LINK };

struct found {
	char *path;
	int type;
};

static struct found *found;
static size_t n_found, found_room;

static int
type_of(mode_t mode)
{
	return S_ISREG(mode) ? A_FILE : S_ISDIR(mode) ? A_DIR : S_ISLNK(mode) ? A_LINK : 0;
}

static void
note_found(const char *path, int type)
{
	if (n_found == found_room) {
		found_room = found_room == 0 ? 64 : 2 * found_room;
		found = reallocarray(found, found_room, sizeof(*found));
		if (found == NULL)
			abort();
	}
	found[n_found++] = (struct found){ strdup(path), type };
}

static void
join(char *ret, const char *dir, const char *name)
{
	snprintf(ret, PATH_ROOM, strcmp(dir, ".") == 0 ? "%.0s%s" : "%s/%s", dir, name);
}

static void
find_below(const char *dir)
{
	cleanup(closedir_at) DIR *d = opendir(dir);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		char path[PATH_ROOM];
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		join(path, dir, e->d_name);
		if (lstat(path, &st) < 0)
			abort();
		note_found(path, type_of(st.st_mode));
		if (S_ISDIR(st.st_mode))
			find_below(path);
	}
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

static void
find_all(void)
{
	while (n_found > 0)
		free(found[--n_found].path);
	find_below(".");
	qsort(found, n_found, sizeof(*found), by_path);
}

/* Returns NULL if there is none. */
static const char *
pick(struct rng *r, int types)
{
	size_t n = 0;

	for (size_t i = 0; i < n_found; i++)
		n += (found[i].type & types) != 0;
	if (n == 0)
		return NULL;
	n = rng_below(r, (unsigned)n);
	for (size_t i = 0;; i++)
		if ((found[i].type & types) != 0 && n-- == 0)
			return found[i].path;
}

/* A name in some directory, which may be there. */
static void
pick_new(struct rng *r, char ret[PATH_ROOM])
{
	const char *dir = rng_below(r, 4) == 0 ? NULL : pick(r, A_DIR);

	join(ret, dir == NULL ? "." : dir, ONE_OF(r, names));
}

/* ---- steps ---- */

static unsigned step; /* the number of the operation */

__attribute__((format(printf, 2, 3))) static void
report(int result, const char *format, ...)
{
	const int why = errno;
	char text[3 * PATH_ROOM];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("%u: ", step);
	for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++)
		if (*p < ' ' || *p > '~')
			printf("\\x%02x", *p);
		else
			putchar(*p);
	printf(": %s\n", result < 0 ? strerror(why) : "ok");
}

static struct timespec
stamp_of(unsigned k)
{
	return (struct timespec){ STAMP_BASE + k, 1000 * k + 7 };
}

static int
stamp(const char *path)
{
	const struct timespec t[] = { stamp_of(step), stamp_of(step) };

	return utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW);
}

static const char *
content(struct rng *r, size_t *ret_len)
{
	static char text[CONTENT];
	static const size_t sizes[] = { 0, 1, 20, 300, 4096, 5000, CONTENT };
	const char c = (char)('a' + rng_below(r, 26));

	*ret_len = ONE_OF(r, sizes);
	for (size_t i = 0; i < *ret_len; i++)
		text[i] = i % 61 == 60 ? '\n' : (char)(c + i % 7);
	return text;
}

static int
write_file(const char *path, int flags, off_t at, const char *text, size_t len)
{
	cleanup_close int fd =
	    open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0644);

	if (fd < 0)
		return -1;
	if (at >= 0 ? pwrite(fd, text, len, at) < 0 : write(fd, text, len) < 0)
		return -1;
	return stamp(path);
}

static int
remove_tree(const char *path)
{
	struct stat st;
	int r = 0;

	if (lstat(path, &st) < 0)
		return -1;
	if (S_ISDIR(st.st_mode)) {
		cleanup(closedir_at) DIR *d = opendir(path);
		struct dirent *e;

		while (d != NULL && (e = readdir(d)) != NULL) {
			char below[PATH_ROOM];

			if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
				continue;
			join(below, path, e->d_name);
			if (remove_tree(below) < 0)
				r = -1;
		}
		return rmdir(path) < 0 ? -1 : r;
	}
	return unlink(path);
}

/* Can everything be moved out of it? */
static bool
is_open(const char *path)
{
	const size_t len = strlen(path);

	for (size_t i = 0; i < n_found; i++)
		if (found[i].type == A_DIR && strncmp(found[i].path, path, len) == 0 &&
		    (found[i].path[len] == '\0' || found[i].path[len] == '/') &&
		    access(found[i].path, R_OK | W_OK | X_OK) < 0)
			return false;
	return true;
}

static void
copy_attribute(const char *from, const char *to)
{
	char value[64];
	const ssize_t n = getxattr(from, ATTRIBUTE, value, sizeof(value));

	if (n >= 0)
		setxattr(to, ATTRIBUTE, value, (size_t)n, 0);
}

/* As mv does where a directory cannot be renamed, which keeps links of each other. */
static int
move_piecewise(const char *from, const char *to)
{
	cleanup(closedir_at) DIR *d = opendir(from);
	struct stat st;
	struct dirent *e;

	if (d == NULL || fstat(dirfd(d), &st) < 0 || mkdir(to, 0700) < 0)
		return -1;
	while ((e = readdir(d)) != NULL) {
		char a[PATH_ROOM], b[PATH_ROOM];
		struct stat at;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		join(a, from, e->d_name);
		join(b, to, e->d_name);
		if (lstat(a, &at) < 0 ||
		    (S_ISDIR(at.st_mode) ? move_piecewise(a, b) : rename(a, b)) < 0)
			return -1;
	}
	copy_attribute(from, to);
	return chmod(to, st.st_mode & 07777) < 0 ? -1 : rmdir(from);
}

/* ---- operations ---- */

static void
do_create(struct rng *r)
{
	char path[PATH_ROOM];
	const char *text;
	size_t len;

	pick_new(r, path);
	text = content(r, &len);
	report(write_file(path, O_CREAT | O_EXCL, -1, text, len), "create '%s' %zu", path, len);
}

static void
do_append(struct rng *r)
{
	const char *path = pick(r, A_FILE), *text;
	size_t len;

	text = content(r, &len);
	if (path != NULL)
		report(write_file(path, O_APPEND, -1, text, len), "append '%s' %zu", path, len);
}

static void
do_overwrite(struct rng *r)
{
	const char *path = pick(r, A_FILE), *text;
	const off_t at = (off_t)rng_below(r, 9000);
	size_t len;

	text = content(r, &len);
	if (path != NULL)
		report(write_file(path, 0, at, text, len), "overwrite '%s' %zu at %lld", path, len,
		    (long long)at);
}

static void
do_rewrite(struct rng *r)
{
	const char *path = pick(r, A_FILE), *text;
	size_t len;

	text = content(r, &len);
	if (path != NULL)
		report(write_file(path, O_TRUNC, -1, text, len), "rewrite '%s' %zu", path, len);
}

static void
do_truncate(struct rng *r)
{
	static const off_t sizes[] = { 0, 1, 100, 5000, 200000 };
	const char *path = pick(r, A_FILE);
	const off_t size = ONE_OF(r, sizes);

	if (path != NULL)
		report(truncate(path, size) < 0 ? -1 : stamp(path), "truncate '%s' %lld", path,
		    (long long)size);
}

static int
map(const char *path)
{
	cleanup_close int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (st.st_size == 0)
		return stamp(path);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	p[st.st_size / 2] = 'M';
	p[0] = 'm';
	if (msync(p, (size_t)st.st_size, MS_SYNC) < 0 || munmap(p, (size_t)st.st_size) < 0)
		return -1;
	return stamp(path);
}

static void
do_map(struct rng *r)
{
	const char *path = pick(r, A_FILE);

	if (path != NULL)
		report(map(path), "map '%s'", path);
}

/* An existing name is removed before: two names of one file are not one for the kernel in a draft if
 * one of them is the project's, so rename(2) would differ. */
static void
do_rename(struct rng *r)
{
	const char *from = pick(r, A_FILE | A_LINK);
	char to[PATH_ROOM];
	struct stat st;

	pick_new(r, to);
	if (from == NULL || strcmp(from, to) == 0)
		return;
	if (lstat(to, &st) == 0 && !S_ISDIR(st.st_mode) && unlink(to) < 0) {
		report(-1, "unlink '%s'", to);
		return;
	}
	report(rename(from, to), "rename '%s' to '%s'", from, to);
}

static void
do_replace(struct rng *r)
{
	const char *path = pick(r, A_FILE | A_LINK), *text;
	char fresh[PATH_ROOM];
	size_t len;
	int result;

	text = content(r, &len);
	if (path == NULL)
		return;
	snprintf(fresh, sizeof(fresh), "%s", path);
	strcpy(strrchr(fresh, '/') == NULL ? fresh : strrchr(fresh, '/') + 1, "fresh~");
	result = write_file(fresh, O_CREAT | O_EXCL, -1, text, len);
	if (result == 0)
		result = rename(fresh, path);
	report(result, "replace '%s' %zu", path, len);
}

static void
do_unlink(struct rng *r)
{
	const char *path = pick(r, A_FILE | A_LINK);

	if (path != NULL)
		report(unlink(path), "unlink '%s'", path);
}

static void
do_mkdir(struct rng *r)
{
	char path[PATH_ROOM];

	pick_new(r, path);
	report(mkdir(path, 0755), "mkdir '%s'", path);
}

static void
do_remove_tree(struct rng *r)
{
	const char *path = pick(r, A_DIR);

	if (path != NULL)
		report(remove_tree(path), "rm -r '%s'", path);
}

/* It is there again, and has some of what it had. */
static void
do_remake(struct rng *r)
{
	const char *path = pick(r, A_DIR), *text;
	char below[PATH_ROOM];
	size_t len;
	int result;

	if (path == NULL)
		return;
	result = remove_tree(path);
	if (result == 0)
		result = mkdir(path, 0755);
	for (unsigned i = rng_below(r, 4); result == 0 && i > 0; i--) {
		join(below, path, names[rng_below(r, 6)]);
		text = content(r, &len);
		result = rng_below(r, 3) == 0 ? mkdir(below, 0755)
					      : write_file(below, O_CREAT, -1, text, len);
		if (result < 0 && (errno == EEXIST || errno == EISDIR))
			result = 0;
	}
	report(result, "make again '%s'", path);
}

static void
do_symlink(struct rng *r)
{
	static const char *const targets[] = { "a", "../b", "nowhere", "/etc/passwd", ".",
		"\xff\n" };
	char path[PATH_ROOM];
	const char *target = ONE_OF(r, targets);

	pick_new(r, path);
	report(symlink(target, path) < 0 ? -1 : stamp(path), "symlink '%s' to '%s'", path, target);
}

/*
 * Makes it another file with the same content and permissions. A link, made in a draft, of a file that the
 * project has is another inode to the kernel until the command ends, so what is done under one name is not
 * always seen under the other: see the manual. That does not hold for what was made in the draft.
 */
static int
make_anew(const char *path)
{
	cleanup_close int in = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), out = -1;
	char text[8192];
	struct stat st;
	ssize_t n;

	if (in < 0 || fstat(in, &st) < 0)
		return -1;
	out = open("anew", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return -1;
	while ((n = read(in, text, sizeof(text))) > 0)
		if (write(out, text, (size_t)n) != n)
			return -1;
	return n < 0 || fchmod(out, st.st_mode & 07777) < 0 || rename("anew", path) < 0
	    ? -1
	    : stamp(path);
}

static void
do_link(struct rng *r)
{
	const char *from = pick(r, A_FILE);
	char to[PATH_ROOM];

	pick_new(r, to);
	if (from != NULL)
		report(make_anew(from) < 0 ? -1 : link(from, to), "link '%s' to '%s'", from, to);
}

static void
do_chmod(struct rng *r)
{
	const char *path = pick(r, A_FILE);
	const mode_t mode = ONE_OF(r, file_modes);

	if (path != NULL)
		report(chmod(path, mode), "chmod '%s' %o", path, mode);
}

static void
do_chmod_dir(struct rng *r)
{
	const char *path = pick(r, A_DIR);
	const mode_t mode = ONE_OF(r, dir_modes);

	if (path != NULL)
		report(chmod(path, mode), "chmod '%s' %o", path, mode);
}

static void
do_times(struct rng *r)
{
	const char *path = pick(r, A_FILE | A_LINK);

	if (path != NULL)
		report(stamp(path), "touch '%s'", path);
}

static void
do_attribute(struct rng *r)
{
	const char *path = pick(r, A_FILE);
	char value[16];

	snprintf(value, sizeof(value), "%u", rng_below(r, 3));
	if (path == NULL)
		return;
	if (rng_below(r, 3) == 0)
		report(removexattr(path, ATTRIBUTE), "drop the attribute of '%s'", path);
	else
		report(setxattr(path, ATTRIBUTE, value, strlen(value), 0), "attribute of '%s' %s",
		    path, value);
}

/* A name becomes something else. */
static void
do_turn(struct rng *r)
{
	const char *path = pick(r, A_NAME), *text;
	const unsigned into = rng_below(r, 3);
	char below[PATH_ROOM];
	size_t len;
	int result;

	text = content(r, &len);
	if (path == NULL)
		return;
	result = remove_tree(path);
	join(below, path, "a");
	if (result == 0 && into == 0)
		result = mkdir(path, 0755) < 0 ? -1 : write_file(below, O_CREAT, -1, text, len);
	else if (result == 0 && into == 1)
		result = symlink("turned", path) < 0 ? -1 : stamp(path);
	else if (result == 0)
		result = write_file(path, O_CREAT | O_EXCL, -1, text, len);
	report(result, "turn '%s' into %u", path, into);
}

static void
do_move_dir(struct rng *r)
{
	const char *from = pick(r, A_DIR);
	char to[PATH_ROOM];
	struct stat st;
	int result;

	pick_new(r, to);
	if (from == NULL || lstat(to, &st) == 0 || !is_open(from) ||
	    (strncmp(to, from, strlen(from)) == 0 && to[strlen(from)] == '/'))
		return;
	result = rename(from, to);
	if (result < 0 && errno == EXDEV)
		result = move_piecewise(from, to);
	report(result, "move '%s' to '%s'", from, to);
}

static void
do_deep(struct rng *r)
{
	char path[PATH_ROOM], below[PATH_ROOM];
	int result = 0;

	pick_new(r, path);
	for (unsigned i = rng_below(r, DEEP_MAX); result == 0 && i > 0; i--) {
		result = mkdir(path, 0755);
		if (result < 0 && errno == EEXIST)
			result = 0;
		if (strlen(path) > PATH_ROOM / 2)
			break;
		join(below, path, "d");
		strcpy(path, below);
	}
	if (result == 0)
		result = write_file(path, O_CREAT, -1, "deep", 4);
	report(result, "deep '%s'", path);
}

static void
do_sparse(struct rng *r)
{
	char path[PATH_ROOM];

	pick_new(r, path);
	report(write_file(path, O_CREAT, (off_t)300000 + rng_below(r, 9), "end", 3), "sparse '%s'",
	    path);
}

static void (*const ops[])(struct rng *) = { do_create, do_create, do_append, do_overwrite,
	do_rewrite, do_truncate, do_map, do_rename, do_rename, do_replace, do_replace, do_unlink,
	do_unlink, do_mkdir, do_remove_tree, do_remake, do_remake, do_symlink, do_link, do_link,
	do_chmod, do_chmod_dir, do_times, do_attribute, do_turn, do_turn, do_move_dir, do_deep,
	do_sparse };

void
tree_do(unsigned long long seed, const char *wanted)
{
	umask(022);
	for (unsigned i = 0; wanted[i] != '\0'; i++) {
		struct rng r = { seed + 0x100 * (i + 1) };

		if (wanted[i] != '1')
			continue;
		step = i + 1;
		find_all();
		ONE_OF(&r, ops)(&r);
	}
	fflush(stdout);
}

/* ---- the beginning ---- */

static void
begin_file(struct rng *r, const char *outside)
{
	char path[PATH_ROOM], other[PATH_ROOM];
	const char *text;
	size_t len;

	pick_new(r, path);
	text = content(r, &len);
	if (write_file(path, O_CREAT | O_EXCL, -1, text, len) < 0)
		return;
	if (rng_below(r, 8) == 0 && setxattr(path, ATTRIBUTE, "begin", 5, 0) < 0)
		abort();
	if (chmod(path, ONE_OF(r, file_modes)) < 0)
		abort();
	if (rng_below(r, 8) > 0 || outside == NULL)
		return;
	snprintf(other, sizeof(other), "%s/%u", outside, step);
	if (link(path, other) < 0)
		abort();
}

void
tree_begin(const char *dir, const char *outside, unsigned long long seed)
{
	cleanup_close int back = open(".", O_PATH | O_CLOEXEC);
	struct rng r = { seed };

	umask(022);
	if (back < 0 || chdir(dir) < 0)
		abort();
	for (size_t i = 0; i < sizeof(first_dirs) / sizeof(first_dirs[0]); i++)
		if (mkdir(first_dirs[i], 0755) < 0)
			abort();
	find_all();
	for (unsigned i = 4 + rng_below(&r, 16); i > 0; i--) {
		step = 1000 + i;
		if (rng_below(&r, 6) == 0) {
			char path[PATH_ROOM];

			pick_new(&r, path);
			if (symlink("a", path) == 0 && stamp(path) < 0)
				abort();
		} else {
			begin_file(&r, outside);
		}
	}
	if (fchdir(back) < 0)
		abort();
}
