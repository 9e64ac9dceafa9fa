/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/overlay.h"

#include <errno.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* "/proc/self/fd/", a number, and the separator before the next name. */
#define FD_NAME_MAX 32
#define VALUE_MAX   256 /* of fsconfig() */

_Static_assert(FD_NAME_MAX >= sizeof("/proc/self/fd/4294967295"), "a descriptor's name");

static int
set_text(int fs, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0);
}

static int
set_fd(int fs, const char *key, int fd)
{
	char name[FD_NAME_MAX];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return set_text(fs, key, name);
}

static int
set_lower(int fs, const int *lower, size_t n)
{
	char value[VALUE_MAX];
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		int more = snprintf(value + len, sizeof(value) - len, "%s/proc/self/fd/%d",
		    i > 0 ? ":" : "", lower[i]);

		if (more < 0 || (size_t)more >= sizeof(value) - len) {
			errno = E2BIG;
			return -1;
		}
		len += (size_t)more;
	}
	return set_text(fs, "lowerdir", value);
}

static int
set_flag(int fs, const char *key)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, key, NULL, 0);
}

/* The kernel makes the directories of its own with mode 0, but does not depend on that mode.
 * With 0700 the user can remove them later, or move the directory that they are in. */
static int
make_removable(int work)
{
	static const char *const made[] = { "work", "work/incompat", "work/incompat/volatile" };

	for (size_t i = 0; i < N_ELEMENTS(made); i++)
		if (fchmodat(work, made[i], 0700, 0) < 0)
			return -1;
	return 0;
}

int
overlay_new(const int *lower, size_t n_lower, int upper, int work, int *ret_context,
    struct koda_error *err)
{
	cleanup_close int fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
	int mnt;

	if (fs < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "open the overlay file system");
	if (set_flag(fs, "userxattr") < 0 || set_flag(fs, "volatile") < 0)
		return err_set(err, KODA_UNSUPPORTED, errno,
		    "set up an overlay without privileges");
	if (set_lower(fs, lower, n_lower) < 0 || set_fd(fs, "upperdir", upper) < 0 ||
	    set_fd(fs, "workdir", work) < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ||
	    make_removable(work) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make an overlay");
	mnt = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (mnt < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "mount an overlay");
	if (ret_context != NULL)
		*ret_context = take_fd(&fs);
	return mnt;
}

/* Changing the options of a mounted file system drops its unused names from the kernel's cache,
 * also if none changes. */
int
overlay_refresh(int context)
{
	return (int)syscall(SYS_fsconfig, context, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
}
