/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends processes that hold the other end of one of the host's sockets and that nothing else would
 * end: bwrap's own child, if bwrap was killed before it let the child go on. That child waits for
 * bwrap's go-ahead, which never comes, and does not notice that its socket is closed.
 */
#ifndef KODA_HOST_SANDBOX_ORPHAN_H
#define KODA_HOST_SANDBOX_ORPHAN_H

#include <sys/types.h>

/* Kill every process that has the socket with that inode as its descriptor fd. Returns how many. */
unsigned orphan_end(ino_t socket, int fd);

#endif
