/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's mount calls, by descriptor, for view, private and caches. Nothing is mounted or
 * resolved by a name that a command could have changed meanwhile.
 */
#ifndef KODA_STAGE2_MOUNTS_H
#define KODA_STAGE2_MOUNTS_H

#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/beneath.h"

/* Missing from the older of the C library's and the kernel's headers. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static inline int
sys_open_tree(int fd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, fd, path, flags);
}

/* Attaches the detached mount at the place that fd refers to. */
static inline int
attach(int mount_fd, int fd)
{
	return (int)syscall(SYS_move_mount, mount_fd, "", fd, "",
	    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* Returns a detached copy of what is mounted there, with everything below it, or -1. */
static inline int
clone_mount(int fd)
{
	return sys_open_tree(fd, "",
	    AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* Follows no link: the host has resolved the path, so a link there now was put there since. */
static inline int
resolve(int dir, const char *path)
{
	return open_plain(dir, path, O_PATH | O_NOFOLLOW);
}

static inline int64_t
mount_id(int fd)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0 ||
	    (st.stx_mask & STATX_MNT_ID) == 0)
		return -1;
	return (int64_t)st.stx_mnt_id;
}

/*
 * Makes a detached file system in memory, of at most so many bytes and files, with a root directory
 * of mode 0755. Returns its descriptor, which the caller owns, or -1 with errno.
 */
int mounts_tmpfs(uint64_t bytes, uint64_t inodes, uint64_t attributes);

/*
 * Makes the place `rel` below the directory root, with all directories above it. Returns an O_PATH
 * descriptor, which the caller owns, or -1.
 */
int mounts_make_place(int root, const char *rel, bool directory);

/*
 * Unmounts what is mounted at fd, if it is the mount of that ID. By descriptor: by name, this could
 * unmount another mount that is there now. Returns 0, or -1.
 */
int mounts_detach(int fd, int64_t id);

/* Finds the device of the file system that the mount of that ID shows. Returns 0, or -1. */
int mounts_device(int64_t id, dev_t *ret);

/* A line of mountinfo; path is unescaped, and points into the line. */
struct mount_line {
	int id, parent;
	const char *path;
};
/* Takes a line of mountinfo apart, which it changes. Returns false if it has too few fields. */
bool mounts_read_line(char *line, struct mount_line *ret);

#endif
