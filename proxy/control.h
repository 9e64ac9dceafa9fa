/*
 * The host: orders in, reports out, over descriptor 3. What was denied is in the socket before the client is answered, so
 * the host knows of it when the command ends. The host's end is ours.
 */
#ifndef KODA_PROXY_CONTROL_H
#define KODA_PROXY_CONTROL_H

#include "proto/proxy.pb-c.h"
#include "proxy/proxy.h"
#include "shared/wire/frame.h"

/* What can be held back for the host: beyond CONGESTED nobody new is accepted; beyond QUEUE the host is none. Those
 * who are there already can add some reports each. */
#define CONTROL_CONGESTED (256u << 10)
#define CONTROL_QUEUE_MAX (8u << 20)

/* Read and check EgressStart (blocking) and fill p, all that comes from it. The caller confines itself, and says so:
 * control_ready answers Ready and serves from the loop. fd is taken when it succeeds. */
struct control *control_new(struct proxy *p, int fd, bool *ret_intercept, struct koda_error *err);
int control_ready(struct control *c, unsigned landlock_abi, struct koda_error *err);
/* Instead of Ready, on the descriptor itself. */
void control_failed(int fd, const char *why);

/*
 * An account: one line of what the host is told. From account_new until account_end; `open` ones are told of when the
 * host asks about their slot (EgressSync).
 */
struct account {
	struct account *prev, *next;
	struct proxy *proxy;
	uint64_t id, slot;
	Koda__EgressKind kind;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
	uint64_t up, down; /* counted by who moves the bytes */
	uint64_t since;    /* us */
	bool open;
	char rule[64];
};
struct account *account_new(struct proxy *p, uint64_t slot, Koda__EgressKind kind, const char *host,
    unsigned port);
/* Established: reported. rule: why it was allowed. */
void account_open(struct account *r, const char *rule);
/* Over: reported, and freed. rule NULL: as it was opened. Accepts NULL. */
void account_end(struct account *r, Koda__EgressOutcome outcome, const char *rule,
    const char *detail);

/* Queue it, and send what can be sent. */
void control_report(struct proxy *p, const Koda__EgressReport *report);

/*
 * The socket may take no more for a while: then who was denied waits for his answer. `fn` once everything is out.
 */
typedef void flushed_fn(void *data);
struct flushed {
	struct flushed *prev, *next;
	flushed_fn *fn;
	void *data;
	bool waiting;
};
/* Try. True: everything is in the socket. */
bool control_flush(struct proxy *p);
void control_wait(struct proxy *p, struct flushed *f);
void control_forget(struct proxy *p, struct flushed *f);
/* The host is far behind: nobody new is accepted until it is not (listener_resume). */
bool control_congested(const struct proxy *p);

/* Have the host connect to the Unix socket of that entry of the policy's socket_map; fd -1: errnum says why. */
typedef void socket_fn(void *data, int fd, int errnum);
struct want;
struct want *want_socket(struct proxy *p, const char *domain, socket_fn *fn, void *data);
void want_cancel(struct want *w);

#endif
