/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* Missing from the headers of Debian 12. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

bool
caller_status(pid_t tid, char *ret, size_t size)
{
	cleanup_close int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, size - 1);
	if (n <= 0)
		return false;
	ret[n] = '\0';
	return true;
}

uint64_t
caller_status_field(const char *text, const char *name, int base)
{
	char line[32];
	const char *at;

	snprintf(line, sizeof(line), "\n%s:", name);
	at = strstr(text, line);
	return at != NULL ? strtoull(at + strlen(line), NULL, base) : 0;
}

pid_t
caller_process(pid_t tid)
{
	char text[CALLER_STATUS_SIZE];

	return caller_status(tid, text, sizeof(text)) ? (pid_t)caller_status_field(text, "Tgid", 10)
						      : -1;
}

int
caller_open(pid_t tid)
{
	pid_t tgid;
	int fd;

	fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	if (fd >= 0 || errno != EINVAL)
		return fd >= 0 ? fd : -errno;
	/*
	 * Before Linux 6.9 there are only pidfds of processes. They are good enough for a thread
	 * that has no descriptors of its own.
	 */
	tgid = caller_process(tid);
	if (tgid < 0)
		return -ESRCH;
	if (tgid != tid && syscall(SYS_kcmp, tid, tgid, KCMP_FILES, 0, 0) != 0)
		return -EPERM;
	fd = (int)syscall(SYS_pidfd_open, tgid, 0);
	return fd >= 0 ? fd : -errno;
}

int
caller_cwd(pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cwd", tid);
	return open(path, O_PATH | O_CLOEXEC);
}

bool
caller_waits(int listener, uint64_t id)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

bool
caller_answer(int listener, uint64_t id, int error)
{
	struct seccomp_notif_resp resp = { .id = id, .error = error };

	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp) == 0 || errno != ENOENT;
}
