/*
 * What a process does to itself, mechanism only: no_new_privs, non-dumpable, rlimits, Landlock,
 * seccomp. Raw system calls and constants of our own: Debian 12's headers lack the newer rights, and
 * nothing may compile enforcement away. Which rights and which filter is the caller's decision.
 */
#ifndef KODA_SHARED_LOCKDOWN_H
#define KODA_SHARED_LOCKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

struct sock_filter;

#define LOCKDOWN_ABI_FULL 3 /* truncate and refer are covered from here on */

/* The kernel's Landlock ABI, 0 when there is none. */
unsigned lockdown_landlock_abi(void);

/* no_new_privs and, with it, non-dumpable and no core. */
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

/* Has this kernel filters that can kill a process? Installs nothing. */
bool lockdown_seccomp_available(void);

/* Install a prebuilt filter. */
int lockdown_seccomp(const struct sock_filter *filter, size_t n, struct koda_error *err);

#endif
