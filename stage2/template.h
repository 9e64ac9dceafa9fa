/*
 * The process that commands descend from: what confines all of them alike is put on once, here. It has no capability,
 * no_new_privs, a session keyring of its own, one Landlock domain (so that commands of a slot may signal each other and
 * nobody else) and one seccomp filter, whose listener goes to pid 1. Its only descriptor is its end of a socket pair.
 */
#ifndef KODA_STAGE2_TEMPLATE_H
#define KODA_STAGE2_TEMPLATE_H

#include "stage2/exec.h"

struct template
{
	pid_t pid;
	int fd; /* orders to it; the number of a slot comes back when it could not be begun */
	unsigned landlock_abi;
};

/* writable: O_PATH, still the caller's. *ret_listener is the caller's. NULL with *err set when any of it did not work. */
struct template *template_new(struct exec_slot *slots, const int *writable, size_t n,
    bool local_binding, int *ret_listener, struct koda_error *err);

/* Hand over a filled slot with its three descriptors. 0, or -1 with errno set. */
int template_exec(struct template *t, unsigned slot, const int fds[3]);

#endif
