/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers, other than those of system calls, that the filters are made of: flags, commands,
 * families. gen-seccomp takes them from the headers of the machine that builds. All machines in its
 * table have the same ones, and the build compares each of them with the headers of the machine
 * that it builds for. A number that a filter uses is in this list.
 */
#ifndef KODA_TOOLS_FILTER_NUMBERS_H
#define KODA_TOOLS_FILTER_NUMBERS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tools/command_ioctls.h"

/* glibc 2.36 does not define these. */
#ifndef F_LINUX_SPECIFIC_BASE
#define F_LINUX_SPECIFIC_BASE 1024
#endif
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (F_LINUX_SPECIFIC_BASE + 3)
#endif
#ifndef F_CREATED_QUERY
#define F_CREATED_QUERY (F_LINUX_SPECIFIC_BASE + 4)
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* SECCOMP_IOCTL_NOTIF_ID_VALID had the wrong direction in the headers of older kernels. Programs
 * that were built with those headers still use that number. */
#define NOTIF_ID_VALID_FORMER SECCOMP_IOR(2, __u64)

/* clang-format off */
#define FILTER_NUMBERS(X) \
	X(EPERM) X(EINVAL) X(EACCES) X(ENOTTY) X(ENOSYS) X(EAFNOSUPPORT) X(EPROTONOSUPPORT) \
	X(PROT_EXEC) X(MAP_ANONYMOUS) \
	/* __O_TMPFILE alone: O_DIRECTORY differs */ \
	X(O_ACCMODE) X(O_CREAT) X(O_TRUNC) X(O_TMPFILE & ~O_DIRECTORY) \
	X(F_GETFL) X(F_SETFL) X(F_GETFD) X(F_SETFD) X(FD_CLOEXEC) X(F_DUPFD_CLOEXEC) X(F_GET_SEALS) X(F_ADD_SEALS) \
	X(F_SETPIPE_SZ) X(F_GETPIPE_SZ) X(F_NOTIFY) X(F_SETSIG) X(F_GETLEASE) X(F_DUPFD_QUERY) X(F_CREATED_QUERY) \
	X(F_GET_RW_HINT) X(F_SET_RW_HINT) X(F_GET_FILE_RW_HINT) X(F_SET_FILE_RW_HINT) \
	X(MS_NOSUID | MS_NODEV | MS_NOEXEC) X(MS_REMOUNT | MS_BIND | MS_RDONLY) \
	X(AF_UNIX) X(AF_INET) X(AF_INET6) X(AF_NETLINK) X(SOCK_STREAM) X(SOCK_DGRAM) X(SOCK_SEQPACKET) \
	X(IPPROTO_TCP) X(IPPROTO_UDP) X(NETLINK_SOCK_DIAG) \
	X(CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD) X(CLONE_NEWTIME) \
	X(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET) \
	X(PR_SET_NAME) X(PR_SET_DUMPABLE) X(PR_CAP_AMBIENT) \
	X(SECCOMP_IOCTL_NOTIF_RECV) X(SECCOMP_IOCTL_NOTIF_SEND) X(SECCOMP_IOCTL_NOTIF_ID_VALID) X(NOTIF_ID_VALID_FORMER) \
	X(RLIMIT_CORE) X(RENAME_WHITEOUT) X(S_IFMT) X(S_IFIFO) X(S_IFSOCK) X(S_IFCHR) X(S_IFBLK) \
	X(PER_LINUX) X(PER_LINUX32) X(UNAME26) X(ADDR_NO_RANDOMIZE)
/* clang-format on */

#endif
