/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/received_fd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shared/base/cleanup.h"

static void
close_file(FILE **f)
{
	if (*f != NULL)
		fclose(*f);
}

static int
bad(struct koda_error *err, const char *what)
{
	return err_set(err, KODA_PROTOCOL, 0, "the worker's reply: %s", what);
}

static bool
is_type_of_others(const char *type)
{
	return strncmp(type, "fuse", 4) == 0 || strncmp(type, "virtiofs ", 9) == 0 ||
	    strncmp(type, "proc ", 5) == 0;
}

/*
 * No mount in the host's table has the file's device. Then either the slot's sandbox made the mount
 * for itself, or the file system gives its files devices of their own (btrfs, overlayfs). It is not
 * served by a program: such file systems exist in a sandbox only if the host passed them in, and
 * processes inside can make no mount. So fstatfs() waits for no program. A file without a link in a
 * directory (a memfd) was not found by a path.
 */
static bool
is_made_by_kernel(int fd, const struct statx *st)
{
	struct statfs fs;

	return (st->stx_mask & STATX_NLINK) != 0 && st->stx_nlink > 0 && fstatfs(fd, &fs) == 0 &&
	    ((unsigned long)fs.f_type == TMPFS_MAGIC ||
		(unsigned long)fs.f_type == OVERLAYFS_SUPER_MAGIC ||
		(unsigned long)fs.f_type == BTRFS_SUPER_MAGIC);
}

/*
 * Is the file served by a program (FUSE), or one of proc? Read from the mount table: asking the
 * file system itself would mean waiting for that program. The mounts of a worker that lives in a
 * sandbox are not in the host's table, but they have the same devices.
 */
static bool
is_served_by_others(int fd, const struct statx *st)
{
	cleanup(close_file) FILE *f = fopen("/proc/self/mountinfo", "re");
	cleanup_free char *line = NULL;
	bool known = false, others = false;
	char device[32];
	size_t size = 0;

	snprintf(device, sizeof(device), " %u:%u ", st->stx_dev_major, st->stx_dev_minor);
	while (f != NULL && getline(&line, &size, f) > 0) {
		const char *type = strstr(line, " - ");
		char *parent = strchr(line, ' ');

		if (type == NULL || parent == NULL)
			continue;
		if (strtoull(line, NULL, 10) == st->stx_mnt_id)
			return is_type_of_others(type + 3);
		/* The fields are: ID, parent's ID, device. */
		parent = strchr(parent + 1, ' ');
		if (parent == NULL || strncmp(parent, device, strlen(device)) != 0)
			continue;
		known = true;
		others = others || is_type_of_others(type + 3);
	}
	if (f == NULL || others)
		return true;
	return !known && !is_made_by_kernel(fd, st);
}

int
received_fd_check(int fd, uint64_t size, struct koda_error *err)
{
	struct statx st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 ||
	    statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		STATX_TYPE | STATX_SIZE | STATX_NLINK | STATX_MNT_ID, &st) < 0 ||
	    (st.stx_mask & STATX_MNT_ID) == 0)
		return bad(err, "its descriptor cannot be examined");
	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH) != 0)
		return bad(err, "its descriptor is not read-only");
	if (!S_ISREG(st.stx_mode))
		return bad(err, "its descriptor is not a regular file");
	if (is_served_by_others(fd, &st))
		return bad(err, "its descriptor is on FUSE or proc");
	if (st.stx_size != size)
		return err_set(err, KODA_CONFLICT, 0, "the file changed while it was opened");
	return 0;
}
