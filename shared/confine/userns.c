/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/confine/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define CAP_SYS_TIME 25 /* linux/capability.h; no step needs it */

/*
 * A seccomp filter sees the number and the arguments of a call, and the kernel's own checks come after
 * it. So the same call with an argument that the kernel refuses at once, with an error of its own,
 * shows which of the two refused the correct one.
 */
#define NO_UNSHARE_FLAG CLONE_PARENT_SETTID

static bool
is_unshare_filtered(int flag, int errnum)
{
	return unshare(flag | NO_UNSHARE_FLAG) < 0 && errno == errnum && errnum != EINVAL;
}

static bool
is_mount_filtered(int flag, int errnum)
{
	return mount(NULL, NULL, NULL, 0, NULL) < 0 && errno == errnum && errnum != EFAULT;
}

static int
try_unshare(int flag)
{
	return unshare(flag);
}

/* Dropping a capability takes one (CAP_SETPCAP) and nothing else, so only what takes capabilities
 * away refuses it. */
static int
try_capability(int flag)
{
	return prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0);
}

/* bubblewrap's first mount. It changes how mounts spread, in a mount namespace of this process. */
static int
try_mount(int flag)
{
	return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
}

/* The first process of the new pid namespace mounts its /proc. The kernel refuses that where parts
 * of the /proc that is here are covered, because the new one would show them. */
static int
try_proc(int flag)
{
	int status = 0;
	/* Without SIGCHLD: the embedder's handler may be in the copy. */
	pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);

	if (pid == 0) {
		int r = mount("proc", "/proc", "proc", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);

		syscall(SYS_exit_group, r == 0 ? 0 : errno);
	}
	if (pid < 0 || waitpid(pid, &status, __WALL) != pid)
		return -1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
	return errno == 0 ? 0 : -1;
}

static const struct {
	enum userns_step step;
	int flag;
	int (*run)(int flag);
	bool (*is_filtered)(int flag, int errnum); /* NULL: no filter is known that refuses it */
} steps[] = {
	{ USERNS_USER, CLONE_NEWUSER, try_unshare, is_unshare_filtered },
	{ USERNS_CAPABILITY, 0, try_capability, NULL },
	{ USERNS_MOUNT_NS, CLONE_NEWNS, try_unshare, is_unshare_filtered },
	{ USERNS_PID_NS, CLONE_NEWPID, try_unshare, is_unshare_filtered },
	{ USERNS_NET_NS, CLONE_NEWNET, try_unshare, is_unshare_filtered },
	{ USERNS_IPC_NS, CLONE_NEWIPC, try_unshare, is_unshare_filtered },
	{ USERNS_UTS_NS, CLONE_NEWUTS, try_unshare, is_unshare_filtered },
	{ USERNS_MOUNT, 0, try_mount, is_mount_filtered },
	{ USERNS_PROC, 0, try_proc, NULL },
};

void
userns_try(struct userns_outcome *ret)
{
	*ret = (struct userns_outcome){ .step = USERNS_ALL };
	for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
		if (steps[i].run(steps[i].flag) == 0)
			continue;
		ret->step = steps[i].step;
		ret->errnum = errno;
		ret->filtered = steps[i].is_filtered != NULL &&
		    steps[i].is_filtered(steps[i].flag, ret->errnum);
		return;
	}
}

void
userns_try_kept(struct userns_outcome *ret)
{
	*ret = (struct userns_outcome){ .step = USERNS_ALL };
	/* As stage2 begins. The namespaces that bubblewrap made belong to another user namespace than
	 * the one that the capability is for. */
	if (unshare(CLONE_NEWNS) < 0)
		*ret = (struct userns_outcome){ .step = USERNS_KEPT, .errnum = errno };
}
