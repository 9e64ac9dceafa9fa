/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes mounts read-only, by descriptor: mount_setattr() (Linux 5.12), or before that mount(), which
 * can only do so with a mount that is attached. A mount that is attached nowhere yet is then first
 * attached to a place of its own, to which no path leads, and moves from there to where it belongs.
 */
#ifndef KODA_STAGE2_RESTRICT_H
#define KODA_STAGE2_RESTRICT_H

#include <stdint.h>
#include <unistd.h>

#include "stage2/mounts.h"

/*
 * Sets these attributes (MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOEXEC) of the mount, whose root mount_fd
 * refers to. recursive: 0, or AT_RECURSIVE for the mounts below it, too. Call it once before there
 * are commands: it makes the place then. Returns 0, or -1 with errno.
 */
int restrict_mount(int mount_fd, uint64_t attributes, unsigned recursive);

static inline int
make_read_only(int mount_fd, unsigned recursive)
{
	return restrict_mount(mount_fd, MOUNT_ATTR_RDONLY, recursive);
}

/* Like clone_mount(), but read-only. */
static inline int
clone_read_only(int fd)
{
	int mnt = clone_mount(fd);

	if (mnt >= 0 && make_read_only(mnt, AT_RECURSIVE) < 0) {
		close(mnt);
		mnt = -1;
	}
	return mnt;
}

#endif
