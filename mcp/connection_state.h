/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a client that its parts share: the connection, its calls under way, and what it has
 * in common with the other clients of the server. Data only.
 *
 * What a client can make us hold is bounded: the line that it sends (LINE_MAX_BYTES), the calls
 * under way (CONNECTION_CALLS_MAX), the messages that are put off until its slot is there (as many,
 * and CONNECTION_HELD_BYTES), and what is queued for it. While the queue plus what the calls under
 * way will add is above CONNECTION_HOLD_BYTES, no more of its lines are processed; an answer that
 * would take the queue above CONNECTION_QUEUE_BYTES is replaced by an error.
 */
#ifndef KODA_MCP_CONNECTION_STATE_H
#define KODA_MCP_CONNECTION_STATE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "include/koda/sandbox.h"
#include "mcp/line.h"
#include "mcp/rpc.h"
#include "mcp/version.h"

#define CONNECTION_HOLD_BYTES  (4u << 20)
#define CONNECTION_QUEUE_BYTES (32u << 20)
/* Below the 1,024 calls that a slot accepts, because some requests make more than one library
 * call. */
#define CONNECTION_CALLS_MAX 256
/* Limit for the arguments of calls under way, which in Safe mode are held until the user has
 * answered: a few of the largest lines. Reaching it is no reason to stop reading, because the
 * answer that they wait for comes through the same input. */
#define CONNECTION_HELD_BYTES (64u << 20)
/* How long a client may take to answer a question; a person answers it. */
#define CONNECTION_ASK_MS (600 * 1000)
/* "parent/a/b": room for the longest name that child.h makes. */
#define CONNECTION_NAME_SIZE 128

struct batch;
struct tool_call;
struct client_question;
struct approvals;
struct command_list;
struct child_agent;
struct children;
struct audit_record;
struct recorded;
struct remembered;
struct review_waiter;
struct kept_copy;
struct session_draft;
struct tool;
struct connection;

enum phase {
	/* Waiting for initialize, or for a request that needs none. */
	PHASE_NEW = 0,
	PHASE_READY,
};

/* RFC 5424, as the protocol has them. */
enum level {
	LEVEL_DEBUG = 0,
	LEVEL_INFO,
	LEVEL_NOTICE,
	LEVEL_WARNING,
	LEVEL_ERROR,
	LEVEL_CRITICAL,
	LEVEL_ALERT,
	LEVEL_EMERGENCY,
	N_LEVELS,
};

/* What a message means. Handed in, because some methods open connections. */
struct meaning {
	/* Handles a request, a notification or a response. batch NULL: it did not come in a
	 * batch. */
	void (*handle)(struct connection *conn, struct batch *batch, const struct rpc *rpc);
	/* Returns false if the message can be answered without a slot. */
	bool (*needs_slot)(const struct connection *conn, const struct rpc *rpc);
	/* Returns the id of the request that the message cancels, or NULL if it cancels none. */
	const json_t *(*cancels)(const struct rpc *rpc);
};

/* What the connections of a server share. */
struct hub {
	const struct meaning *meaning;
	struct audit_record *record;
	struct children *children;     /* NULL: children cannot connect */
	struct session_draft *drafts;  /* session_drafts.h */
	struct kept_copy *kept_copies; /* child_copy.h */
	bool acquiring;                /* a connection is acquiring its slot */
	/* The server's. For a connection that waits for its slot: like poll(), but serves
	 * everything else meanwhile. May return 0 before the time is over. Returns -1 if the slot
	 * is not needed any more. */
	int (*wait)(struct hub *hub, const struct connection *conn, struct pollfd *fds, size_t n,
	    int timeout_ms);
	/* Returns true if the connection needs its slot no more: the connection, its parent or the
	 * server is ending. */
	bool (*is_unwanted)(struct hub *hub, const struct connection *conn);
};

struct connection {
	struct hub *hub;
	char name[CONNECTION_NAME_SIZE]; /* in logs */
	struct child_agent *child;       /* NULL: the server's own client */
	/* Called when the client of a child begins something. */
	void (*acts)(struct child_agent *child);
	/* Called when the session of a child has ended, before the connection is freed. */
	void (*left)(struct child_agent *child, struct connection *conn);
	int in, out; /* the caller's: connection_free() leaves them open */
	bool out_is_socket;
	bool at_end; /* the input has ended */
	bool broken; /* the output has failed */
	struct line_reader reader;
	struct line_queue queue;

	enum phase phase;
	const struct version *version;
	bool can_ask; /* elicitation; with rounds, call.can_ask counts */
	bool has_roots;
	bool roots_asked, roots_changed; /* changed: while asked */
	enum level level;

	enum koda_mode mode;
	bool asks_hosts; /* the client may be asked about hosts that no rule names */
	struct koda_session *ses;
	struct koda_slot *slot; /* NULL: not acquired; see connection_slot() */
	bool slot_lost;
	bool acquiring; /* connection_slot() is waiting for a slot */
	/* Messages that need the slot and came while the connection waits for it. An array of
	 * objects: the line; for a request its id; and whether the message gets an answer. It holds
	 * lines because a parsed message can take a hundred times as much memory. */
	json_t *put_off;
	size_t put_off_bytes;
	uint64_t seen_connections, seen_violations; /* of the slot; already logged */
	struct event_budget {
		unsigned used;
		uint64_t at_ms;  /* when the last one was given back */
		uint64_t missed; /* events that were kept out of the log */
		uint64_t said_ms;
	} events;
	/* The session works in a draft. draft is its id, which the connection owns; NULL: it gets a new
	 * one with its next slot. */
	bool drafts;
	char *draft;
	/* Each command in the foreground works in a draft of its own, which is applied when it ends. */
	bool judged;
	/* Drafts do not work here, so a command in Safe is asked about before it runs. */
	bool no_effects;
	struct review_waiter *reviews; /* review.h */
	/* The call that has the session for itself; NULL: none. */
	const struct tool_call *reviewing;
	const char *helper_dir; /* NULL: where the program is installed */
	bool narrowed;
	bool ending; /* the session is being closed: start nothing new */
	char *root;  /* canonical */

	struct tool_call *calls;
	size_t n_calls;
	size_t owed; /* bytes that the calls under way may add to the queue */
	size_t held; /* bytes of the arguments of the calls under way */
	struct client_question *asks;
	json_int_t next_id;
	struct approvals *approvals;
	struct remembered *remembered;
	struct command_list *commands;
};

/* A request that is answered later. */
struct tool_call {
	struct tool_call *next, *prev;
	struct connection *conn;
	struct batch *batch;
	json_t *id;
	json_t *progress_token; /* NULL: the client wants no progress */
	const struct tool *tool;
	json_t *args;              /* an object that matches the tool's schema, or NULL */
	struct recorded *recorded; /* record.h */
	size_t owed, held;
	uint64_t began_ms;
	double progress;
	bool mute;    /* cancelled: the answer is discarded */
	bool can_ask; /* the client can be asked to approve this call */
	/* The question that its request was answered with, until the client calls again; NULL:
	 * none. */
	struct client_question *parked;
	/* Takes the answer of a call that ends while it is parked. answer is stolen. */
	void (*hold_answer)(struct client_question *parked, json_t *answer);
	/* Called once when the client cancels, or the connection ends: it makes the call end
	 * soon. The call must still be answered; the answer is discarded. NULL: the call ends
	 * soon anyway. */
	void (*cancel)(struct tool_call *call);
	void *state; /* of the code that serves the call */
	void (*free_state)(void *state);
};

#endif
