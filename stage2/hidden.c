/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "shared/base/cleanup.h"
#include "stage2/mounts.h"
#include "stage2/restrict.h"

#define OWN_FILES 64 /* what hides places, and the private places themselves */

int
hidden_make(uint64_t bytes, int *ret_memory_fd, int *ret_hidden_fd, struct koda_error *err)
{
	cleanup_close int run = -1, koda = -1, at = -1, dir = -1, file = -1;
	int fs, hidden;

	*ret_memory_fd = *ret_hidden_fd = -1;
	run = resolve(AT_FDCWD, "/run");
	if (run >= 0 && mkdirat(run, "koda", 0755) < 0 && errno != EEXIST)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '/run/koda'");
	koda = run < 0 ? -1 : resolve(run, "koda");
	if (koda < 0 || (mkdirat(koda, "hidden", 0755) < 0 && errno != EEXIST) ||
	    (at = resolve(koda, "hidden")) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '%s'", HIDDEN_DIR);
	fs = *ret_memory_fd = mounts_tmpfs(bytes, bytes / HIDDEN_BYTES_PER_FILE + OWN_FILES,
	    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (fs < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make a file system in memory");
	if (attach(fs, at) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "mount '%s'", HIDDEN_DIR);
	if (mkdirat(fs, "hidden", 0755) < 0 ||
	    (dir = openat(fs, "hidden", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    mkdirat(dir, "directory", 0555) < 0 || fchmodat(dir, "directory", 0555, 0) < 0 ||
	    (file = openat(dir, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0)) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno,
		    "make the objects that hide places, in '%s'", HIDDEN_DIR);
	hidden = *ret_hidden_fd = sys_open_tree(fs, "hidden", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	/* Mount it on the root of the file system in memory, which no path leads to after that. */
	if (hidden < 0 || restrict_mount(hidden, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, 0) < 0 ||
	    attach(hidden, fs) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "mount '%s'", HIDDEN_DIR);
	return 0;
}

int
hidden_clone(int hidden_fd, bool directory)
{
	return sys_open_tree(hidden_fd, directory ? "directory" : "file",
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}
