/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect(), by stage2, of a descriptor that a caller has as well: it never waits, whatever the
 * caller's other threads do to the open file meanwhile.
 */
#ifndef KODA_STAGE2_CONNECT_CALL_H
#define KODA_STAGE2_CONNECT_CALL_H

#include <stdbool.h>
#include <sys/socket.h>

/* Prepares the timer's signal. Call it once. Returns 0, or -1 with errno. */
int connect_call_init(void);

/*
 * Calls connect() without waiting. Whether it may block depends on the open file, which is the
 * caller's too: O_NONBLOCK is set for the call and then removed. Another thread of the caller could
 * remove it during the call, so a timer interrupts the call. Datagram sockets never wait. `flags`:
 * those of the open file. Returns 0 or -errno.
 */
int connect_call(int fd, int type, int flags, const struct sockaddr_storage *addr, socklen_t len);

/* Must a blocking caller wait after that result? */
bool connect_call_has_to_wait(int domain, int r);

#endif
