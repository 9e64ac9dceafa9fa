#include "host/machine/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/machine/helpers.h"
#include "host/machine/remedy.h"
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

/* seccomp(SECCOMP_GET_ACTION_AVAIL) would return the same. */
static bool
has_seccomp_notify(void)
{
	cleanup_close int fd = open("/proc/sys/kernel/seccomp/actions_avail", O_RDONLY | O_CLOEXEC);
	char text[256] = "";
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	return n > 0 && strstr(text, "user_notif") != NULL;
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

static const struct {
	const char *name;
	int flag;
} namespaces[] = {
	/* First, because it gives the right to make the others, unless a security module takes that
	 * away. */
	{ "user", CLONE_NEWUSER },
	{ "mount", CLONE_NEWNS },
	{ "pid", CLONE_NEWPID },
	{ "net", CLONE_NEWNET },
	{ "ipc", CLONE_NEWIPC },
	{ "uts", CLONE_NEWUTS },
};

/* Each probe runs in a child process and uses only system calls, because the embedder may have
 * threads. The child's end sends no SIGCHLD. */
static void
probe_namespaces(struct caps *ret)
{
	int status = 0;
	size_t failed;
	pid_t pid;

	for (failed = 0; failed < N_ELEMENTS(namespaces); failed++) {
		pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
		if (pid == 0) {
			for (size_t i = 0; i <= failed; i++) {
				if (unshare(namespaces[i].flag) < 0)
					syscall(SYS_exit_group, errno < 255 ? errno : 255);
			}
			syscall(SYS_exit_group, 0);
		}
		if (pid < 0)
			status = errno;
		else if (waitpid(pid, &status, __WALL) == pid)
			status = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
		else
			status = errno;
		if (status != 0)
			break;
	}
	if (status == 0)
		return;
	ret->namespace = namespaces[failed].name;
	ret->namespace_errnum = status;
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
		.seccomp_notify = has_seccomp_notify(),
		.mount_setattr = has_mount_setattr(),
	};
	probe_namespaces(ret);
}

void
caps_sandbox_remedy(char *ret, size_t size)
{
	char path[PATH_LEN_MAX + 1];
	struct remedy_facts facts;
	struct caps caps;
	const char *why, *remedy;

	caps_probe(&caps);
	remedy_look(&facts);
	if (caps.namespace != NULL) {
		remedy = remedy_namespaces(&facts, caps.namespace_errnum, &why);
		snprintf(ret, size, "no %s namespaces, %s; try: %s", caps.namespace, why, remedy);
	} else if (helpers_find_bwrap(path, NULL) < 0) {
		snprintf(ret, size, "try: %s", remedy_install_bubblewrap(&facts));
	} else if (facts.container) {
		remedy = remedy_namespaces(&facts, 0, &why);
		snprintf(ret, size, "try: %s", remedy);
	} else {
		snprintf(ret, size, "'koda-sandbox doctor' shows why");
	}
}
