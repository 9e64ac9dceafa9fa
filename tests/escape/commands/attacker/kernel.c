/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, mounts, and other parts of the kernel that an ordinary command does not need. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

/* sys/mount.h and linux/mount.h conflict in glibc 2.36. */
int mount(const char *, const char *, const char *, unsigned long, const void *);
int umount2(const char *, int);

#ifndef MS_REMOUNT
#define MS_REMOUNT 32
#endif
#ifndef MS_BIND
#define MS_BIND 4096
#endif
#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#define RECURSIVE 0x8000 /* AT_RECURSIVE */

static void
put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, text, strlen(text));
		close(fd);
	}
}

/* Becomes root of its own namespaces, as far as the kernel permits. */
static void
become_root(int more)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | more) < 0) {
		failed("unshare");
		/* Without its own mount namespace this is the host's root: no mount may
		 * propagate out. */
		if (unshare(more) < 0 ||
		    mount(NULL, "/", NULL, 0x44000 /* MS_REC|MS_PRIVATE */, NULL) < 0)
			exit(failed("unshare"));
		return;
	}
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	put("/proc/self/gid_map", map);
}

static int
append(int dirfd, const char *path)
{
	cleanup_close int fd = openat(dirfd, path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return failed(path);
	return write(fd, "broken\n", 7) == 7 ? 0 : failed(path);
}

static int
by_open_tree(const char *path)
{
	struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };
	cleanup_close int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/",
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | RECURSIVE);

	if (tree < 0)
		return failed("open_tree");
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | RECURSIVE, &attr, sizeof(attr)) <
		0 &&
	    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		failed("mount_setattr");
	return append(tree, path + 1);
}

static int
by_chroot(const char *path)
{
	char up[3 * 64 + 1] = "";

	/* Needs a writable directory: the current one. */
	if (mkdir("jail", 0700) < 0 || chroot("jail") < 0)
		return failed("chroot");
	for (int i = 0; i < 64; i++)
		strcat(up, "../");
	if (chdir(up) < 0 || chroot(".") < 0)
		return failed("chroot");
	return append(AT_FDCWD, path);
}

/* Mounts another file system over its own, and goes back to the old root. */
static int
by_pivot(const char *path)
{
	if (mkdir("new", 0700) < 0 || mount("none", "new", "tmpfs", 0, NULL) < 0 ||
	    mkdir("new/old", 0700) < 0)
		return failed("tmpfs");
	if (syscall(SYS_pivot_root, "new", "new/old") < 0 || chdir("/old") < 0)
		return failed("pivot_root");
	return append(AT_FDCWD, path + 1);
}

/* Tries any mount of the host that a process with another view exposes. */
static int
by_setns(const char *path, const char *pid)
{
	char name[64];

	for (int i = 0; i < 2; i++) {
		int fd;

		snprintf(name, sizeof(name), "/proc/%s/ns/mnt", i == 0 ? pid : "1");
		if ((fd = open(name, O_RDONLY | O_CLOEXEC)) < 0 || setns(fd, CLONE_NEWNS) < 0)
			failed(name);
		else if (append(AT_FDCWD, path) == 0)
			return 0;
	}
	return 1;
}

/* ns HOW FILE [MORE]: appends to FILE after a change of the view that should have allowed it. */
int
ns_main(int argc, char **argv)
{
	const char *how = argv[1], *path = argv[2];

	if (strcmp(how, "setns") == 0)
		return by_setns(path, argv[3]);
	if (strcmp(how, "remount-direct") == 0) {
		if (mount(NULL, argc > 3 ? argv[3] : "/", NULL, MS_REMOUNT | MS_BIND, NULL) < 0)
			failed("remount");
		return append(AT_FDCWD, path);
	}
	if (strcmp(how, "umount-direct") == 0) {
		if (umount2(argv[3], MNT_DETACH) < 0)
			failed("umount");
		return append(AT_FDCWD, path);
	}
	become_root(CLONE_NEWNS);
	if (strcmp(how, "remount") == 0) {
		if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) < 0)
			failed("remount");
		return append(AT_FDCWD, path);
	}
	if (strcmp(how, "umount") == 0) {
		if (umount2(argv[3], MNT_DETACH) < 0)
			failed("umount");
		return append(AT_FDCWD, path);
	}
	if (strcmp(how, "open-tree") == 0)
		return by_open_tree(path);
	if (strcmp(how, "chroot") == 0)
		return by_chroot(path);
	if (strcmp(how, "pivot") == 0)
		return by_pivot(path);
	errno = EINVAL;
	return failed(how);
}

/* userns HOW MARK: lingers with the capabilities of a new user namespace. */
int
userns_main(int argc, char **argv)
{
	const char *how = argv[1];
	long pid = -1;

	if (strcmp(how, "unshare") == 0) {
		pid = unshare(CLONE_NEWUSER);
	} else if (strcmp(how, "clone") == 0) {
		pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	} else if (strcmp(how, "clone3") == 0) {
		struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };

		pid = syscall(SYS_clone3, &args, sizeof(args));
	} else if (strcmp(how, "int80") == 0) {
#ifdef __x86_64__
		__asm__ volatile("int $0x80"
				 : "=a"(pid)
				 : "a"(310l), "b"((long)CLONE_NEWUSER)
				 : "memory");
#endif
	}
	if (pid < 0)
		return failed(how);
	if (pid > 0) {
		waitpid((pid_t)pid, NULL, 0);
		return 0;
	}
	become_linger();
}

/* hold WHAT MARK: holds what the kernel gave until the host has checked. */
int
hold_main(int argc, char **argv)
{
	const char *what = argv[1];
	long fd = -1;

	if (strcmp(what, "userfaultfd") == 0) {
		fd = syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY);
	} else if (strcmp(what, "uring") == 0) {
		struct io_uring_params p = { 0 };

		fd = syscall(SYS_io_uring_setup, 1, &p);
	} else if (strcmp(what, "perf") == 0) {
		struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
			.size = sizeof(attr),
			.config = PERF_COUNT_SW_TASK_CLOCK,
			.exclude_kernel = 1,
			.exclude_hv = 1 };

		fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	} else if (strcmp(what, "bpf") == 0) {
		union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY,
			.key_size = 4,
			.value_size = 4,
			.max_entries = 1 };

		fd = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
	} else if (strcmp(what, "fanotify") == 0) {
		fd = syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY);
	} else if (strcmp(what, "fsopen") == 0) {
		fd = syscall(SYS_fsopen, "tmpfs", 0);
	} else if (strcmp(what, "mempolicy") == 0) {
		unsigned long nodes = 1;

		/* The policy shows in /proc/PID/numa_maps. */
		fd = syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, 8 * sizeof(nodes));
	}
	if (fd < 0)
		return failed(what);
	become_linger();
}
