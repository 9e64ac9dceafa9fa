/*
 * What a proxy reports, and what becomes of it: connections, violations, questions and their answers, sockets of the
 * policy's map. A report is untrusted input, and this is where it is taken in: each field is validated once, here, and
 * copied. Whoever reports what cannot be is a liar, which egress.c, who has the process, makes an end of.
 *
 * For egress.c alone. The rest of the host sees host/egress/egress.h, whose egress_answer and struct egress_question are of here.
 */
#ifndef KODA_HOST_EGRESS_EGRESS_REPORT_H
#define KODA_HOST_EGRESS_EGRESS_REPORT_H

#include "host/egress/egress.h"
#include "proto/proxy.pb-c.h"
#include "shared/wire/message.h"

#define EGRESS_CONNECTIONS_MAX 1024 /* kept for koda_slot_connections, the oldest goes */
#define EGRESS_GRANTS_MAX      1024 /* "for this session": with a whole policy they fit a frame */
#define EGRESS_ASKS_MAX        32 /* of one slot, also those that nobody waits for any more: beyond, no */
#define EGRESS_CA_MAX          (64u << 10) /* of one certificate */

enum egress_state {
	EGRESS_DOWN, /* nobody has needed it, or it died */
	EGRESS_STARTING,
	EGRESS_UP,
	EGRESS_FAILED, /* for good */
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
	struct arena arena; /* of the report that is worked on */
	uint64_t next_slot;
	uint64_t deadline, not_before; /* ns */
	unsigned barren, useless;      /* deaths in a row */
	bool useful;                   /* this one has reported something */
	uint64_t sync_sent, synced;
	struct egress_question *questions;
	char *certificates; /* directory, or NULL */
	int certificates_held;
	char failed[KODA_MESSAGE_MAX]; /* its own last words */
};

/* Somebody said: for this session. */
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
	bool foreign; /* a forked child */
};

/* Take what has been read from its socket. -1 with *err set: make an end of it (KODA_IO: its socket is what failed). Never
 * calls the embedder back, never stops the process. */
int egress_report_take(struct egress *e, struct koda_error *err);

/* May a host be granted to this policy's commands; is somebody asked about it? */
bool egress_may_be_granted(const struct egress *e);
bool egress_asks(const struct egress *e);

/* slot 0: of all. */
void egress_questions_free(struct egress *e, uint64_t slot);
/* The proxy that waited for the answers is gone. */
void egress_questions_orphan(struct egress *e);
/* Ask what nobody has been asked yet: calls the embedder back. */
void egress_questions_put(struct koda_session *ses);

/*
 * Of egress.c.
 */

/* Tell it; fd -1: none goes with it. While one of its reports is worked on: a failure is that report's. */
int egress_send(struct egress *e, const Koda__EgressOrder *order, int fd, struct koda_error *err);
/* The same at any other time: a failure makes an end of it. */
void egress_order(struct egress *e, const Koda__EgressOrder *order);
/* It is ready, and confined as it has to be: it is given its sockets. */
int egress_up(struct egress *e, struct koda_error *err);

#endif
