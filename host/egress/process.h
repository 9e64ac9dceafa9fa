/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One egress proxy process: its start, its deadlines, its death, and the pause before the next
 * start. A proxy that hangs, sends something invalid or closes its socket is stopped. After too
 * many such deaths in a row the host gives it up for good.
 *
 * This code knows no slots and no policy: they are behind functions.
 */
#ifndef KODA_HOST_EGRESS_PROCESS_H
#define KODA_HOST_EGRESS_PROCESS_H

#include "host/context/context.h"
#include "host/egress/wire.h"

/* From spawn to Ready; normally 10, on a loaded machine a hundred times that. */
#define EGRESS_READY_MS 5000
/* Limit of deaths in a row before Ready, or because of an invalid report, with no useful report
 * in between. Then the session has no network any more, and an event reports that. */
#define EGRESS_BARREN_MAX 5
/* The delay before a restart, from the second death in a row without a useful report; four times
 * as long with each further one, up to EGRESS_BARREN_MAX deaths. What kills the proxy at once,
 * again and again, must not cost a processor. */
#define EGRESS_BACKOFF_MS 10

enum process_state {
	PROCESS_DOWN, /* not needed yet, or died */
	PROCESS_STARTING,
	PROCESS_UP,
	PROCESS_FAILED, /* for ever */
};

struct process_client {
	/* Send the order Start. Returns 0, or -1 with *err set. */
	int (*start)(void *data, struct koda_error *err);
	/* The process was stopped: it no longer serves or answers. */
	void (*stopped)(void *data);
	/* The state may be another one: PROCESS_DOWN, _STARTING or _FAILED. */
	void (*changed)(void *data);
	struct wire_client reports;
};

struct egress_process {
	struct source source; /* the control socket; first */
	const char *path;
	struct koda_session *ses;
	const struct process_client *client;
	void *data;
	enum process_state state;
	struct child child;
	struct egress_wire wire;
	uint64_t deadline, not_before; /* ns */
	unsigned barren, useless;      /* deaths in a row */
	bool useful;                   /* this proxy has reported something useful */
};

/* path: of the program; both path and client have to live as long as p. */
void egress_process_init(struct egress_process *p, const char *path, struct koda_session *ses,
    const struct process_client *client, void *data);
void egress_process_done(struct egress_process *p);
/* In a forked child: the process belongs to the parent. */
void egress_process_abandon(struct egress_process *p);

bool egress_process_runs(const struct egress_process *p);
/* Returns true if a connection may start the process now. */
bool egress_process_may_start(const struct egress_process *p);
void egress_process_start(struct egress_process *p);
/* Kill it without waiting for its end. */
void egress_process_stop(struct egress_process *p);
/* The proxy has reported that it is ready. */
void egress_process_set_up(struct egress_process *p);
/* The proxy has reported something useful: its next death counts as an accident. */
void egress_process_set_useful(struct egress_process *p);
/* Call after sending an order, except while a report is processed. r: the return value of the send
 * function. If r is -1 the process is ended, which calls the embedder's event callback. */
void egress_process_ordered(struct egress_process *p, int r, const struct koda_error *err);

/* Process the reports that the proxy has sent. The number of reads is limited, so reports that
 * arrive meanwhile may be left. */
void egress_process_drain(struct egress_process *p);
/* Wait for Ready, or for everything that the order Sync requested. Both have a time limit. */
void egress_process_wait_up(struct egress_process *p);
void egress_process_wait_synced(struct egress_process *p);

/* wanted: some slot would use it. */
uint64_t egress_process_next_time(const struct egress_process *p, bool wanted);
void egress_process_tick(struct egress_process *p, uint64_t now);

#endif
