/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames between the host and one egress proxy. Orders are packed and sent from plain values. A
 * report is untrusted input and enters here: each field is validated once, and handed on as a plain
 * value. What follows from a report is the client's affair.
 */
#ifndef KODA_HOST_EGRESS_WIRE_H
#define KODA_HOST_EGRESS_WIRE_H

#include "shared/rules/domain.h"
#include "shared/rules/upstream.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"

/* How long the host waits for a proxy's answer, or for room in its socket. */
#define EGRESS_SYNC_MS 1000

/* A host that the user has allowed for the session. */
struct egress_grant {
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port;
};

/* Functions return 0, or -1 with *err set: the report is invalid, or an order that it called for
 * could not be sent. */
struct wire_client {
	/* The proxy is ready, and confined as required. ca: its certificate, or NULL. */
	int (*ready)(void *data, const void *ca, size_t ca_len, struct koda_error *err);
	int (*connection)(void *data, uint64_t slot, uint64_t id, const struct koda_connection *one,
	    struct koda_error *err);
	/* May a command reach that host? The client answers with wire_send_answer(). */
	int (*ask)(void *data, uint64_t slot, uint64_t question, const char *host,
	    enum domain_kind kind, unsigned port, struct koda_error *err);
	void (*withdraw)(void *data, uint64_t question);
	/* The proxy needs the policy's socket for that domain; see wire_send_socket(). */
	int (*want_socket)(void *data, uint64_t id, const char *domain, struct koda_error *err);
};

/* What a slot needs for a host that a rule of the policy allows. */
enum wire_consent {
	WIRE_CONSENT_UNNAMED,    /* nothing */
	WIRE_CONSENT_EACH,       /* the user's consent */
	WIRE_CONSENT_EACH_GIVEN, /* the same, but there is no user to ask */
};

struct egress_wire {
	struct frame_stream fs;                   /* fd -1: there is no proxy */
	void (*queued)(struct egress_wire *wire); /* after each order: some of it may be unsent */
	struct arena arena;                       /* for the report that is being processed */
	const struct koda_policy *policy;
	bool intercepts, asks; /* as the proxy was told */
	bool ready;
	uint64_t sync_sent, synced;
	char failed[KODA_MESSAGE_MAX]; /* the proxy's last words, or "" */
};

/* What a proxy has to know at its start. */
struct wire_start {
	const struct koda_policy *policy; /* has to live as long as the proxy */
	enum koda_mode mode;
	struct upstream_variables upstream;
	bool asks, intercepts;
	const struct egress_grant *grants;
	size_t n_grants;
};

void wire_init(struct egress_wire *w, void (*queued)(struct egress_wire *wire));
/* A proxy is about to be started: takes the host's end of its socket. */
void wire_open(struct egress_wire *w, int fd);
/* Closes the socket. */
void wire_close(struct egress_wire *w);
void wire_done(struct egress_wire *w);

/* Process what has been read from the socket. Returns 0, or -1 with *err set: the proxy has to be
 * ended (KODA_IO: the socket is what failed). */
int wire_receive(struct egress_wire *w, const struct wire_client *client, void *data,
    struct koda_error *err);

/* Orders. Each returns 0, or -1 with *err set: the proxy has to be ended. */
int wire_send_start(struct egress_wire *w, const struct wire_start *start, struct koda_error *err);
int wire_send_serve(struct egress_wire *w, uint64_t slot, enum wire_consent consent, int fd,
    struct koda_error *err);
int wire_send_drop(struct egress_wire *w, uint64_t slot, struct koda_error *err);
int wire_send_answer(struct egress_wire *w, uint64_t question, enum koda_scope scope,
    struct koda_error *err);
/* fd -1: the host could not connect, for the reason errnum. */
int wire_send_socket(struct egress_wire *w, uint64_t id, int fd, int errnum,
    struct koda_error *err);
/* Request a report on the open connections of a slot. wire_is_synced() returns true when the whole
 * report has come. */
int wire_send_sync(struct egress_wire *w, uint64_t slot, struct koda_error *err);
bool wire_is_synced(const struct egress_wire *w);

#endif
