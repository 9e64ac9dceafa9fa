/*
 * A slot: one worker process at a time, and the calls that it owes. Sends, receives, notices deaths and
 * deadlines, buries, respawns within a budget, finds out through the successor what became of mutations,
 * and answers every call exactly once.
 *
 * One machine serves synchronous and asynchronous use: slot_advance moves it as far as it goes without
 * waiting, slot_read takes what the worker sent, slot_wait_for says what to wait for. What to do is
 * decided here; nobody else touches the socket.
 *
 *	DOWN -> STARTING (Seal sent) -> UP -> DYING (killed or ended; not yet gone) -> DOWN
 *	any -> FAILED (for good: budget spent, or the worker cannot enforce what is asked)
 */
#ifndef KODA_HOST_SLOT_SLOT_H
#define KODA_HOST_SLOT_SLOT_H

#include "host/loop/source.h"
#include "host/policy/policy_api.h"
#include "host/slot/reply.h"
#include "shared/wire/frame.h"
#include "shared/wire/protocol.h"
#include "shared/wire/spawn.h"

#define SLOT_CALLS_MAX   1024 /* outstanding; an embedder that wants more has a bug or a leak */
#define SLOT_READY_MS    5000 /* spawn to Ready; a confined start takes under two */
#define SLOT_GONE_MS     2000 /* a killed worker that is not gone by then hangs in the kernel */
#define SLOT_BARREN_MAX  5    /* deaths in a row without one answer between: the slot fails */
#define SLOT_BACKOFF_MS  10   /* from the second of those on, four times as long with each */
#define CALL_DEATHS_MAX  2    /* a request that was being worked on in so many deaths is given up */
#define CALL_RECOVER_MAX 3    /* and so is finding out what became of it */
#define BURY_READS_MAX   1024 /* of what a dead worker's socket may hold, a page at a time */

enum call_state {
	CALL_QUEUED, /* not sent to the worker that lives now */
	CALL_SENT,
	CALL_RECOVER,    /* its worker died: the successor is to be asked what became of it */
	CALL_RECOVERING, /* asked */
	CALL_ASKING, /* somebody is thinking about it, or will be asked as soon as that is safe */
	CALL_DONE,
};

struct call {
	struct call *prev,
	    *next;              /* of the slot, in the order in which they were (or will be) sent */
	struct koda_slot *slot; /* NULL once it is done and the slot is gone */
	enum koda_op_kind kind;
	enum call_state state;
	uint64_t id, recover_id; /* the request's own stays the same when it is sent again */
	uint64_t request_id;     /* in `request`, when `id` is of a later page */
	struct packed request;
	struct packed page; /* what is sent instead, for the next page */
	int fd;             /* content that goes with it, or -1 */
	uint64_t deadline;  /* ns */
	unsigned timeout_ms;
	bool preview; /* this is the dry run; it will be asked about */
	bool unasked; /* and that is to be done yet */
	bool timed_out;
	uint64_t max; /* read: what was asked for at most, 0: all */
	unsigned deaths, recoveries, prepares;

	uint8_t token[TOKEN_BYTES]; /* of the worker it was last sent to */
	struct packed prepared;
	bool committed, has_verdict;
	Koda__Verdict verdict; /* digest_now is not kept here */
	uint8_t digest_now[KODA_DIGEST_BYTES];
	bool has_digest_now;

	struct koda_approval *approval;
	koda_done_fn *done; /* NULL: synchronous */
	void *data;
	/* A request of our own (Scan, Compare): takes over what the reply says; -1 breaks the protocol. */
	int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err);
	void *take_data;
	struct koda_result result;
	struct koda_error err;
};

enum slot_state {
	SLOT_DOWN,
	SLOT_STARTING,
	SLOT_UP,
	SLOT_DYING,
	SLOT_FAILED,
};

struct koda_slot {
	struct source source;          /* the worker's socket, or its pidfd; first */
	struct koda_slot *prev, *next; /* of the session */
	struct koda_session *ses;
	struct koda_policy *policy; /* a reference */
	bool acquired;
	enum slot_state state;
	struct child child;
	struct frame_stream fs;
	uint8_t token[TOKEN_BYTES];
	uint64_t next_id, seal_id, record_id;
	int record_fd; /* shared with the worker, see struct record; or -1 */
	bool record_asked;
	struct call *head, *tail;
	size_t n_calls, n_queued, n_recovering, n_unasked;
	bool broken;   /* the worker broke the protocol: what is left in its socket is not read */
	bool doomed;   /* released from inside a callback */
	bool gave_up;  /* replies to what was given up may still come */
	bool answered; /* this worker answered something */
	bool ever_up;
	unsigned barren;
	uint64_t not_before, state_deadline;
	struct koda_search *searches; /* under way */
	size_t n_searches;
	struct sandbox *sandbox; /* what the worker is started in; NULL: it is started directly */
	struct koda_enforcement enforcement;
	struct koda_error failure; /* of a broken worker: what it did; for good in SLOT_FAILED */
	struct arena arena;
};

struct koda_slot *slot_new(struct koda_session *ses, struct koda_policy *policy,
    struct koda_error *err);
/* Kills the worker and answers what is outstanding with KODA_WORKER. Does not wait. */
void slot_free(struct koda_slot *slot);
/* What somebody asked for and was not answered yet is answered with KODA_WORKER; what the worker says of it is not listened to. */
void slot_give_up_calls(struct koda_slot *slot);

/* Fill in a call and put it in line. On -1 nothing is in line. */
int slot_submit(struct koda_slot *slot, const struct koda_op *op, struct call *c,
    struct koda_error *err);
void call_done(struct call *c);

/* A request of our own; consumes *request, whose id has to be slot->next_id. */
#define OP_OURS ((enum koda_op_kind)1000)
void slot_submit_ours(struct koda_slot *slot, struct packed *request, unsigned timeout_ms,
    struct call *c);

/* The worker is fine, but another one is needed: the next call has it. Nothing is under way. */
void slot_renew(struct koda_slot *slot);

/* Wait until c is CALL_DONE. */
void slot_run(struct koda_slot *slot, struct call *c);

void slot_advance(struct koda_slot *slot);
/* slot_advance, with a look at the clock: deadlines. */
void slot_tick(struct koda_slot *slot);
/* Take what is there, once. block: wait up to a second for it. */
void slot_read(struct koda_slot *slot, bool block);
/* What would move the slot on: a descriptor (or -1), events, and a time (ns; UINT64_MAX: none). */
void slot_wait_for(const struct koda_slot *slot, int *ret_fd, uint32_t *ret_events,
    uint64_t *ret_time);

/* Put the questions that have come up since. Calls back, so nobody may be in the middle of something. */
void slot_ask(struct koda_slot *slot);
/* The answer to CALL_ASKING. */
void slot_answer(struct call *c, bool yes);

#endif
