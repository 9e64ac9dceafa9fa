/* The slot's koda-fs-worker: in the same view as the commands, and in none of what confines them. It confines itself. */
#ifndef KODA_STAGE2_WORKER_H
#define KODA_STAGE2_WORKER_H

#include "stage2/stage2.h"

/* Start the program that program_fd is, with socket_fd as its descriptor 3. Both stay the caller's. 0 with *ret_pid and
 * *ret_pidfd, the caller's; -1 with errno. */
int worker_start(int program_fd, int socket_fd, pid_t *ret_pid, int *ret_pidfd);

#endif
