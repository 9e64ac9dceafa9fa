/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slot's only way out: a listening socket on the loopback interface of its network namespace. A
 * socket belongs to the namespace it was made in, so the process that receives this one accepts
 * connections made here. stage2 keeps no copy and reads none of the traffic. Nothing else in the
 * namespace leads anywhere.
 */
#ifndef KODA_STAGE2_NETNS_H
#define KODA_STAGE2_NETNS_H

#include "shared/base/err.h"

/*
 * Connections that wait in the kernel until a proxy accepts them: the first connection starts the
 * proxy, and the next one after its death starts it again. 4096 is what the kernel allows
 * (net.core.somaxconn, the same in every new network namespace) and how many connections a proxy
 * serves for one slot. Beyond that the kernel drops a SYN, and the client sends it again.
 */
#define NETNS_BACKLOG 4096

/* Listen on 127.0.0.1. Returns a non-blocking socket that the caller owns, or -1 with *err set,
 * also when the loopback interface is down. */
int netns_listen(unsigned port, struct koda_error *err);

#endif
