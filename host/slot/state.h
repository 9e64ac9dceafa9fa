/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data that the parts of a slot share: a call, the slot itself, their limits, and which of the
 * slot's states may follow which. The functions are declared in the other headers of this folder.
 */
#ifndef KODA_HOST_SLOT_STATE_H
#define KODA_HOST_SLOT_STATE_H

#include "host/context/context.h"
#include "host/context/finished.h"
#include "host/policy/policy_api.h"
#include "host/slot/reply.h"
#include "shared/wire/frame.h"
#include "shared/wire/protocol.h"
#include "shared/wire/spawn.h"

#define SEAL_PLACES_MAX  128 /* all caches, of which there are fewer than 64, and a git directory */
#define SLOT_CALLS_MAX   1024 /* outstanding; an embedder that wants more has a bug or a leak */
#define SLOT_READY_MS    5000 /* spawn to Ready; a confined start takes under two */
#define SLOT_GONE_MS     2000 /* a killed worker that is not gone by then hangs in the kernel */
#define SLOT_BARREN_MAX  5    /* after so many deaths in a row without an answer the slot fails */
#define SLOT_BACKOFF_MS  10   /* delay after the second of those; four times longer each time */
#define CALL_DEATHS_MAX  2    /* a request is given up after so many workers died at it */
#define CALL_RECOVER_MAX 3    /* the same for the question what became of a request */

/* The kind of a request of the host itself. */
#define OP_OURS ((enum koda_op_kind)1000)

enum call_state {
	CALL_QUEUED, /* not sent to the current worker */
	CALL_SENT,
	CALL_RECOVER,    /* its worker died; the successor will be asked what happened */
	CALL_RECOVERING, /* the successor has been asked */
	CALL_ASKING,     /* waits for approval, or for a safe moment to ask for it */
	CALL_DONE,
};

struct call {
	/* First: an asynchronous call that has ended. */
	struct finished finished;
	/* The slot's list, in the order in which the host sends the calls. */
	struct call *prev, *next;
	struct koda_slot *slot; /* NULL once it is done and the slot is gone */
	enum koda_op_kind kind;
	enum call_state state;
	uint64_t id, recover_id; /* id stays the same when the request is sent again */
	uint64_t request_id;     /* the id in `request`; differs when `id` is a later page's */
	struct packed request;
	struct packed page; /* the next page's request, sent instead; len 0: none */
	int fd;             /* content that goes with it, or -1 */
	uint64_t deadline;  /* ns */
	unsigned timeout_ms;
	bool preview; /* this is the dry run; approval is asked for afterwards */
	bool unasked; /* approval has not been asked for yet */
	bool timed_out;
	uint64_t max; /* Read: the most bytes requested, 0: all */
	unsigned deaths, recoveries, prepares;

	uint8_t token[TOKEN_BYTES]; /* of the worker it was last sent to */
	struct packed prepared;
	bool committed, has_verdict;
	Koda__Verdict verdict; /* digest_now is not kept here */
	uint8_t digest_now[KODA_DIGEST_BYTES];
	bool has_digest_now;

	struct asked *asked; /* the open question about it */
	koda_done_fn *done;  /* NULL: synchronous */
	void *data;
	/* A request of the host itself (Scan, Compare): takes over the contents of the reply. -1:
	 * the reply breaks the protocol. */
	int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err);
	void *take_data;
	struct koda_result result;
	struct koda_error err;
};

enum slot_state {
	SLOT_DOWN,
	SLOT_STARTING, /* Seal was sent */
	SLOT_UP,
	SLOT_DYING,  /* killed or ended, and not gone yet */
	SLOT_FAILED, /* for good; `failure` says why */
};

/* A program that a slot starts. */
enum slot_program {
	SLOT_FILES,
	SLOT_SEARCH,
};

/* A directory of the project, and the directory in a draft that has its changes. */
struct seal_layer {
	const char *path;
	dev_t dev;
	ino_t ino;
	const char *name;
};

/* What the worker is sealed with in addition to the policy. */
struct seal_places {
	int quarantine_fd; /* for what commands planted; -1: none */
	/* A draft, for listing and applying its changes; -1: none. */
	int draft_fd;
	struct seal_layer layer[DRAFT_LAYERS_MAX];
	size_t n_layers;
	int64_t draft_made_ns, draft_mounted_ns;
	int history_fd; /* an entry of the history, for what changes take away; -1: none */
	/* The directories that commands may write beyond the policy's places, so that the worker
	 * can remove what commands plant there. */
	const char *dir[SEAL_PLACES_MAX];
	size_t n;
	/* What the root is for this worker; ino 0: what it is for the host. */
	dev_t root_dev;
	ino_t root_ino;
};

/* What knows all parts of a slot (host/workspace). */
struct slot_client {
	/* Start the program, with `socket` as its descriptor 3, in the slot's sandbox if there is
	 * one. */
	int (*launch)(struct koda_slot *slot, enum slot_program which, int socket,
	    struct child *ret, struct koda_error *err);
	/* Fill *ret, whose quarantine_fd is -1. with_places: with what commands may have planted
	 * in. */
	void (*places)(const struct koda_slot *slot, bool with_places, struct seal_places *ret);
	/* A change has made the history larger. */
	void (*grown)(struct koda_slot *slot, uint64_t bytes);
	/* In a draft, let the worker see the names that the project has now. */
	void (*refresh)(struct koda_slot *slot);
};

struct koda_slot {
	struct source source;          /* the worker's socket, or its pidfd; first */
	struct koda_slot *prev, *next; /* of the session */
	struct koda_session *ses;
	const struct slot_client *client;
	struct koda_policy *policy; /* a reference */
	bool acquired;
	/* Changes go to a draft and are decided on afterwards: no question is asked before them. */
	bool drafted;
	bool refreshing; /* in slot_client.refresh: nothing is sent before it returns */
	enum slot_state state;
	struct child child;
	struct frame_stream fs;
	uint8_t token[TOKEN_BYTES];
	uint64_t next_id, seal_id, record_id;
	/* Shared with the worker, see struct record; -1: none. */
	int record_fd;
	bool record_asked;
	struct call *head, *tail;
	size_t n_calls, n_queued, n_recovering, n_unasked;
	/* The worker broke the protocol: the host does not read the rest of its socket. */
	bool broken;
	bool doomed;   /* released: freed when the library's outermost function returns */
	bool gave_up;  /* replies to abandoned calls may still come */
	bool answered; /* this worker answered something */
	bool ever_up;
	unsigned barren;
	uint64_t not_before, state_deadline;
	/* The parts above the slot; the files of this folder do not look into them. */
	struct koda_search *searches; /* under way */
	size_t n_searches;
	/* The commands, and the sandbox that they and the worker run in; NULL: there is none, and
	 * the worker is started directly. */
	struct commands *commands;
	/* Commands whose sandbox could not be built again: freed when the library's outermost
	 * function returns. */
	struct commands *dropped;
	struct koda_enforcement enforcement;
	/* How the worker broke the protocol; in SLOT_FAILED, why the slot failed. */
	struct koda_error failure;
	struct arena arena;
};

/* A table in state.c says which state may follow which. */
void slot_set_state(struct koda_slot *slot, enum slot_state to);

#endif
