/*
 * What is taken from a thread that waits for the answer to a seccomp notification, by its number. The number belongs to
 * that thread as long as its notification is valid: caller_waits() has to be asked after what was taken, and before it
 * is used.
 */
#ifndef KODA_STAGE2_CALLER_H
#define KODA_STAGE2_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CALLER_STATUS_SIZE 4096 /* of /proc/TID/status */

/* Of /proc/TID/status, with a NUL at the end. */
bool caller_status(pid_t tid, char *ret, size_t size);
/* 0 if there is none of that name. The process's own name comes first, and has its newlines escaped. */
uint64_t caller_status_field(const char *text, const char *name, int base);
/* Of which process is that thread? -1 when it is gone. */
pid_t caller_process(pid_t tid);
/* A descriptor through which the descriptors of that thread can be had, or -errno. */
int caller_open(pid_t tid);
/* Its working directory (O_PATH), or -1 with errno. */
int caller_cwd(pid_t tid);

bool caller_waits(int listener, uint64_t id);
/* error: 0, or -errno. A caller that was killed is not told. */
void caller_answer(int listener, uint64_t id, int error);

#endif
