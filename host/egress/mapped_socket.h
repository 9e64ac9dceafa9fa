/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets on this host that a policy maps names to. The host connects, so that the proxy needs
 * no access to them.
 */
#ifndef KODA_HOST_EGRESS_MAPPED_SOCKET_H
#define KODA_HOST_EGRESS_MAPPED_SOCKET_H

/* Connect without waiting. The caller owns the descriptor; -1 with errno. */
int mapped_socket_connect(const char *path);

#endif
