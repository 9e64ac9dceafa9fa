/*
 * A client, from accept until it is handed on: first byte, head (or SOCKS greeting and request),
 * gate, answer; then tunnel or forward. Limits: PROXY_HEAD_MAX, PROXY_HEAD_SECS, PROXY_CONNS_MAX.
 */
#ifndef KODA_PROXY_ACCEPT_CONN_H
#define KODA_PROXY_ACCEPT_CONN_H

#include "proxy/gate.h"

/* Start accepting on fd, which it takes. NULL: no memory; fd is closed. */
struct listener *listener_new(struct proxy *p, uint64_t slot, int fd);
/* Free the listener and close each of its connections. */
void listener_free(struct listener *l);
/* Accept again: the host has caught up (control_congested). */
void listener_resume(struct listener *l);
struct listener *listener_find(const struct proxy *p, uint64_t slot);

#endif
