/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client, from accept until it is handed on: first byte, head (or SOCKS greeting and request),
 * gate, answer; then tunnel or forward. Limits: PROXY_HEAD_MAX, PROXY_HEAD_SECS, PROXY_CONNS_MAX.
 */
#ifndef KODA_PROXY_ACCEPT_CONN_H
#define KODA_PROXY_ACCEPT_CONN_H

#include "proxy/proxy.h"

struct conn;
/* Start to serve a client of l. Takes fd. The conn is in l->conns, and frees itself at its end. */
void conn_start(struct listener *l, int fd);
/* End it at once, whatever it does. */
void conn_free(struct conn *c);

#endif
