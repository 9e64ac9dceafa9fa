/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every connect() of a command arrives here as a seccomp notification. stage2 copies the address
 * once, takes the socket with pidfd_getfd, and itself connects that copy of the descriptor to that
 * copy of the address: there is nothing left that another thread could swap. The caller's own
 * system call is never allowed to continue.
 *
 * IPv4, IPv6, netlink and abstract addresses are allowed: the slot's network namespace contains
 * nothing but the slot. For a path, the socket is opened with O_PATH as the caller sees it (its
 * root and working directory), must be bound in this network namespace (checked with unix_diag, by
 * device and inode), and is connected to through that descriptor. Everything else gets EPERM,
 * except in the slot's private directories: a socket there that is not bound is a leftover and gets
 * ECONNREFUSED. On file systems whose inodes cannot be identified by what unix_diag reports (btrfs,
 * overlayfs, large xfs, network file systems) no path counts as the slot's. A socket that came from
 * another network namespace, for example as standard input, is not connected at all. Before Linux
 * 5.14 the kernel does not say where a socket is from; there each socket that the host passes to a
 * command is remembered, because none comes in another way.
 *
 * The other side sees stage2 as its peer (SO_PEERCRED: the user is right, the process is 1).
 *
 * Never blocks the loop: a connection that is not established at once waits in a table of
 * CONNECT_PENDING_MAX entries. Nor does it keep the loop from more urgent work: in a slot with so
 * many sockets that finding one takes long, connections by path get EAGAIN most of the time.
 */
#ifndef KODA_STAGE2_CONNECT_H
#define KODA_STAGE2_CONNECT_H

#include "stage2/connect_wait.h"
#include "stage2/stage2.h"

/* Takes ownership of the listener, which the template's filter returned. */
struct connect_guard *connect_new(int listener_fd, struct koda_error *err);
int connect_fd(const struct connect_guard *g);
/* A command gets these descriptors from the host: remembers the sockets among them, where that is
 * needed. Without a guard (NULL) no connection is made. Returns 0, or -1 with errno set: the command
 * must not get them. */
int connect_given(struct connect_guard *g, const int *fds, size_t n);
/* Notifications have arrived: answers those that can be answered now. */
void connect_ready(struct stage2 *s);
/*
 * Reports how many refused connections have not been reported. Called before the end of a command
 * is reported.
 */
void connect_tell_untold(struct stage2 *s);
/*
 * Stores the descriptors to poll for waiting connections (at most max) and the time until the next
 * retry in ms (-1: none). Returns the number of descriptors.
 */
size_t connect_pending(const struct connect_guard *g, struct pollfd *ret, size_t max,
    int *ret_timeout_ms);
void connect_progress(struct stage2 *s, const struct pollfd *fds, size_t n);

#endif
