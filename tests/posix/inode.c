/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about a file: numbers, modes, times, extended attributes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/posix/ops.h"

static struct stat
look(const char *path)
{
	struct stat st;

	must(lstat(path, &st));
	return st;
}

static void
say_same(bool same)
{
	say("%s", same ? "same" : "different");
}

/* ---- inode numbers ---- */

static void
ino_append(void)
{
	struct stat before = look("f"), after;

	append("f", "+");
	after = look("f");
	say_same(before.st_ino == after.st_ino);
}

static void
dev_append(void)
{
	struct stat before = look("f"), after;

	append("f", "+");
	after = look("f");
	say_same(before.st_dev == after.st_dev);
}

static void
ino_chmod(void)
{
	struct stat before = look("f");

	must(chmod("f", 0600));
	say_same(before.st_ino == look("f").st_ino);
}

static void
ino_descriptor(void)
{
	int fd = must(open("f", O_RDONLY | O_CLOEXEC));
	struct stat early;

	append("f", "+");
	must(fstat(fd, &early));
	say_same(early.st_ino == look("f").st_ino);
}

static void
ino_directory(void)
{
	struct stat before = look("d");

	put("d/new", "");
	say_same(before.st_ino == look("d").st_ino && before.st_dev == look("d").st_dev);
}

static void
ino_link(void)
{
	struct stat before = look("l");

	must(lchown("l", getuid(), getgid()));
	say_same(before.st_ino == look("l").st_ino);
}

static void
ino_rename(void)
{
	struct stat before = look("f");

	must(rename("f", "k"));
	say_same(before.st_ino == look("k").st_ino);
}

static void
ino_rename_upper(void)
{
	struct stat before;

	put("u", "");
	before = look("u");
	must(rename("u", "k"));
	say_same(before.st_ino == look("k").st_ino);
}

static void
dev_of_directory(void)
{
	say_same(look("f").st_dev == look("d").st_dev);
}

static void
dev_of_upper(void)
{
	put("u", "");
	say_same(look("f").st_dev == look("u").st_dev);
}

static void
ino_different(void)
{
	put("u", "");
	append("g", "+");
	say_same(look("f").st_ino == look("g").st_ino);
	say_same(look("u").st_ino == look("g").st_ino);
	say_same(look("u").st_ino == look("d").st_ino);
}

/* ---- sizes and counts ---- */

static void
nlink_lower_directory(void)
{
	say("%lu", (unsigned long)look("d").st_nlink);
}

static void
nlink_merged_directory(void)
{
	must(mkdir("d/new", 0755));
	say("%lu", (unsigned long)look("d").st_nlink);
}

static void
nlink_upper_directory(void)
{
	must(mkdir("u", 0755));
	must(mkdir("u/new", 0755));
	say("%lu", (unsigned long)look("u").st_nlink);
}

static void
stat_file(void)
{
	struct stat st = look("big");

	say("%o %lu %lld %d", (unsigned)st.st_mode, (unsigned long)st.st_nlink,
	    (long long)st.st_size, (int)st.st_blksize);
	say("%s", st.st_blocks * 512 >= BIG_SIZE ? "full" : "sparse");
	append("big", "+");
	st = look("big");
	say("%o %lld", (unsigned)st.st_mode, (long long)st.st_size);
	say("%s", st.st_uid == getuid() && st.st_gid == getgid() ? "own" : "not own");
}

static void
stat_birth(void)
{
	struct statx st;

	must(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS | STATX_BTIME, &st));
	say("%s", (st.stx_mask & STATX_BTIME) != 0 ? "known" : "unknown");
	say("%s", (st.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS ? "all" : "part");
}

static void
stat_birth_kept(void)
{
	struct statx before, after;

	must(statx(AT_FDCWD, "f", 0, STATX_BTIME, &before));
	append("f", "+");
	must(statx(AT_FDCWD, "f", 0, STATX_BTIME, &after));
	say_same(before.stx_btime.tv_sec == after.stx_btime.tv_sec &&
	    before.stx_btime.tv_nsec == after.stx_btime.tv_nsec);
}

static void
fs_type(void)
{
	struct statfs fs;

	must(statfs(".", &fs));
	say("%lx", (unsigned long)fs.f_type);
}

static void
fs_room(void)
{
	struct statvfs fs;

	must(statvfs(".", &fs));
	say("%s %lu %s", fs.f_bavail > 0 ? "room" : "full", fs.f_namemax,
	    (fs.f_flag & ST_RDONLY) != 0 ? "ro" : "rw");
	say("%ld %ld", pathconf(".", _PC_NAME_MAX), pathconf(".", _PC_PATH_MAX));
}

static void
fs_flags(void)
{
	struct statvfs fs;

	must(statvfs(".", &fs));
	say("%s %s", (fs.f_flag & ST_NOSUID) != 0 ? "nosuid" : "suid",
	    (fs.f_flag & ST_NOEXEC) != 0 ? "noexec" : "exec");
}

static void
handles(void)
{
	struct file_handle *h = calloc(1, sizeof(*h) + MAX_HANDLE_SZ);
	int id;

	h->handle_bytes = MAX_HANDLE_SZ;
	say("%s", er(name_to_handle_at(AT_FDCWD, "f", h, &id, 0)));
}

static void
inode_flags(void)
{
	int fd = must(open("f", O_RDONLY | O_CLOEXEC)), flags = 0;

	say("%s", er(ioctl(fd, FS_IOC_GETFLAGS, &flags)));
	flags |= FS_NODUMP_FL;
	say("%s", er(ioctl(fd, FS_IOC_SETFLAGS, &flags)));
	flags |= FS_IMMUTABLE_FL;
	say("%s", er(ioctl(fd, FS_IOC_SETFLAGS, &flags)));
}

static void
inode_version(void)
{
	int fd = must(open("f", O_RDONLY | O_CLOEXEC));
	long version;

	say("%s", er(ioctl(fd, FS_IOC_GETVERSION, &version)));
}

/* ---- modes ---- */

static void
modes(void)
{
	static const mode_t mode[] = { 0600, 0, 0755, 02755, 01644, 04755 };

	for (size_t i = 0; i < sizeof(mode) / sizeof(mode[0]); i++) {
		say("%s", er(chmod("f", mode[i])));
		say("%o", (unsigned)look("f").st_mode);
		say("%s", er(chmod("d", mode[i])));
		say("%o", (unsigned)look("d").st_mode);
	}
	say("%s", er(chmod("l", 0640)));
	say("%o", (unsigned)look("f").st_mode);
	say("%s", er(fchmodat(AT_FDCWD, "l", 0600, AT_SYMLINK_NOFOLLOW)));
}

static void
owners(void)
{
	say("%s", er(chown("f", getuid(), getgid())));
	say("%s", er(chown("d", getuid(), (gid_t)-1)));
	say("%s", er(lchown("l", (uid_t)-1, getgid())));
	say("%s", er(chown("f", 0, (gid_t)-1)));
	say("%s", er(chown("g", (uid_t)-1, 0)));
	say("%s", look("f").st_uid == getuid() ? "own" : "not own");
}

/* A change of the content or of the owner takes the set-user-ID bit away. */
static void
setuid_bit(void)
{
	must(chmod("f", 04755));
	say("%o", (unsigned)look("f").st_mode);
	append("f", "+");
	say("%o", (unsigned)look("f").st_mode);
	must(chmod("g", 04755));
	must(chown("g", getuid(), getgid()));
	say("%o", (unsigned)look("g").st_mode);
}

static void
no_permission(void)
{
	must(chmod("f", 0444));
	say("%s", er(open("f", O_WRONLY | O_CLOEXEC)));
	say("%s", er(access("f", W_OK)));
	must(chmod("g", 0));
	say("%s", er(open("g", O_RDONLY | O_CLOEXEC)));
	must(chmod("d", 0555));
	say("%s", er(open("d/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
	say("%s", er(unlink("d/x")));
	say("%s", er(rename("d/x", "x")));
	append("d/x", "+");
	must(chmod("d", 0755));
	must(chmod("n", 0));
	say("%s", er(open("n/x", O_RDONLY | O_CLOEXEC)));
	say("%s", er(open("n", O_RDONLY | O_CLOEXEC)));
	say("%s", er(access("n/x", F_OK)));
	must(chmod("n", 0755));
	say_what("n/x");
}

static void
prepare_read_only(void)
{
	put("ro", "read only\n");
	must(chmod("ro", 0444));
	put("secret", "secret\n");
	must(chmod("secret", 0));
	must(mkdir("rodir", 0755));
	put("rodir/in", "in\n");
	must(chmod("rodir", 0555));
}

static void
read_only_lower(void)
{
	say("%s", er(open("ro", O_RDWR | O_CLOEXEC)));
	say("%s", er(chmod("ro", 0644)));
	append("ro", "+");
	say_what("ro");
	say("%s", er(open("secret", O_RDONLY | O_CLOEXEC)));
	say("%s", er(rename("secret", "s2")));
	say("%s", er(chmod("s2", 0600)));
	say_what("s2");
	say("%s", er(unlink("rodir/in")));
	say("%s", er(open("rodir/in", O_WRONLY | O_CLOEXEC)));
	say("%s", er(chmod("rodir", 0755)));
	say("%s", er(unlink("rodir/in")));
	say("%s", er(unlink("ro")));
}

static void
inherited(void)
{
	must(chmod("d", 02775));
	must(mkdir("d/in", 0775));
	say("%o", (unsigned)look("d/in").st_mode);
	umask(077);
	put("d/file", "");
	say("%o", (unsigned)look("d/file").st_mode);
	umask(0);
	say("%s", er(open("d/file2", O_CREAT | O_WRONLY | O_CLOEXEC, 0777)));
	say("%o", (unsigned)look("d/file2").st_mode);
}

/* ---- times ---- */

static void
times_set(void)
{
	const struct timespec t[2] = { { 1000000000, 123456789 }, { 1000000001, 987654321 } };
	const struct timespec part[2] = { { 0, UTIME_OMIT }, { 5, 6 } };
	static const char *const paths[] = { "f", "d", "fifo" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct stat st;

		say("%s", er(utimensat(AT_FDCWD, paths[i], t, 0)));
		st = look(paths[i]);
		say("%ld.%ld %ld.%ld", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec,
		    (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
		say("%s", er(utimensat(AT_FDCWD, paths[i], part, 0)));
		st = look(paths[i]);
		say("%ld %ld", (long)st.st_atim.tv_sec, (long)st.st_mtim.tv_sec);
	}
	say("%s", er(utimensat(AT_FDCWD, "l", t, AT_SYMLINK_NOFOLLOW)));
	say("%ld", (long)look("l").st_mtim.tv_sec);
	say("%s", er(utimensat(AT_FDCWD, "f", NULL, 0)));
	say("%s", look("f").st_mtim.tv_sec > 1500000000 ? "now" : "then");
}

static void
times_change(void)
{
	const struct timespec old[2] = { { 1000, 1 }, { 1000, 2 } };

	must(utimensat(AT_FDCWD, "f", old, 0));
	must(utimensat(AT_FDCWD, "d", old, 0));
	must(chmod("f", 0600));
	say("%ld", (long)look("f").st_mtim.tv_sec);
	say("%s", look("f").st_ctim.tv_sec > 1500000000 ? "now" : "then");
	append("f", "+");
	say("%s", look("f").st_mtim.tv_sec > 1500000000 ? "now" : "then");
	append("d/x", "+");
	say("%ld", (long)look("d").st_mtim.tv_sec);
	put("d/new", "");
	say("%s", look("d").st_mtim.tv_sec > 1500000000 ? "now" : "then");
}

static void
prepare_old(void)
{
	const struct timespec old[2] = { { 1000, 1 }, { 2000, 999999999 } };

	put("old", "old\n");
	must(mkdir("olddir", 0755));
	put("olddir/in", "in\n");
	must(utimensat(AT_FDCWD, "old", old, 0));
	must(utimensat(AT_FDCWD, "olddir/in", old, 0));
	must(utimensat(AT_FDCWD, "olddir", old, 0));
}

/* make and others compare times: what was not written keeps its own. */
static void
times_kept(void)
{
	must(chmod("old", 0600));
	say("%ld.%ld", (long)look("old").st_mtim.tv_sec, look("old").st_mtim.tv_nsec);
	must(rename("old", "moved"));
	say("%ld.%ld", (long)look("moved").st_mtim.tv_sec, look("moved").st_mtim.tv_nsec);
	append("olddir/in", "+");
	say("%ld.%ld", (long)look("olddir").st_mtim.tv_sec, look("olddir").st_mtim.tv_nsec);
	must(close(must(open("moved", O_WRONLY | O_CLOEXEC))));
	say("%ld", (long)look("moved").st_mtim.tv_sec);
}

/* ---- extended attributes ---- */

static void
say_list(const char *path)
{
	char names[1024];
	ssize_t n = llistxattr(path, names, sizeof(names));

	if (n < 0)
		say("%s", er(n));
	for (char *p = names; n > 0 && p < names + n; p += strlen(p) + 1)
		say("%s", p);
	say("(%s)", path);
}

static void
attributes(void)
{
	static const char *const paths[] = { "f", "d", "fifo" };
	char value[16] = "";

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		say("%s", er(setxattr(paths[i], "user.a", "1", 1, 0)));
		say("%s", er(setxattr(paths[i], "user.a", "2", 1, XATTR_CREATE)));
		say("%s", er(setxattr(paths[i], "user.b", "2", 1, XATTR_REPLACE)));
		say("%s", er(getxattr(paths[i], "user.a", value, sizeof(value))));
		say_list(paths[i]);
		say("%s", er(removexattr(paths[i], "user.a")));
		say_list(paths[i]);
	}
	say("%s", er(lsetxattr("l", "user.a", "1", 1, 0)));
	say("%s", er(getxattr("f", "user.none", value, sizeof(value))));
}

static void
prepare_attributes(void)
{
	put("f", "content\n");
	must(setxattr("f", "user.kept", "value", 5, 0));
	must(mkdir("d", 0755));
	must(setxattr("d", "user.kept", "value", 5, 0));
}

static void
attributes_kept(void)
{
	char value[16] = "";

	append("f", "+");
	put("d/new", "");
	say_list("f");
	say_list("d");
	say("%s", er(getxattr("f", "user.kept", value, sizeof(value))));
	say("%s", value);
	say("%s", er(removexattr("d", "user.kept")));
	say_list("d");
}

static void
attributes_of_system(void)
{
	say("%s", er(setxattr("f", "trusted.a", "1", 1, 0)));
	say("%s", er(setxattr("f", "security.a", "1", 1, 0)));
	say("%s", er(setxattr("f", "system.a", "1", 1, 0)));
	say("%s", er(setxattr("f", "nothing", "1", 1, 0)));
}

static void
attributes_large(void)
{
	char *value = calloc(1, 65537);

	say("%s", er(setxattr("f", "user.a", value, 2000, 0)));
	say("%s", er(setxattr("f", "user.b", value, 65537, 0)));
}

static void
attributes_of_overlay(void)
{
	say("%s", er(setxattr("d", "user.overlay.opaque", "y", 1, 0)));
	say_what("d/x");
	say("%s", er(setxattr("f", "user.overlay.redirect", "/etc/passwd", 11, 0)));
	say("%s", er(setxattr("f", "user.overlay.whiteout", "y", 1, 0)));
	say_what("f");
	say_list("d");
}

static void
access_lists(void)
{
	/* user::rw-, user:0:r--, group::r--, mask::rw-, other::r-- */
	static const unsigned char acl[] = { 2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0,
		0, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0,
		4, 0, 255, 255, 255, 255 };
	char value[256];

	say("%s", er(setxattr("f", "system.posix_acl_access", acl, sizeof(acl), 0)));
	say("%ld", (long)getxattr("f", "system.posix_acl_access", value, sizeof(value)));
	say("%s", er(setxattr("d", "system.posix_acl_default", acl, sizeof(acl), 0)));
	put("d/new", "");
	say("%ld", (long)getxattr("d/new", "system.posix_acl_access", value, sizeof(value)));
}

static const struct op ops[] = {
	OP("inode/append", ino_append, NULL),
	OP("inode/append, device", dev_append, NULL),
	OP("inode/chmod", ino_chmod, NULL),
	OP("inode/descriptor", ino_descriptor, NULL),
	OP("inode/directory", ino_directory, NULL),
	OP("inode/symbolic link", ino_link, NULL),
	OP("inode/rename", ino_rename, NULL),
	OP("inode/rename upper", ino_rename_upper, NULL),
	OP("inode/device of directory", dev_of_directory, NULL),
	OP("inode/device of upper", dev_of_upper, NULL),
	OP("inode/different", ino_different, NULL),
	OP("nlink/lower directory", nlink_lower_directory, NULL),
	OP("nlink/merged directory", nlink_merged_directory, NULL),
	OP("nlink/upper directory", nlink_upper_directory, NULL),
	OP("stat/file", stat_file, NULL),
	OP("stat/birth time", stat_birth, NULL),
	OP("stat/birth time kept", stat_birth_kept, NULL),
	OP("fs/type", fs_type, NULL),
	OP("fs/room", fs_room, NULL),
	OP("fs/flags", fs_flags, NULL),
	OP("inode/handle", handles, NULL),
	OP("inode/flags", inode_flags, NULL),
	OP("inode/version", inode_version, NULL),
	OP("mode/chmod", modes, NULL),
	OP("mode/chown", owners, NULL),
	OP("mode/set-user-ID", setuid_bit, NULL),
	OP("mode/no permission", no_permission, NULL),
	OP("mode/lower without permission", read_only_lower, prepare_read_only),
	OP("mode/inherited", inherited, NULL),
	OP("time/utimensat", times_set, NULL),
	OP("time/changes", times_change, NULL),
	OP("time/kept", times_kept, prepare_old),
	OP("xattr/set, get, list, remove", attributes, NULL),
	OP("xattr/kept", attributes_kept, prepare_attributes),
	OP("xattr/other spaces", attributes_of_system, NULL),
	OP("xattr/large", attributes_large, NULL),
	OP("xattr/user.overlay", attributes_of_overlay, NULL),
	OP("xattr/access lists", access_lists, NULL),
};

void
add_inode_ops(void)
{
	ADD_ALL(ops);
}
