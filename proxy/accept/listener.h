/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket on which a slot's connections arrive. Accepts them in bursts that leave other clients
 * their turn, and not while the host is behind or descriptors are short. What a connection wants is
 * conn's business.
 */
#ifndef KODA_PROXY_ACCEPT_LISTENER_H
#define KODA_PROXY_ACCEPT_LISTENER_H

#include "proxy/proxy.h"

/* Start accepting on fd, which it takes. NULL: no memory; fd is closed. */
struct listener *listener_new(struct proxy *p, uint64_t slot, Koda__EgressConsentFor consent_for,
    int fd);
/* Free the listener and close each of its connections. */
void listener_free(struct listener *l);
/* Accept again: the host has caught up (control_congested). */
void listener_resume(struct listener *l);
struct listener *listener_find(const struct proxy *p, uint64_t slot);

#endif
