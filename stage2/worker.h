/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the slot's koda-fs-worker and its searches. They are in the same view as the commands, but
 * under none of the commands' confinement: they confine themselves.
 *
 * They are started by a separate process, the spawner, because stage2 has a filter without fork and
 * exec, which its own children would inherit. The spawner has no capability and parses nothing. The
 * processes it starts are children of stage2.
 */
#ifndef KODA_STAGE2_WORKER_H
#define KODA_STAGE2_WORKER_H

#include "stage2/stage2.h"

struct spawner {
	pid_t pid;
	int fd;
};

/* Fork the spawner, in the mount namespace that workers are to be in. Returns NULL with *err set
 * on failure. */
struct spawner *spawner_new(struct koda_error *err);

/* Wait until the spawner has dropped its capabilities. Separate from spawner_new(), so that the
 * template is forked meanwhile. Returns 0, or -1 with *err set. */
int spawner_ready(const struct spawner *sp, struct koda_error *err);

/* Start the program that program_fd refers to, with socket_fd as its descriptor 3. Both stay the
 * caller's. Returns 0 with *ret_pid and *ret_pidfd, which the caller owns; -1 with errno, which
 * is EPIPE if the spawner itself does not answer. */
int worker_start(const struct spawner *sp, int program_fd, int socket_fd, pid_t *ret_pid,
    int *ret_pidfd);

#endif
