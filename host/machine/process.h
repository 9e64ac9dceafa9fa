/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about a process of this machine, by its pid. A pid is reused after its
 * process has ended; pid and start time together name one process.
 */
#ifndef KODA_HOST_MACHINE_PROCESS_H
#define KODA_HOST_MACHINE_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* Returns the start time in clock ticks since boot; 0: there is no such process. */
uint64_t process_start_time(pid_t pid);
pid_t process_parent(pid_t pid); /* 0: unknown */

#endif
