/* SPDX-License-Identifier: Apache-2.0 */
/* Links, directories and names. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/posix/ops.h"

static void
say_links(const char *path)
{
	struct stat st;

	say("%s:%lu", path, lstat(path, &st) < 0 ? 0 : (unsigned long)st.st_nlink);
}

static bool
same(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

/* ---- hard links ---- */

static void
link_lower(void)
{
	say("%s", er(link("f", "k")));
	say_links("f");
	say_links("k");
	append("k", "+\n");
	say_what("f");
}

static void
link_lower_same(void)
{
	must(link("f", "k"));
	say("%s", same("f", "k") ? "same" : "different");
}

static void
link_upper(void)
{
	put("u", "u\n");
	say("%s", er(link("u", "k")));
	say_links("u");
	append("k", "+\n");
	say_what("u");
	say("%s", er(unlink("u")));
	say_links("k");
}

static void
link_errors(void)
{
	say("%s", er(link("d", "k")));
	say("%s", er(link("f", "g")));
	say("%s", er(link("new", "k")));
	say("%s", er(link("f", "new/k")));
	say("%s", er(link("f", "/tmp/koda-posix-link")));
}

static void
link_of_link(void)
{
	say("%s", er(link("l", "k")));
	say_what("k");
	say("%s", er(linkat(AT_FDCWD, "l", AT_FDCWD, "k2", AT_SYMLINK_FOLLOW)));
	say_what("k2");
}

static void
link_fifo(void)
{
	say("%s", er(link("fifo", "k")));
	say_what("k");
	say_links("fifo");
}

static void
existing_links_count(void)
{
	say_links("h1");
	say("%s", same("h1", "h2") ? "same" : "different");
}

static void
existing_links_write(void)
{
	append("h1", "+\n");
	say_what("h1");
	say_what("h2");
}

static void
existing_links_write_count(void)
{
	append("h1", "+\n");
	say_links("h1");
	say_links("h2");
}

static void
existing_links_write_same(void)
{
	append("h1", "+\n");
	say("%s", same("h1", "h2") ? "same" : "different");
}

static void
existing_links_unlink(void)
{
	say("%s", er(unlink("h1")));
	say_what("h2");
}

static void
existing_links_unlink_count(void)
{
	say("%s", er(unlink("h1")));
	say_links("h2");
}

static void
existing_links_chmod(void)
{
	struct stat st;

	say("%s", er(chmod("h1", 0600)));
	must(stat("h2", &st));
	say("%o", (unsigned)st.st_mode);
}

static void
tmpfile_link(void)
{
	int fd = must(open("d", O_TMPFILE | O_RDWR | O_CLOEXEC, 0640));
	char path[64];
	struct stat st;

	must((int)write(fd, "tmp\n", 4));
	must(fstat(fd, &st));
	say("%lu", (unsigned long)st.st_nlink);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("%s", er(linkat(AT_FDCWD, path, AT_FDCWD, "d/t", AT_SYMLINK_FOLLOW)));
	say_what("d/t");
	say_links("d/t");
}

static void
tmpfile_link_excl(void)
{
	int fd = must(open(".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0640));
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("%s", er(linkat(AT_FDCWD, path, AT_FDCWD, "t", AT_SYMLINK_FOLLOW)));
}

static void
tmpfile_link_over(void)
{
	int fd = must(open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0640));
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("%s", er(linkat(AT_FDCWD, path, AT_FDCWD, "f", AT_SYMLINK_FOLLOW)));
	must(unlink("f"));
	say("%s", er(linkat(AT_FDCWD, path, AT_FDCWD, "f", AT_SYMLINK_FOLLOW)));
	say_what("f");
}

/* ---- symbolic links, nodes ---- */

static void
symlinks(void)
{
	static char longest[PATH_MAX + 8];

	say("%s", er(symlink("t", "s")));
	say_what("s");
	say("%s", er(symlink("t", "l")));
	say("%s", er(symlink("", "s2")));
	memset(longest, 'a', PATH_MAX - 1);
	say("%s", er(symlink(longest, "s3")));
	memset(longest, 'a', PATH_MAX + 1);
	say("%s", er(symlink(longest, "s4")));
}

static void
symlink_replace(void)
{
	must(symlink("g", "s"));
	say("%s", er(rename("s", "l")));
	say_what("l");
	say("%s", er(unlink("dl")));
	say("%s", er(symlink("e", "dl")));
	say_what("dl");
}

static void
symlink_write(void)
{
	append("l", "+\n");
	say_what("f");
	append("no", "made\n");
	say_what("nothing");
	put("dl/new", "n\n");
	say_what("d/new");
}

static void
nodes(void)
{
	say("%s", er(mknod("p", S_IFIFO | 0600, 0)));
	say_what("p");
	say("%s", er(mknod("r", S_IFREG | 0600, 0)));
	say_what("r");
	say("%s", er(mknod("s", S_IFSOCK | 0600, 0)));
	say_what("s");
	say("%s", er(mknod("p", S_IFIFO | 0600, 0)));
	say("%s", er(mknod("b", S_IFBLK | 0600, makedev(7, 0))));
	say("%s", er(mknod("c", S_IFCHR | 0600, makedev(1, 3))));
}

/* The kernel's whiteout, which needs no privilege. */
static void
node_whiteout(void)
{
	say("%s", er(mknod("w", S_IFCHR | 0600, makedev(0, 0))));
	say_what("w");
}

static void
rename_whiteout(void)
{
	say("%s", er(renameat2(AT_FDCWD, "f", AT_FDCWD, "k", RENAME_WHITEOUT)));
	say_what("f");
	say_what("k");
}

static void
fifo_transfer(void)
{
	int fd = must(open("fifo", O_RDWR | O_NONBLOCK | O_CLOEXEC));
	char text[8] = "";

	must((int)write(fd, "hello", 5));
	must((int)read(fd, text, 5));
	say("%s", text);
}

/* ---- directories ---- */

static void
mkdir_errors(void)
{
	say("%s", er(mkdir("e", 0755)));
	say("%s", er(mkdir("f", 0755)));
	say("%s", er(mkdir("l", 0755)));
	say("%s", er(mkdir("new/x", 0755)));
	say("%s", er(mkdir("f/x", 0755)));
	say("%s", er(mkdir("no", 0755)));
	say("%s", er(mkdir("new/", 0755)));
}

static void
rmdir_errors(void)
{
	say("%s", er(rmdir("d")));
	say("%s", er(rmdir("f")));
	say("%s", er(rmdir("dl")));
	say("%s", er(rmdir("new")));
	say("%s", er(rmdir(".")));
	say("%s", er(rmdir("d/sub/..")));
	put("e/u", "u\n");
	say("%s", er(rmdir("e")));
	say("%s", er(unlink("d")));
}

static void
rmdir_emptied(void)
{
	must(unlink("d/x"));
	must(unlink("d/sub/y"));
	say("%s", er(rmdir("d")));
	must(rmdir("d/sub"));
	say("%s", er(rmdir("d")));
	say_what("d");
	say("%s", er(mkdir("d", 0700)));
	say_what("d/x");
	say_what("d/sub");
	put("d/x", "again\n");
	say_what("d/x");
	say("%s", er(rmdir("d")));
}

static void
made_again_as_file(void)
{
	must(rmdir("e"));
	put("e", "a file now\n");
	say_what("e");
	must(unlink("f"));
	must(mkdir("f", 0755));
	say_what("f");
	put("f/in", "in\n");
	say_what("f/in");
}

static void
cwd_removed(void)
{
	char path[PATH_MAX];

	must(chdir("e"));
	must(rmdir("../e"));
	say("%s", getcwd(path, sizeof(path)) == NULL ? er(-1) : "there");
	say("%s", er(open("x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
}

static void
descriptor_survives(void)
{
	int dir = must(open("d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	say("%s", er(renameat(dir, "x", dir, "x2")));
	say("%s", er(openat(dir, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
	say_what("d/x2");
	say_what("d/new");
	say("%s", er(unlinkat(dir, "new", 0)));
	say("%s", er(fchdir(dir)));
	say_what("x2");
}

static void
upper_directory_moves(void)
{
	char path[PATH_MAX];
	int dir;

	must(mkdir("u", 0755));
	put("u/a", "a\n");
	dir = must(open("u", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	must(chdir("u"));
	say("%s", er(rename("../u", "../v")));
	say("%s", getcwd(path, sizeof(path)) == NULL ? er(-1) : strrchr(path, '/'));
	say_what("a");
	say("%s", er(openat(dir, "a", O_RDWR | O_CLOEXEC)));
	say("%s", er(rename("../v", "../v/in")));
}

static void
rename_in_itself(void)
{
	say("%s", er(rename("d", "d/sub/d")));
	say("%s", er(rename("d/sub", "d")));
	say("%s", er(rename("f", "f")));
	say_what("f");
	say("%s", er(rename(".", "k")));
	say("%s", er(rename("f", "/tmp/koda-posix-renamed")));
	say("%s", er(rename("f", "k/")));
}

/* Two names of one file: nothing happens. */
static void
rename_links(void)
{
	say("%s", er(rename("h1", "h2")));
	say_what("h1");
}

static void
rename_new_links(void)
{
	must(link("f", "k"));
	say("%s", er(rename("f", "k")));
	say_what("f");
}

static void
rename_into_others(void)
{
	say("%s", er(rename("f", "d/sub/f")));
	say_what("d/sub/f");
	say("%s", er(rename("d/sub/y", "y")));
	say_what("y");
	say("%s", er(rename("l", "e/l")));
	say_what("e/l");
	say_what("f");
}

/* ---- names ---- */

static char long_name[NAME_MAX + 2];

static const char *
name_of(size_t len, char c)
{
	memset(long_name, c, len);
	long_name[len] = '\0';
	return long_name;
}

static void
prepare_long(void)
{
	put(name_of(NAME_MAX, 'p'), "long\n");
	must(mkdir(name_of(NAME_MAX, 'd'), 0755));
}

static void
long_names(void)
{
	char other[NAME_MAX + 1];

	say("%s", er(open(name_of(NAME_MAX, 'a'), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
	strcpy(other, name_of(NAME_MAX, 'b'));
	say("%s", er(rename(name_of(NAME_MAX, 'a'), other)));
	say("%s", er(open(name_of(NAME_MAX + 1, 'a'), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
	append(name_of(NAME_MAX, 'p'), "+\n");
	say_what(name_of(NAME_MAX, 'p'));
	say("%s", er(unlink(name_of(NAME_MAX, 'p'))));
	say_what(name_of(NAME_MAX, 'p'));
	say("%s", er(rmdir(name_of(NAME_MAX, 'd'))));
	say("%s", er(mkdir(name_of(NAME_MAX, 'd'), 0755)));
	say("%s", er(symlink("t", name_of(NAME_MAX, 's'))));
}

static void
odd_names(void)
{
	static const char *const odd[] = { "\xff\xfe", "a\nb", "-rf", "...", ".wh.f",
		".wh..wh..opq", " ", "\\", "a:b", "~", "CON", "e\xcc\x81", "\xc3\xa9", "\x01",
		"work", "index", ".nfs0001", "#123", "user.overlay.opaque" };

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		put(odd[i], "odd\n");
		say_what(odd[i]);
	}
	say_what("f");
}

static void
prepare_cases(void)
{
	put("Name", "upper case\n");
	put("name", "lower case\n");
	must(mkdir("Dir", 0755));
}

static void
cases(void)
{
	append("name", "+\n");
	put("NAME", "new\n");
	say_what("Name");
	say_what("name");
	say_what("NAME");
	must(unlink("Name"));
	say_what("Name");
	say_what("name");
	say("%s", er(mkdir("dir", 0755)));
	say("%s", er(rename("name", "Name")));
	say_what("Name");
}

#define DEPTH 150

static void
deep(void)
{
	char path[PATH_MAX + 64];
	int depth = 0;

	/* Longer than PATH_MAX, which no call names as a whole. */
	while (depth < DEPTH && mkdir(name_of(40, 'd'), 0755) == 0 && chdir(long_name) == 0)
		depth++;
	say("%d %s", depth, er(open("bottom", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
	say("%s", getcwd(path, sizeof(path)) == NULL ? er(-1) : "there");
	say("%s", er(unlink("bottom")));
	while (depth > 0 && chdir("..") == 0 && rmdir(name_of(40, 'd')) == 0)
		depth--;
	say("%d", depth);
	memset(path, 'a', PATH_MAX + 8);
	path[PATH_MAX + 8] = '\0';
	say("%s", er(open(path, O_RDONLY | O_CLOEXEC)));
}

static void
prepare_deep(void)
{
	int home = must(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	for (int i = 0; i < DEPTH; i++) {
		must(mkdir(name_of(10, 'd'), 0755));
		must(chdir(long_name));
	}
	put("bottom", "bottom\n");
	must(fchdir(home));
	close(home);
}

static void
deep_lower(void)
{
	for (int i = 0; i < DEPTH; i++)
		must(chdir(name_of(10, 'd')));
	append("bottom", "+\n");
	say_what("bottom");
	say("%s", er(mkdir("under", 0755)));
}

static const struct op ops[] = {
	OP("link/lower file", link_lower, NULL),
	OP("link/lower file, same inode", link_lower_same, NULL),
	OP("link/upper file", link_upper, NULL),
	OP("link/errors", link_errors, NULL),
	OP("link/symbolic link", link_of_link, NULL),
	OP("link/fifo", link_fifo, NULL),
	OP("link/existing/count", existing_links_count, NULL),
	OP("link/existing/write", existing_links_write, NULL),
	OP("link/existing/write, count", existing_links_write_count, NULL),
	OP("link/existing/write, same inode", existing_links_write_same, NULL),
	OP("link/existing/unlink", existing_links_unlink, NULL),
	OP("link/existing/unlink, count", existing_links_unlink_count, NULL),
	OP("link/existing/chmod", existing_links_chmod, NULL),
	OP("link/O_TMPFILE", tmpfile_link, NULL),
	OP("link/O_TMPFILE with O_EXCL", tmpfile_link_excl, NULL),
	OP("link/O_TMPFILE over a file", tmpfile_link_over, NULL),
	OP("symlink/make", symlinks, NULL),
	OP("symlink/replace", symlink_replace, NULL),
	OP("symlink/write through", symlink_write, NULL),
	OP("mknod", nodes, NULL),
	OP("mknod/whiteout", node_whiteout, NULL),
	OP("rename/whiteout", rename_whiteout, NULL),
	OP("fifo/transfer", fifo_transfer, NULL),
	OP("mkdir/errors", mkdir_errors, NULL),
	OP("rmdir/errors", rmdir_errors, NULL),
	OP("rmdir/emptied", rmdir_emptied, NULL),
	OP("rmdir/another type", made_again_as_file, NULL),
	OP("rmdir/working directory", cwd_removed, NULL),
	OP("directory/descriptor", descriptor_survives, NULL),
	OP("directory/upper moves", upper_directory_moves, NULL),
	OP("rename/in itself", rename_in_itself, NULL),
	OP("link/existing/rename", rename_links, NULL),
	OP("link/lower file, rename", rename_new_links, NULL),
	OP("rename/into others", rename_into_others, NULL),
	OP("names/255 bytes", long_names, prepare_long),
	OP("names/odd", odd_names, NULL),
	OP("names/case", cases, prepare_cases),
	OP("names/deep", deep, NULL),
	OP("names/deep lower", deep_lower, prepare_deep),
};

void
add_name_ops(void)
{
	ADD_ALL(ops);
}
