/* SPDX-License-Identifier: Apache-2.0 */
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
 * The parts are below this one and know nothing of sessions: process (start, death, next start),
 * wire (frames, and the checks of what a proxy reports), questions (to the user), port (a slot's
 * listening socket). A proxy that sends an invalid report is killed. Refusals become violations of
 * their slot at once. Apart from events (session_event) and the callbacks of
 * koda_slot_connections() and koda_slot_new_connections(), the embedder is only called in a turn of
 * the loop.
 */
#ifndef KODA_HOST_EGRESS_EGRESS_H
#define KODA_HOST_EGRESS_EGRESS_H

#include "host/egress/port.h"

/* Call when a session with commands opens. Checks that the programs are there, and that the
 * user's own proxy, if there is one, can be used. */
int egress_open(struct koda_session *ses, const char *helper_dir, struct koda_error *err);

void egress_port_init(struct egress_port *port, const struct egress_slot *of);
/* Prepare what has to exist before the sandbox is built. */
int egress_prepare(struct egress_port *port, struct koda_error *err);
/* The sandbox has booted: watch its socket. Takes fd. */
void egress_serve(struct egress_port *port, int fd);
/* The sandbox is gone. The connections that the proxy has reported stay until
 * egress_port_done(). */
void egress_drop(struct egress_port *port);
void egress_port_done(struct egress_port *port);
/* Process the reports that the proxy has sent: after a command has ended, its refusals are among
 * them. sync: also request a report on the connections that are open now, and wait for it. */
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
#endif
