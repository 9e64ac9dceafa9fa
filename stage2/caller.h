/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access by thread number to a thread that waits for the answer to a seccomp notification. The
 * number belongs to that thread as long as its notification is valid: call caller_waits() after
 * taking something from the thread and before using it.
 */
#ifndef KODA_STAGE2_CALLER_H
#define KODA_STAGE2_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CALLER_STATUS_SIZE 4096 /* of /proc/TID/status */

/* Reads /proc/TID/status into ret, with a NUL at the end. Returns false if it cannot be read. */
bool caller_status(pid_t tid, char *ret, size_t size);
/*
 * Returns the number in the field of that name, or 0 if there is no such field. The process cannot
 * fake one: its name, the first field, has newlines escaped.
 */
uint64_t caller_status_field(const char *text, const char *name, int base);
/* Returns the process of the thread, or -1 if the thread is gone. */
pid_t caller_process(pid_t tid);
/* Opens a pidfd, for pidfd_getfd() on the thread's descriptors. Returns -errno on failure. */
int caller_open(pid_t tid);
/* Opens the thread's working directory (O_PATH). Returns -1 with errno on failure. */
int caller_cwd(pid_t tid);

bool caller_waits(int listener, uint64_t id);
/* Answers the notification. error: 0, or -errno. Returns false if the thread does not wait any more:
 * it was killed, or, before Linux 5.19, a signal interrupted it, after which it asks again. */
bool caller_answer(int listener, uint64_t id, int error);

#endif
