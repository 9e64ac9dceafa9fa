/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that commands descend from: what confines all of them alike is set up once, here. It
 * has no capability, no_new_privs, its own session keyring, one Landlock domain (so that commands
 * of a slot may signal each other and no other process) and one seccomp filter, whose listener goes
 * to pid 1. Its only descriptor is its end of a socket pair.
 */
#ifndef KODA_STAGE2_TEMPLATE_H
#define KODA_STAGE2_TEMPLATE_H

#include "stage2/exec.h"

struct template
{
	pid_t pid;
	/* Orders go to the template; it sends back the number of a slot that could not be begun. */
	int fd;
	unsigned landlock_abi;
};

/* Start the template. writable are O_PATH descriptors that stay the caller's. The caller owns
 * *ret_listener. Returns NULL with *err set if any part of it failed. */
struct template *template_new(struct exec_slot *slots, const int *writable, size_t n,
    bool local_binding, int *ret_listener, struct koda_error *err);

/* Hand over a filled slot with its three descriptors. Returns 0, or -1 with errno. */
int template_exec(struct template *t, unsigned slot, const int fds[3]);

#endif
