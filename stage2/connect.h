/*
 * Every connect() of a command arrives here as a seccomp notification. The address is copied once, the socket is taken
 * by pidfd_getfd, and it is we who connect, on the copy of the descriptor with the copy of the address: there is nothing
 * left for another thread to swap. The caller is never told to go on by itself.
 *
 * IPv4, IPv6, netlink and abstract addresses: the slot's network namespace holds nothing but the slot. A path: its
 * socket is opened O_PATH as the caller sees it (its root and working directory), has to be bound in this network
 * namespace (unix_diag, by device and inode), and is connected to through that descriptor. Anything else is EPERM,
 * but in the slot's private directories, where what is not bound has been left over: ECONNREFUSED. On file systems whose
 * inodes cannot be told apart by what unix_diag says (btrfs, overlayfs, large xfs, network ones) no path is one of ours.
 * A socket that came from another network namespace, as standard input may, is not connected at all.
 *
 * The other side sees us as its peer (SO_PEERCRED: the user is right, the process is 1).
 *
 * Never blocks the loop: a connection that is not there at once waits in a table of CONNECT_PENDING_MAX. And does not keep it
 * from what is more urgent: in a slot with so many sockets that one is not found quickly, by path there is only EAGAIN for
 * most of the time.
 */
#ifndef KODA_STAGE2_CONNECT_H
#define KODA_STAGE2_CONNECT_H

#include "stage2/stage2.h"

#define CONNECT_PENDING_MAX 512 /* beyond: EAGAIN to the caller */

/* Takes the listener that the template's filter gave. */
struct connect_guard *connect_new(int listener_fd, struct koda_error *err);
int connect_fd(const struct connect_guard *g);
/* A notification, or several: answer what can be answered. */
void connect_ready(struct stage2 *s);
/* Before the end of a command is told: how many connections were refused that have not been. */
void connect_tell_untold(struct stage2 *s);
/* What waits: descriptors for poll (at most max), and the time until the next retry in ms (-1: none). */
struct pollfd;
size_t connect_pending(const struct connect_guard *g, struct pollfd *ret, size_t max,
    int *ret_timeout_ms);
void connect_progress(struct stage2 *s, const struct pollfd *fds, size_t n);

#endif
