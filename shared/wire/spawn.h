/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a helper: exec of an absolute path with exactly the given descriptors, an empty
 * environment, its own session (so that Ctrl-C at the terminal does not reach it), an empty signal
 * mask, and standard descriptors on /dev/null. Never a bare fork: the embedder may have threads.
 */
#ifndef KODA_SHARED_WIRE_SPAWN_H
#define KODA_SHARED_WIRE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "shared/base/err.h"

struct child {
	pid_t pid; /* for display only: everything else uses pidfd */
	int pidfd;
	/* From waitid(), once the child is gone. code 0: another part of the process reaped it. */
	int code, status;
};

/*
 * Starts a helper with its name as the only argument. fd becomes descriptor 3 of the child and
 * stays the caller's.
 */
int spawn_helper(const char *path, int fd, struct child *ret, struct koda_error *err);

/* For one child: each writable directory of a policy is one. */
#define SPAWN_FDS_MAX 4096

/*
 * Like spawn_helper(), with arguments: fds[i] becomes descriptor 3 + i, and stderr_fd becomes
 * descriptor 2 unless it is -1.
 */
int spawn_program(const char *path, char *const argv[], const int *fds, size_t n_fds, int stderr_fd,
    struct child *ret, struct koda_error *err);

void child_kill(const struct child *c);

/*
 * Returns whether the child is gone, and reaps it if so. timeout_ms -1 waits without limit. It is
 * not an error if the embedder reaped the child first.
 */
bool child_gone(struct child *c, int timeout_ms);

/*
 * How the child ended, for a message: "killed by SIGSYS", "exited with 1". Call it after
 * child_gone(). Returns a static string or buf.
 */
const char *child_end(const struct child *c, char *buf, size_t size);

#endif
