/*
 * Opening what a path names and nothing that a link leads to: between the moment when a path was judged and this one, a
 * command may have put a link where a component of it was. These need openat2 (Linux 5.6).
 */
#ifndef KODA_SHARED_BASE_BENEATH_H
#define KODA_SHARED_BASE_BENEATH_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A descriptor that is closed on exec, or -1 with errno. resolve: RESOLVE_*. */
static inline int
open_resolved(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* The path has no link in it. With O_NOFOLLOW and O_PATH its last component may be one, which is then opened itself. */
static inline int
open_plain(int dir, const char *path, int flags)
{
	return open_resolved(dir, path, flags, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* The same, and it leads nowhere but below dir. */
static inline int
open_beneath(int dir, const char *path, int flags)
{
	return open_resolved(dir, path, flags,
	    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

#endif
