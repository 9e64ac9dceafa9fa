/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine can do, found by trying: a feature that the kernel version promises may be
 * blocked by a container, a sysctl or a filter. What would change this process is tried in a child
 * process that is thrown away. What a sandbox needs of namespaces is in host/sandbox/trial.h.
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
	bool mount_setattr;
	/* Why no filter with a listener could be installed; 0: one could. */
	int notify_errnum;
};

/* Uses only system calls without lasting effect on this process. */
void caps_probe(struct caps *ret);

#endif
