#include "host/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/helpers.h"
#include "shared/cleanup.h"
#include "shared/lockdown.h"

static bool
has_openat2(void)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	cleanup_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

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
	};
}

struct report {
	koda_capability_fn *fn;
	void *data;
};

static int
tell(const struct report *r, const char *name, bool available, bool needed, const char *detail,
    const char *remedy)
{
	const struct koda_capability c = { name, available, needed, detail,
		available ? "" : remedy };

	return r->fn(r->data, &c);
}

/* The real thing: a worker for an empty directory, confined, answering. */
static int
tell_worker(const struct report *r, const char *helper_dir)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	char dir[] = "/tmp/koda-doctor-XXXXXX", detail[KODA_MESSAGE_MAX];
	struct koda_enforcement enforced = { 0 };
	struct koda_session *ses = NULL;
	struct koda_slot *slot = NULL;
	struct koda_error err;
	bool full = false;

	if (mkdtemp(dir) == NULL)
		return tell(r, "worker", false, true, "cannot make a directory to try it in",
		    "make /tmp writable");
	options.root = dir;
	options.mode = KODA_SAFE; /* so that it reports what it got instead of refusing */
	options.helper_dir = helper_dir;
	if ((ses = koda_session_open(&options, &err)) != NULL &&
	    (slot = koda_slot_acquire(ses, NULL, &err)) != NULL) {
		koda_slot_enforcement(slot, &enforced);
		full = enforced.landlock_abi >= LOCKDOWN_ABI_FULL && enforced.seccomp;
		snprintf(detail, sizeof(detail), "started; Landlock ABI %u, seccomp %s",
		    enforced.landlock_abi, enforced.seccomp ? "on" : "off");
	} else {
		snprintf(detail, sizeof(detail), "%s", err.message);
	}
	koda_slot_release(slot);
	koda_session_close(ses);
	rmdir(dir);
	return tell(r, "worker", full, true, detail,
	    slot != NULL ? "see the capabilities above"
			 : "install koda-sandbox again: make install");
}

int
koda_doctor(const char *helper_dir, koda_capability_fn *fn, void *data)
{
	const struct report r = { fn, data };
	struct caps caps;
	char detail[96];
	int stop;

	caps_probe(&caps);
	snprintf(detail, sizeof(detail), "ABI %u (%u or newer is in full)", caps.landlock_abi,
	    LOCKDOWN_ABI_FULL);
	if ((stop = tell(&r, "landlock", caps.landlock_abi >= LOCKDOWN_ABI_FULL, true, detail,
		 "Linux 6.2 or newer with landlock in the kernel's lsm= list")) != 0 ||
	    (stop = tell(&r, "seccomp", caps.seccomp, true, "kills on a forbidden system call",
		 "a kernel with CONFIG_SECCOMP_FILTER")) != 0 ||
	    (stop = tell(&r, "pidfd", caps.pidfd, true, "processes are signalled without races",
		 "Linux 5.4 or newer")) != 0 ||
	    (stop = tell(&r, "memfd", caps.memfd_seals, true,
		 "bulk content is sealed before it is passed", "Linux 3.17 or newer")) != 0 ||
	    (stop = tell(&r, "proc", caps.proc, true, "/proc/self/fd names what a descriptor is",
		 "mount /proc")) != 0 ||
	    (stop = tell(&r, "openat2", caps.openat2, false,
		 caps.openat2 ? "paths resolve in one call"
			      : "paths are walked step by step, slower",
		 "Linux 5.6 or newer, and a container that lets openat2 through")) != 0)
		return stop;
	return tell_worker(&r, helper_dir);
}
