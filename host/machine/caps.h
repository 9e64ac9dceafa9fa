/*
 * What this machine can do, found by trying, each time in a child process that is thrown away: a
 * feature that is there by its version number may be hidden by a container, a sysctl or a filter.
 */
#ifndef KODA_HOST_MACHINE_CAPS_H
#define KODA_HOST_MACHINE_CAPS_H

#include "include/koda/sandbox.h"

struct caps {
	bool openat2;
	unsigned landlock_abi;
	bool seccomp;
	bool pidfd;
	bool memfd_seals;
	bool proc;
	bool seccomp_notify;
	const char *namespace; /* the one that could not be made, NULL: all can */
	int namespace_errnum;
};

/* By system calls without lasting effect on this process. */
void caps_probe(struct caps *ret);

/* The kernel sandbox does not start: what this machine lacks for it, and the one command that helps. */
void caps_sandbox_remedy(char *ret, size_t size);

#endif
