/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by stage2's own children, template and spawner: orders over a socket pair, and no heap. */
#ifndef KODA_STAGE2_CHILD_H
#define KODA_STAGE2_CHILD_H

#include <stddef.h>

#define CHILD_FDS_MAX 3

/* Sends one message with n descriptors, which stay the caller's. Returns 0, or -1 with errno. */
int child_send(int sock, const void *data, size_t len, const int *fds, size_t n, int flags);

/*
 * Receives one message of exactly this length with exactly n descriptors, which the caller then
 * owns. Returns 0 or -1.
 */
int child_receive(int sock, void *data, size_t len, int *ret_fds, size_t n, int flags);

/* Call it before stage2 allocates anything. */
void child_heap_begins(void);

/*
 * Unmaps what has been allocated since child_heap_begins(): otherwise a child would keep its own
 * copy of each page that stage2 changes. Afterwards nothing can be allocated.
 */
void child_drop_heap(void);

#endif
