/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox needs of the kernel, tried in the order in which bubblewrap needs it: a user
 * namespace, capabilities in it, the other namespaces, a mount, and a /proc of its own. A kernel
 * setting, a security module or the seccomp filter of a container can refuse each of them, and the
 * first one that is refused names the cause.
 *
 * Tests: tests/integration/refused_test.c, tests/unit/remedy_test.c.
 */
#ifndef KODA_SHARED_CONFINE_USERNS_H
#define KODA_SHARED_CONFINE_USERNS_H

#include <stdbool.h>

enum userns_step {
	USERNS_ALL, /* nothing was refused */
	USERNS_USER,
	USERNS_CAPABILITY,
	USERNS_MOUNT_NS,
	USERNS_PID_NS,
	USERNS_NET_NS,
	USERNS_IPC_NS,
	USERNS_UTS_NS,
	USERNS_MOUNT,
	USERNS_PROC,
	/* Only where bubblewrap is tried: the program that it starts has no capability. */
	USERNS_KEPT,
};

/* The result as one process writes it for another: both are of one build. */
struct userns_outcome {
	enum userns_step step; /* what was refused first */
	int errnum;
	/* A seccomp filter refused it: it refuses also what the kernel answers with another error. */
	bool filtered;
};

/*
 * Changes this process for good, so call it in one that is thrown away. Uses system calls only, so
 * that the process may be a copy of one with threads.
 */
void userns_try(struct userns_outcome *ret);

/* Has this process, which bubblewrap started with CAP_SYS_ADMIN, kept it? Changes this
 * process for good, too. */
void userns_try_kept(struct userns_outcome *ret);

#endif
