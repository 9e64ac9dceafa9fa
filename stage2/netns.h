/*
 * The slot's one way out: a listening socket on the loopback of its network namespace. A socket belongs to the namespace
 * it was made in, so whoever it is passed to accepts here what was connected here; stage2 keeps no copy and looks at
 * no byte. Nothing else in the namespace leads anywhere.
 */
#ifndef KODA_STAGE2_NETNS_H
#define KODA_STAGE2_NETNS_H

#include "shared/base/err.h"

/*
 * Of connections that nobody has accepted yet: while no proxy is there (the first one starts it, after a death the next one
 * does) they wait in the kernel. As many as the kernel's own limit (net.core.somaxconn, the same in every new network
 * namespace) lets through, and as a proxy serves of one slot: beyond, a SYN is dropped and sent again.
 */
#define NETNS_BACKLOG 4096

/* On 127.0.0.1, non-blocking, the caller's. -1 with *err set, also when the loopback is not up. */
int netns_listen(unsigned port, struct koda_error *err);

#endif
