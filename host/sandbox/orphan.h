/*
 * Who holds the other end of a socket of ours, and nobody waits for: bwrap's own child, when bwrap was killed before it had
 * let that go on. It waits for a word that never comes, and the end of its socket is none to it.
 */
#ifndef KODA_HOST_SANDBOX_ORPHAN_H
#define KODA_HOST_SANDBOX_ORPHAN_H

#include <sys/types.h>

/* End every process that has the socket of that inode as its descriptor fd. Returns how many. */
unsigned orphan_end(ino_t socket, int fd);

#endif
