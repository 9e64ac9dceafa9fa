/*
 * Start a helper: exec of an absolute path with exactly the descriptors it is given, an empty
 * environment, a session of its own (a Ctrl-C at the terminal is not for it), an empty signal mask,
 * and standard descriptors on /dev/null. Never a bare fork: the embedder may have threads.
 */
#ifndef KODA_SHARED_WIRE_SPAWN_H
#define KODA_SHARED_WIRE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "shared/base/err.h"

struct child {
	pid_t pid; /* for display only: everything else goes by pidfd */
	int pidfd;
	int code, status; /* of waitid, once it is gone; code 0: somebody else reaped it */
};

/* fd becomes descriptor 3 of the child and stays the caller's. argv0 is all of argv. */
int spawn_helper(const char *path, int fd, struct child *ret, struct koda_error *err);

#define SPAWN_FDS_MAX 4096 /* of one child: each writable directory of a policy is one */

/* The same with arguments: fds[i] becomes descriptor 3 + i, and fd 2 is stderr_fd unless that is -1. */
int spawn_program(const char *path, char *const argv[], const int *fds, size_t n_fds, int stderr_fd,
    struct child *ret, struct koda_error *err);

void child_kill(const struct child *c);

/* Is it gone? Reaps it if so. timeout_ms -1 waits. An embedder that reaped it first is no error. */
bool child_gone(struct child *c, int timeout_ms);

/* What ended it, for a message: "killed by SIGSYS", "exited with 1". After child_gone. Static or in buf. */
const char *child_end(const struct child *c, char *buf, size_t size);

#endif
