/*
 * What a proxy reports, and what follows from it: connections, violations, questions and their
 * answers, sockets of the policy's map. A report is untrusted input and enters here: each field is
 * validated once, and copied. After an invalid report, egress.c, which owns the process, ends the
 * proxy.
 *
 * For egress.c alone. The rest of the host uses host/egress/egress.h.
 */
#ifndef KODA_HOST_EGRESS_EGRESS_REPORT_H
#define KODA_HOST_EGRESS_EGRESS_REPORT_H

#include "host/egress/egress.h"
#include "proto/proxy.pb-c.h"
#include "shared/wire/message.h"

#define EGRESS_CONNECTIONS_MAX 1024 /* kept for koda_slot_connections; the oldest is dropped */
#define EGRESS_GRANTS_MAX      1024 /* "for this session": with a whole policy they fit a frame */
/* Limit for one slot, including questions that the proxy no longer waits for; above, the answer
 * is no. */
#define EGRESS_ASKS_MAX 32
#define EGRESS_CA_MAX   (64u << 10) /* of one certificate */

enum egress_state {
	EGRESS_DOWN, /* not needed yet, or died */
	EGRESS_STARTING,
	EGRESS_UP,
	EGRESS_FAILED, /* for ever */
};

/* One policy of a session, and the process that serves it. */
struct egress {
	struct source source; /* the control socket; first */
	struct egress *next;
	struct koda_session *ses;
	struct koda_policy *policy; /* a reference */
	struct egress_port *ports;
	enum egress_state state;
	struct child child;
	struct frame_stream fs;
	struct arena arena; /* for the report that is being processed */
	uint64_t next_slot;
	uint64_t deadline, not_before; /* ns */
	unsigned barren, useless;      /* deaths in a row */
	bool useful;                   /* this proxy has reported something useful */
	uint64_t sync_sent, synced;
	struct egress_question *questions;
	char *certificates; /* directory, or NULL */
	int certificates_held;
	char failed[KODA_MESSAGE_MAX]; /* the proxy's last words */
};

/* The user has allowed this host for the session. */
struct egress_grant {
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
};

struct egress_session {
	struct egress *all;
	char path[PATH_LEN_MAX + 1], connect_path[PATH_LEN_MAX + 1];
	char *variable[4]; /* as upstream_variables has them; NULL: not set */
	struct egress_grant *grants;
	size_t n_grants;
	bool foreign; /* in a forked child */
};

/* Process what has been read from the proxy's socket. Never calls the embedder back, never stops
 * the process. Returns 0, or -1 with *err set: the caller has to end the proxy (KODA_IO: its
 * socket is what failed). */
int egress_report_take(struct egress *e, struct koda_error *err);

/* May a host be granted to this policy's commands? Is the user asked about it? */
bool egress_may_be_granted(const struct egress *e);
bool egress_asks(const struct egress *e);

/* slot 0: of all slots. */
void egress_questions_free(struct egress *e, uint64_t slot);
/* The proxy that waited for the answers is gone. */
void egress_questions_orphan(struct egress *e);
/* Ask the user the questions that were not asked yet: calls the embedder back. */
void egress_questions_put(struct koda_session *ses);

/*
 * Implemented in egress.c.
 */

/* Send an order; fd -1: no descriptor goes with it. For use while one of the proxy's reports is
 * processed: the caller returns a failure as that report's. */
int egress_send(struct egress *e, const Koda__EgressOrder *order, int fd, struct koda_error *err);
/* Send an order at any other time: on failure the proxy is ended. */
void egress_order(struct egress *e, const Koda__EgressOrder *order);
/* The proxy is ready, and confined as it has to be: give it its sockets. */
int egress_up(struct egress *e, struct koda_error *err);

#endif
