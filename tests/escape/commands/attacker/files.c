/* SPDX-License-Identifier: Apache-2.0 */
/* What a command can put on a file so that the host's tools wait for it, notify it of their
 * actions, or obey it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

/* The kernel cuts these bits off a command's number. */
#define HIGH 0x100000000

#ifndef F_SETDELEG
#define F_SETDELEG (1024 + 16) /* Linux 6.19 */
#endif

static int
touch(const char *path)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return fd < 0 ? failed(path) : 0;
}

/* lease HOW FILE TAKEN: takes a lease on FILE and never gives it back; makes TAKEN after the
 * attempt. */
int
lease_main(int argc, char **argv)
{
	const char *how = argv[1], *path = argv[2];
	long command = F_SETLEASE, kind = strcmp(how, "read") == 0 ? F_RDLCK : F_WRLCK;
	struct {
		uint32_t flags;
		uint16_t type, pad;
	} delegation = { .type = F_RDLCK };
	int fd = open(path, kind == F_RDLCK || strcmp(how, "deleg") == 0 ? O_RDONLY : O_RDWR);
	long r;

	/* The kernel sends SIGIO when another process wants the file, which would end this
	 * process before become_linger(). */
	signal(SIGIO, SIG_IGN);
	if (strcmp(how, "high") == 0)
		command |= HIGH;
	if (strcmp(how, "dup") == 0)
		fd = fcntl(fd, F_DUPFD, 400);
	if (strcmp(how, "deleg") == 0)
		r = syscall(SYS_fcntl, fd, F_SETDELEG, &delegation);
	else
		r = syscall(SYS_fcntl, fd, command, kind);
	if (r < 0)
		failed("lease");
	touch(argv[3]);
	become_linger();
}

/* notify DIR READY HEARD: makes HEARD when something in DIR is changed. */
int
notify_main(int argc, char **argv)
{
	cleanup_close int fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct timespec patience = { .tv_sec = 3 };
	sigset_t io;
	long r;

	sigemptyset(&io);
	sigaddset(&io, SIGIO);
	sigprocmask(SIG_BLOCK, &io, NULL);
	r = syscall(SYS_fcntl, fd, F_NOTIFY, DN_CREATE | DN_MODIFY | DN_MULTISHOT);
	if (r < 0)
		failed("notify");
	touch(argv[2]);
	if (r == 0 && sigtimedwait(&io, NULL, &patience) == SIGIO)
		return touch(argv[3]);
	return 1;
}

/* flags HOW FILE: sets flags that an owner may set and a host's tools obey: synchronous writes,
 * no backup. */
int
flags_main(int argc, char **argv)
{
	const char *how = argv[1];
	cleanup_close int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	unsigned long high = strcmp(how, "set-high") == 0 ? HIGH : 0;

	if (strncmp(how, "set", 3) == 0) {
		int flags = FS_SYNC_FL | FS_NODUMP_FL;

		return syscall(SYS_ioctl, fd, FS_IOC_SETFLAGS | high, &flags) < 0 ? failed(how) : 0;
	}
	if (strcmp(how, "extended") == 0) {
		struct fsxattr attr = { .fsx_xflags = FS_XFLAG_SYNC | FS_XFLAG_NODUMP };

		return ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0 ? failed(how) : 0;
	}
	errno = EINVAL;
	return failed(how);
}
