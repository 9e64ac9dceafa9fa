/*
 * The host's side of egress: which koda-egress-proxy serves which slots. One for each distinct policy of a session,
 * started when the first connection waits on a slot's listening socket (a command that needs no network costs nothing),
 * and again after a death when the next one does: until then connections queue in the kernel. It ends when the last slot of
 * its policy does. The host keeps each listening socket, never accepts, and parses nothing that a client sent.
 *
 * When the session intercepts, the proxy is started before the first slot of its policy is: the certificate of its CA is
 * part of the view.
 *
 * What a proxy reports is taken in by egress_report.c, checked like a worker's reply; one that lies is killed. Refusals
 * become violations of their slot at once. Nothing here calls the embedder back but egress_tick.
 */
#ifndef KODA_HOST_EGRESS_EGRESS_H
#define KODA_HOST_EGRESS_EGRESS_H

#include "host/session/session.h"
#include "shared/rules/domain.h"

#define EGRESS_READY_MS 5000 /* spawn to Ready; takes ten, a loaded machine a hundred times that */
/* Deaths in a row before Ready, or for a lie, without a report of any use between: no network any more, and it is said. */
#define EGRESS_BARREN_MAX 5
/* From the second death in a row on that came before a report of any use; four times as long with each, so many times. What
 * kills it at once, for ever, is not to cost a processor. */
#define EGRESS_BACKOFF_MS 10
#define EGRESS_SYNC_MS    1000 /* how long a proxy may keep us waiting, for an answer or for room */

/* One slot's socket. In struct sandbox. */
struct egress_port {
	struct source source; /* the listening socket, while nobody serves it; first */
	int fd;               /* the host's own; -1: there is none */
	struct sandbox *sb;
	struct egress *egress; /* NULL: it belongs to none (yet) */
	struct egress_port *next;
	uint64_t slot; /* number for this egress */
	bool served;
	struct connections *connections; /* what was reported; NULL: nothing yet */
};

/* A host that no rule names, and that somebody is (to be) asked about. */
struct egress_question {
	struct egress_question *next;
	struct egress *egress;
	struct koda_session *ses;
	uint64_t id; /* the proxy's; 0: nobody waits for the answer any more */
	uint64_t slot;
	bool unasked;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
	struct koda_approval *approval;
};

/* When a session with commands opens: the programs are there, and the user's own proxy can be used or there is none. */
int egress_open(struct koda_session *ses, const char *helper_dir, struct koda_error *err);

void egress_port_init(struct egress_port *port, struct sandbox *sb);
/* Before the sandbox is built: what has to be there when it is. */
int egress_prepare(struct egress_port *port, struct koda_error *err);
/* It has booted: watch its socket (taken). */
void egress_serve(struct egress_port *port, int fd);
/* The sandbox is gone. What was reported of its connections stays until egress_port_done. */
void egress_drop(struct egress_port *port);
void egress_port_done(struct egress_port *port);
/* Take what has been reported (a command has ended: its refusals are there). sync: also what is open now. */
void egress_drain(struct egress_port *port, bool sync);

/* With a session that intercepts: the directory on the host with what commands are to trust, and that file as commands see
 * it. NULL: none. */
const char *egress_certificates(const struct egress_port *port);
#define EGRESS_CERTIFICATES_NAME "ca.pem"

/* The program that makes ssh use the proxy; "" if it is not installed. */
const char *egress_connect_path(const struct koda_session *ses);

/* As if the user had no proxy of his own: for doctor, whose server is on this machine. Before the first slot. */
void egress_go_directly(struct koda_session *ses);

/* The session closes. */
void egress_close(struct koda_session *ses);
/* In a forked child: the proxies are the parent's. */
void egress_abandon(struct koda_session *ses);
uint64_t egress_next_time(const struct koda_session *ses);
/* Time has passed: deadlines, and questions are put. */
void egress_tick(struct koda_session *ses);

/* approve.c: somebody has answered; the question is gone then. */
void egress_answer(struct egress_question *q, enum koda_scope scope);

#endif
