/*
 * Makes mounts read-only, by descriptor: mount_setattr() (Linux 5.12), or before that mount(), which
 * can only do so with a mount that is attached. A mount that is attached nowhere yet is then first
 * attached to a place of its own, to which no path leads, and moves from there to where it belongs.
 */
#ifndef KODA_STAGE2_RESTRICT_H
#define KODA_STAGE2_RESTRICT_H

#include <stdint.h>

/*
 * Sets these attributes (MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOEXEC) of the mount, whose root mount_fd
 * refers to. recursive: 0, or AT_RECURSIVE for the mounts below it, too. Call it once before there
 * are commands: it makes the place then. Returns 0, or -1 with errno.
 */
int restrict_mount(int mount_fd, uint64_t attributes, unsigned recursive);

#endif
