/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"

static bool
has_openat2(void)
{
	cleanup_close int fd = open_plain(AT_FDCWD, "/", O_PATH);

	return fd >= 0;
}

static bool
has_pidfd(void)
{
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0;
}

static bool
has_memfd_seals(void)
{
	cleanup_close int fd = memfd_create("koda-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
}

/* If the call exists, it fails because of the descriptor, and before that because an ordinary user
 * may not mount outside of a user namespace. */
static bool
has_mount_setattr(void)
{
	const struct mount_attr none = { 0 };

	return syscall(SYS_mount_setattr, -1, "", AT_EMPTY_PATH, &none, sizeof(none)) == 0 ||
	    errno != ENOSYS;
}

/* In a child process, because a filter stays; it uses only system calls, because the embedder may
 * have threads, and its end sends no SIGCHLD. Returns 0 or an errno. */
static int
try_listener(void)
{
	int status = 0;
	pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);

	if (pid == 0)
		syscall(SYS_exit_group, lockdown_listener_try());
	if (pid < 0 || waitpid(pid, &status, __WALL) != pid)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

void
caps_probe(struct caps *ret)
{
	struct stat st;

	*ret = (struct caps){
		.openat2 = has_openat2(),
		.landlock_abi = lockdown_landlock_abi(),
		.seccomp = lockdown_seccomp_available(),
		.pidfd = has_pidfd(),
		.memfd_seals = has_memfd_seals(),
		.proc = stat("/proc/self/fd", &st) == 0,
		.notify_errnum = try_listener(),
		.mount_setattr = has_mount_setattr(),
	};
}
