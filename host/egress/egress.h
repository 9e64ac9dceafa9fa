/*
 * The host's side of egress: which koda-egress-proxy serves which slots. There is one proxy for
 * each distinct policy of a session. It is started when the first connection waits on a slot's
 * listening socket (a command that needs no network costs nothing). After a death it is started
 * again by the next connection; until then connections queue in the kernel. It ends with the last
 * slot of its policy. The host keeps each listening socket, never accepts, and parses nothing that
 * a client sent.
 *
 * When the session intercepts, the proxy is started before the first slot of its policy is: the
 * certificate of its CA is part of the view.
 *
 * egress_report.c takes in a proxy's reports and checks them like a worker's reply; a proxy that
 * sends an invalid one is killed. Refusals become violations of their slot at once. Apart from
 * events (session_event) and the callbacks of koda_slot_connections() and
 * koda_slot_new_connections(), only egress_tick() calls the embedder.
 */
#ifndef KODA_HOST_EGRESS_EGRESS_H
#define KODA_HOST_EGRESS_EGRESS_H

#include "host/session/session.h"
#include "shared/rules/domain.h"

/* From spawn to Ready; normally 10, on a loaded machine a hundred times that. */
#define EGRESS_READY_MS 5000
/* Limit of deaths in a row before Ready, or because of an invalid report, with no useful report
 * in between. Then the session has no network any more, and an event reports that. */
#define EGRESS_BARREN_MAX 5
/* The delay before a restart, from the second death in a row without a useful report; four times
 * as long with each further one, up to EGRESS_BARREN_MAX deaths. What kills the proxy at once,
 * again and again, must not cost a processor. */
#define EGRESS_BACKOFF_MS 10
/* How long the host waits for a proxy's answer, or for room in its socket. */
#define EGRESS_SYNC_MS 1000

/* One slot's socket. In struct sandbox. */
struct egress_port {
	struct source source; /* the listening socket, while no proxy serves it; first */
	int fd;               /* the host's own; -1: none */
	struct sandbox *sb;
	struct egress *egress; /* NULL: none (yet) */
	struct egress_port *next;
	uint64_t slot; /* number within this egress */
	bool served;
	struct connections *connections; /* what was reported; NULL: nothing yet */
};

/* A host that no rule names, and that the user is, or will be, asked about. */
struct egress_question {
	struct egress_question *next;
	struct egress *egress;
	struct koda_session *ses;
	uint64_t id; /* the proxy's; 0: the proxy no longer waits for the answer */
	uint64_t slot;
	bool unasked;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
	struct asked *asked; /* NULL: not asked yet */
};

/* Call when a session with commands opens. Checks that the programs are there, and that the
 * user's own proxy, if there is one, can be used. */
int egress_open(struct koda_session *ses, const char *helper_dir, struct koda_error *err);

void egress_port_init(struct egress_port *port, struct sandbox *sb);
/* Prepare what has to exist before the sandbox is built. */
int egress_prepare(struct egress_port *port, struct koda_error *err);
/* The sandbox has booted: watch its socket, which is taken. */
void egress_serve(struct egress_port *port, int fd);
/* The sandbox is gone. What was reported of its connections stays until egress_port_done(). */
void egress_drop(struct egress_port *port);
void egress_port_done(struct egress_port *port);
/* Take in what has been reported (after a command has ended, its refusals are there). sync: also
 * the connections that are open now. */
void egress_drain(struct egress_port *port, bool sync);

/* In a session that intercepts, return the directory on the host that holds the certificates for
 * commands; EGRESS_CERTIFICATES_NAME is the file in it. NULL: none. */
const char *egress_certificates(const struct egress_port *port);
#define EGRESS_CERTIFICATES_NAME "ca.pem"

/* Return the path of the program that makes ssh use the proxy; "" if it is not installed. */
const char *egress_connect_path(const struct koda_session *ses);

/* Ignore the user's own proxy: for doctor, whose server is on this machine. Call before the
 * first slot. */
void egress_go_directly(struct koda_session *ses);

/* The session closes. */
void egress_close(struct koda_session *ses);
/* Call in a forked child: the proxies belong to the parent. */
void egress_abandon(struct koda_session *ses);
uint64_t egress_next_time(const struct koda_session *ses);
/* Time has passed: check deadlines, and ask the user the pending questions. */
void egress_tick(struct koda_session *ses);

#endif
