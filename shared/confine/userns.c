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

static int
try_user(void)
{
	return unshare(CLONE_NEWUSER);
}

/* Dropping a capability takes one (CAP_SETPCAP) and nothing else, so only what takes capabilities
 * away refuses it. */
static int
try_capability(void)
{
	return prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0);
}

static int
try_mount_ns(void)
{
	return unshare(CLONE_NEWNS);
}

static int
try_pid_ns(void)
{
	return unshare(CLONE_NEWPID);
}

static int
try_net_ns(void)
{
	return unshare(CLONE_NEWNET);
}

static int
try_ipc_ns(void)
{
	return unshare(CLONE_NEWIPC);
}

static int
try_uts_ns(void)
{
	return unshare(CLONE_NEWUTS);
}

/* bubblewrap's first mount. It changes how mounts spread, in a mount namespace of this process. */
static int
try_mount(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
}

/* The first process of the new pid namespace mounts its /proc. The kernel refuses that where parts
 * of the /proc that is here are covered, because the new one would show them. */
static int
try_proc(void)
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
	int (*run)(void);
} steps[] = {
	{ USERNS_USER, try_user },
	{ USERNS_CAPABILITY, try_capability },
	{ USERNS_MOUNT_NS, try_mount_ns },
	{ USERNS_PID_NS, try_pid_ns },
	{ USERNS_NET_NS, try_net_ns },
	{ USERNS_IPC_NS, try_ipc_ns },
	{ USERNS_UTS_NS, try_uts_ns },
	{ USERNS_MOUNT, try_mount },
	{ USERNS_PROC, try_proc },
};

void
userns_try(struct userns_outcome *ret)
{
	*ret = (struct userns_outcome){ USERNS_ALL, 0 };
	for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
		if (steps[i].run() < 0) {
			*ret = (struct userns_outcome){ steps[i].step, errno };
			return;
		}
	}
}

void
userns_try_kept(struct userns_outcome *ret)
{
	*ret = (struct userns_outcome){ USERNS_ALL, 0 };
	/* As stage2 begins. The namespaces that bubblewrap made belong to another user namespace than
	 * the one that the capability is for. */
	if (unshare(CLONE_NEWNS) < 0)
		*ret = (struct userns_outcome){ USERNS_KEPT, errno };
}
