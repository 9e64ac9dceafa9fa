/*
 * The slot's koda-fs-worker, and its searches: in the same view as the commands, and in none of what confines them. They
 * confine themselves.
 *
 * They are started by a process of its own, the spawner: stage2 has a filter that knows neither fork nor exec, and what it
 * forked would inherit that. The spawner has no capability and parses nothing. Its children are stage2's.
 */
#ifndef KODA_STAGE2_WORKER_H
#define KODA_STAGE2_WORKER_H

#include "stage2/stage2.h"

struct spawner {
	pid_t pid;
	int fd;
};

/* Fork it, in the mount namespace that workers are to be in. NULL with *err set. */
struct spawner *spawner_new(struct koda_error *err);

/* Wait until it has dropped its capabilities. 0, or -1 with *err set. Two calls, so that the template is forked meanwhile. */
int spawner_ready(const struct spawner *sp, struct koda_error *err);

/* Start the program that program_fd is, with socket_fd as its descriptor 3. Both stay the caller's. 0 with *ret_pid and
 * *ret_pidfd, the caller's; -1 with errno, which is EPIPE if the spawner itself does not answer. */
int worker_start(const struct spawner *sp, int program_fd, int socket_fd, pid_t *ret_pid,
    int *ret_pidfd);

#endif
