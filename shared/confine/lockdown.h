/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process confines itself: no_new_privs, non-dumpable, rlimits, Landlock, seccomp. This is
 * mechanism only; the caller decides which rights and which filter. It uses raw system calls and
 * its own constants: Debian 12's headers lack the newer rights, and an old header must not compile
 * enforcement away.
 */
#ifndef KODA_SHARED_CONFINE_LOCKDOWN_H
#define KODA_SHARED_CONFINE_LOCKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct sock_filter;

/*
 * RLIMIT_CORE of every confined process. With 0 the kernel still starts the host's handler, outside
 * every sandbox, if kernel.core_pattern is a pipe, as with systemd-coredump and apport. With 1 it
 * does not (core(5)), and 1 byte is too little for a core file.
 */
#define LOCKDOWN_CORE_LIMIT 1

/* Returns the kernel's Landlock ABI, or 0 if there is none. */
unsigned lockdown_landlock_abi(void);

/* Set no_new_privs, become non-dumpable, and set LOCKDOWN_CORE_LIMIT. */
int lockdown_process(struct koda_error *err);

struct lockdown_limit {
	int resource;
	uint64_t value;
};
/* Only lowers limits: a limit that is already lower stays. */
int lockdown_limits(const struct lockdown_limit *limits, size_t n, struct koda_error *err);

/*
 * Allow reading anywhere and changes only below the directories in `writable` (O_PATH descriptors
 * that stay the caller's); no execution, no TCP, no signals to other domains and no abstract
 * sockets of theirs. Each of these applies as far as `abi` supports it. *ret_abi is the ABI that
 * was enforced, 0 if the kernel has no Landlock.
 */
int lockdown_landlock(const int *writable, size_t n, unsigned abi, unsigned *ret_abi,
    struct koda_error *err);

/* Does a domain of this ABI refuse every rename and link from one directory to another, allowed ones
 * included? */
bool lockdown_refuses_moves(unsigned abi);

/* What lockdown_landlock_allowing() permits in addition. */
#define LOCKDOWN_EXECUTE (1u << 0) /* programs, anywhere */
/* Below `writable`: sockets, FIFOs, and ioctl of devices. */
#define LOCKDOWN_SPECIAL     (1u << 1)
#define LOCKDOWN_TCP_CONNECT (1u << 2)
#define LOCKDOWN_TCP_BIND    (1u << 3)
/* Truncating files, for a process whose filter has no system call that does it. If Landlock
 * handles a right that no rule grants, the kernel walks up to the root directory for each file
 * that is opened, which is a sixth of the cost of a search. */
#define LOCKDOWN_TRUNCATE (1u << 4)

/* Like lockdown_landlock(), with the rights in `allow` as well. A descriptor in `writable` may
 * then refer to a file. */
int lockdown_landlock_allowing(unsigned allow, const int *writable, size_t n, unsigned abi,
    unsigned *ret_abi, struct koda_error *err);

/*
 * For a process that already has its own files open: allow reading only below `readable`
 * (directories or files, O_PATH descriptors that stay the caller's), no changes and no execution.
 * `allow` decides about TCP and truncating; the rest is as above.
 */
int lockdown_landlock_reading(unsigned allow, const int *readable, size_t n, unsigned abi,
    unsigned *ret_abi, struct koda_error *err);

/*
 * For a process on a kernel without Landlock that only reads, and that no sandbox is around: leave
 * the host's mounts for a mount namespace that has nothing in it but the places `paths` (canonical,
 * directories or files; those that do not exist are left out). Makes a user namespace too, so the
 * process may have one thread only, comes before lockdown_process(), and keeps capabilities for lockdown_capabilities() to drop.
 * Descriptors of directories that were opened before lead around it.
 */
int lockdown_view(const char *const *paths, size_t n, struct koda_error *err);

/* Drop all capabilities, including those that an exec would give back (with no_new_privs). */
int lockdown_capabilities(struct koda_error *err);

/*
 * For a program that confines itself soon after it was started beside commands of the same user:
 * until then it is dumpable, and a command that no Landlock keeps from it could trace it. So it is
 * started with one capability that no command has, which the kernel requires of a process that looks into it:
 * CAP_SYS_PTRACE of its user namespace. lockdown_guard() drops all others, and leaves this one to
 * the programs that the caller starts; lockdown_unguard() drops it, after lockdown_process(). It
 * does nothing in a program that was started without.
 */
int lockdown_guard(struct koda_error *err);
int lockdown_unguard(struct koda_error *err);

/* Replace the inherited session keyring by a new, empty one. A kernel without keys has none to
 * inherit. */
int lockdown_keyring(struct koda_error *err);

/* Returns true if this kernel has filters that can kill a process. Installs nothing. */
bool lockdown_seccomp_available(void);

/* Returns 0 if a filter with a listener can be installed here, or the errno. Installs one, so call
 * it in a process that is thrown away; uses only system calls. */
int lockdown_listener_try(void);
/*
 * For a process that may change files where Landlock does not know truncation: install a filter
 * without openat2, which gets ENOSYS, and without truncation by openat, which kills. Without it,
 * opening a file for reading could empty it. Returns 1 if `abi`, that of the process's domain,
 * needs it, 0 if not, -1 with *err set.
 */
int lockdown_no_truncation(unsigned abi, struct koda_error *err);

/* Install a prebuilt filter. */
int lockdown_seccomp(const struct sock_filter *filter, size_t n, struct koda_error *err);
/* Install a prebuilt filter with notifications. *ret is the listener, close-on-exec. If the
 * kernel supports it, only a fatal signal interrupts a thread that waits for an answer once its
 * notification was read. */
int lockdown_seccomp_listening(const struct sock_filter *filter, size_t n, int *ret,
    struct koda_error *err);

#endif
