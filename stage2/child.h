/* What stage2's own children, template and spawner, have in common: orders over a socket pair, and no heap. */
#ifndef KODA_STAGE2_CHILD_H
#define KODA_STAGE2_CHILD_H

#include <stddef.h>

#define CHILD_FDS_MAX 3

/* Send one message with n descriptors, which stay the caller's. 0, or -1 with errno. */
int child_send(int sock, const void *data, size_t len, const int *fds, size_t n, int flags);

/* Receive one message of exactly this length with exactly n descriptors, which are the caller's. 0, or -1. */
int child_receive(int sock, void *data, size_t len, int *ret_fds, size_t n, int flags);

/* Call before anything is allocated. */
void child_heap_begins(void);

/* Unmap what has been allocated since: a child would keep its copy of each page that stage2 changes. After that nothing can
 * be allocated. */
void child_drop_heap(void);

#endif
