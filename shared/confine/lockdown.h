/*
 * What a process does to itself, mechanism only: no_new_privs, non-dumpable, rlimits, Landlock,
 * seccomp. Raw system calls and constants of our own: Debian 12's headers lack the newer rights, and
 * nothing may compile enforcement away. Which rights and which filter is the caller's decision.
 */
#ifndef KODA_SHARED_CONFINE_LOCKDOWN_H
#define KODA_SHARED_CONFINE_LOCKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct sock_filter;

#define LOCKDOWN_ABI_FULL 3 /* truncate and refer are covered from here on */

/*
 * RLIMIT_CORE of every confined process. With 0 the kernel still starts the host's handler, outside every sandbox, when
 * kernel.core_pattern is a pipe, as with systemd-coredump and apport; with 1 it does not (core(5)), and 1 byte is too
 * little for a core file.
 */
#define LOCKDOWN_CORE_LIMIT 1

/* The kernel's Landlock ABI, 0 when there is none. */
unsigned lockdown_landlock_abi(void);

/* Set no_new_privs, become non-dumpable, and set LOCKDOWN_CORE_LIMIT. */
int lockdown_process(struct koda_error *err);

struct lockdown_limit {
	int resource;
	uint64_t value;
};
/* Lowers only: a limit that is already lower stays. */
int lockdown_limits(const struct lockdown_limit *limits, size_t n, struct koda_error *err);

/*
 * Confine to: reading anywhere, nothing executed, changes only below the directories in `writable`
 * (O_PATH descriptors, still the caller's), no TCP, no signals to and no abstract sockets of other
 * domains: each as far as `abi` has it. *ret_abi is what was enforced, 0 if the kernel has no Landlock.
 */
int lockdown_landlock(const int *writable, size_t n, unsigned abi, unsigned *ret_abi,
    struct koda_error *err);

/* What lockdown_landlock_allowing lets be done all the same. */
#define LOCKDOWN_EXECUTE     (1u << 0) /* programs, anywhere */
#define LOCKDOWN_SPECIAL     (1u << 1) /* below `writable`: sockets, FIFOs, and ioctl of devices */
#define LOCKDOWN_TCP_CONNECT (1u << 2)
#define LOCKDOWN_TCP_BIND    (1u << 3)
/* Emptying files, for who has a filter that lets no system call through which does that: a right that nothing grants makes
 * the kernel go up to the root directory for each file that is opened, a sixth of what a search costs. */
#define LOCKDOWN_TRUNCATE (1u << 4)

/* The same for more than a worker does. A descriptor in `writable` may be one of a file then. */
int lockdown_landlock_allowing(unsigned allow, const int *writable, size_t n, unsigned abi,
    unsigned *ret_abi, struct koda_error *err);

/*
 * The other way round, for a process that has its own files open: reading below `readable` only (directories or files, O_PATH
 * descriptors, still the caller's), nothing changed, nothing executed; TCP and emptying as `allow` says, and the rest as above.
 */
int lockdown_landlock_reading(unsigned allow, const int *readable, size_t n, unsigned abi,
    unsigned *ret_abi, struct koda_error *err);

/* No capability, and none that an exec would give back (with no_new_privs). */
int lockdown_capabilities(struct koda_error *err);

/* A new, empty session keyring instead of the one that was inherited. A kernel without keys has none to inherit. */
int lockdown_keyring(struct koda_error *err);

/* Has this kernel filters that can kill a process? Installs nothing. */
bool lockdown_seccomp_available(void);

/* Install a prebuilt filter. */
int lockdown_seccomp(const struct sock_filter *filter, size_t n, struct koda_error *err);
/* One that asks: *ret is the listener, close-on-exec. Where the kernel can, only a fatal signal interrupts who waits
 * for an answer once it was read. */
int lockdown_seccomp_listening(const struct sock_filter *filter, size_t n, int *ret,
    struct koda_error *err);

#endif
