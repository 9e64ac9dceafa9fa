/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open what a path names without following links: after a path was judged, a command may have
 * replaced one of its components with a link. All but the last function need openat2 (Linux 5.6).
 */
#ifndef KODA_SHARED_BASE_BENEATH_H
#define KODA_SHARED_BASE_BENEATH_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Opens path below dir with the RESOLVE_* flags in `resolve`. Returns a close-on-exec descriptor,
 * which the caller owns, or -1 with errno.
 */
static inline int
open_resolved(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/*
 * Like open_resolved(), but fails if the path contains a link. With O_NOFOLLOW and O_PATH the last
 * component may be a link, which is then opened itself.
 */
static inline int
open_plain(int dir, const char *path, int flags)
{
	return open_resolved(dir, path, flags, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Like open_plain(), but the path must stay below dir. */
static inline int
open_beneath(int dir, const char *path, int flags)
{
	return open_resolved(dir, path, flags,
	    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/*
 * Like open_beneath(), one component after the other, for where openat2 is missing or not allowed.
 * Slower, and not one moment: what is moved away meanwhile is followed to where it is then. path is
 * relative to dir and has neither "." nor ".." in it (EINVAL).
 */
int open_walked(int dir, const char *path, int flags);

#endif
