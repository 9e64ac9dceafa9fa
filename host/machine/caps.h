/*
 * What this machine can do, found by trying: a feature that the kernel version promises may be
 * blocked by a container, a sysctl or a filter. What would change this process is tried in a child
 * process that is thrown away.
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
	bool mount_setattr;
	/* The kind of namespace that could not be created; NULL: all can. */
	const char *namespace;
	int namespace_errnum;
};

/* Uses only system calls without lasting effect on this process. */
void caps_probe(struct caps *ret);

/* For when the kernel sandbox does not start. Writes to ret what this machine lacks for it, and the
 * one command that helps. */
void caps_sandbox_remedy(char *ret, size_t size);

#endif
