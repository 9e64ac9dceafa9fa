/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The talk with the user's own proxy over a connection to it: CONNECT, or SOCKS5 with its login.
 * Afterwards the connection leads to the target. Never reads a byte past the proxy's last answer:
 * what follows is the target's.
 */
#ifndef KODA_PROXY_REACH_UPSTREAM_TALK_H
#define KODA_PROXY_REACH_UPSTREAM_TALK_H

#include <ev.h>

#include "proxy/target.h"
#include "shared/rules/upstream.h"

/* fd leads to the target, and the callback owns it. -1: `why` says what the proxy did, as in "the
 * proxy HOST:PORT has closed the connection"; it is valid during the call. */
typedef void upstream_talk_fn(void *data, int fd, const char *why);
struct upstream_talk;
/* Start to talk over fd, which is taken in any case. via has to stay valid. It is over, and freed,
 * when it calls fn. NULL: no memory. */
struct upstream_talk *upstream_talk_start(struct ev_loop *loop, const struct upstream_proxy *via,
    const struct target *target, int fd, upstream_talk_fn *fn, void *data);
void upstream_talk_cancel(struct upstream_talk *t);

#endif
