/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the host: orders in, reports out, over descriptor 3. A denial is in the socket
 * before the client is answered, so the host knows of it when the command ends. When the host ends,
 * this process ends.
 */
#ifndef KODA_PROXY_CONTROL_H
#define KODA_PROXY_CONTROL_H

#include "proto/proxy.pb-c.h"
#include "proxy/proxy.h"
#include "shared/wire/frame.h"

/* Limits of the queue to the host. Above CONGESTED the proxy accepts no new connections; above
 * QUEUE it takes the host for dead and ends. Existing connections can still add some reports
 * each. */
#define CONTROL_CONGESTED (256u << 10)
#define CONTROL_QUEUE_MAX (8u << 20)

/* Carries out the host's orders (proxy/orders). Everything that reports includes this header, so
 * control itself does not know the parts of the proxy that orders change. */
struct control_handler {
	/* Check EgressStart, and fill p with everything in it. */
	int (*start)(struct proxy *p, const Koda__EgressStart *start, bool *ret_intercept,
	    struct koda_error *err);
	/* Carry out an order to serve or drop a slot, or an answer. fd: the order's, which is taken;
	 * else -1. On an error the process ends. */
	int (*order)(struct proxy *p, const Koda__EgressOrder *order, int fd,
	    struct koda_error *err);
	/* Everything is sent: control_congested() has ended, if it was so. */
	void (*caught_up)(struct proxy *p);
};

/* Read EgressStart (blocking) and have it handled. The caller then confines the process and calls
 * control_ready(), which sends Ready and serves from the loop. ca_certificate: of the
 * interception; NULL: none. Takes fd on success. */
struct egress_control *control_new(struct proxy *p, int fd, const struct control_handler *handler,
    bool *ret_intercept, struct koda_error *err);
int control_ready(struct egress_control *c, unsigned landlock_abi, const char *ca_certificate,
    struct koda_error *err);
/* Report a failure on the descriptor itself, in place of Ready. */
void control_failed(int fd, const char *why);

/*
 * An account: one connection as reported to the host, from account_new() until account_end().
 * Accounts with `open` are reported again when the host asks about their slot (EgressSync).
 */
struct account {
	struct account *prev, *next;
	struct proxy *proxy;
	uint64_t id, slot;
	Koda__EgressKind kind;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
	uint64_t up, down; /* counted by the code that moves the bytes */
	uint64_t since;    /* us */
	bool open;
	char rule[64];
};
struct account *account_new(struct proxy *p, uint64_t slot, Koda__EgressKind kind, const char *host,
    unsigned port);
/* Report it as established. rule: why it was allowed. */
void account_open(struct account *r, const char *rule);
/* Report its end, and free it. rule NULL: the one it was opened with. Accepts NULL. */
void account_end(struct account *r, Koda__EgressOutcome outcome, const char *rule,
    const char *detail);

/* Queue the report, and send what can be sent. */
void control_report(struct proxy *p, const Koda__EgressReport *report);

/*
 * The socket may take no more for a while: then a denied client waits for its answer. `fn` is
 * called once everything is sent.
 */
typedef void flushed_fn(void *data);
struct flushed {
	struct flushed *prev, *next;
	flushed_fn *fn;
	void *data;
	bool waiting;
};
/* Try to send. True: everything is in the socket. */
bool control_flush(struct proxy *p);
void control_wait(struct proxy *p, struct flushed *f);
void control_forget(struct proxy *p, struct flushed *f);
/* Is the host far behind? Then the proxy accepts no new connections until it catches up
 * (listener_resume). */
bool control_congested(const struct proxy *p);

/* Have the host connect to the Unix socket of that entry of the policy's socket_map. fd -1:
 * errnum says why. */
typedef void socket_fn(void *data, int fd, int errnum);
struct want;
struct want *want_socket(struct proxy *p, const char *domain, socket_fn *fn, void *data);
void want_cancel(struct want *w);

#endif
