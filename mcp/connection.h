/*
 * One client: two descriptors, a session and a slot of its own, its calls under way and the
 * questions put to it. Lines in, messages out; methods.c knows what a message means.
 *
 * What a client can make us hold is bounded: the line that it sends (LINE_MAX_BYTES), the calls
 * under way (CONNECTION_CALLS_MAX), the messages that are put off until its slot is there (as many,
 * and CONNECTION_HELD_BYTES), and what is queued for it. While the queue plus what the calls under
 * way will add is above CONNECTION_HOLD_BYTES, no more of its lines are processed; an answer that
 * would take the queue above CONNECTION_QUEUE_BYTES is replaced by an error.
 */
#ifndef KODA_MCP_CONNECTION_H
#define KODA_MCP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "include/koda/sandbox.h"
#include "mcp/line.h"
#include "mcp/rpc.h"

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

struct server;
struct call;
struct ask;
struct approvals;
struct commands;
struct child;
struct recorded;
struct remembered;
struct tool;

enum phase {
	/* Waiting for initialize, or for a request that needs none. */
	PHASE_NEW = 0,
	PHASE_READY,
};

/* What the negotiated revision of the protocol has. Ordered by date: a later one has what an
 * earlier one had, except for batches. */
struct version {
	const char *name;
	bool batches;     /* 2025-03-26 only */
	bool annotations; /* since 2025-03-26 */
	/* Titles, output schemas, structured content, elicitation: since 2025-06-18. */
	bool structured;
	/* Invalid arguments are reported as a result that the model sees: since 2025-11-25. */
	bool arguments_told;
	/* No handshake: each request carries its own version. A question is sent as the answer
	 * to a call, and the client calls again: since 2026-07-28. */
	bool rounds;
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
const char *level_name(enum level level);

struct connection {
	struct server *server;
	char name[CONNECTION_NAME_SIZE]; /* in logs */
	struct child *child;             /* NULL: the server's own client */
	int in, out;                     /* the caller's: connection_free() leaves them open */
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
	bool ending; /* the session is being closed: start nothing new */
	char *root;  /* canonical */

	struct call *calls;
	size_t n_calls;
	size_t owed; /* bytes that the calls under way may add to the queue */
	size_t held; /* bytes of the arguments of the calls under way */
	struct ask *asks;
	json_int_t next_id;
	struct approvals *approvals;
	struct remembered *remembered;
	struct commands *commands;
};

struct connection_options {
	const char *name;
	int in, out;      /* the caller's */
	const char *root; /* canonical */
	/* NULL: use root. Otherwise another name of the root that keeps leading there, whatever
	 * happens to root's path. */
	const char *root_by;
	enum koda_mode mode;
	const struct koda_policy *policy; /* NULL: the default of the mode */
	bool narrowed;                    /* as in struct koda_session_options */
	bool asks_hosts;
	struct child *child;
	const char *helper_dir;
};
/* Creates a connection with a session; the slot is acquired when it is needed. Returns NULL with
 * *err set on failure. */
struct connection *connection_new(struct server *server, const struct connection_options *options,
    struct koda_error *err);
/* Ends the session and everything in it, discards the answers of the calls under way, and frees
 * conn. */
void connection_free(struct connection *conn);

/* Call it when the input has ended: answers all open questions with no. */
void connection_stop_asking(struct connection *conn);
/* Cancels all calls under way. */
void connection_cancel_all(struct connection *conn);

/* Returns the slot, after acquiring one if there is none; NULL with *err set on failure. While it
 * waits for one, the server serves everything else (server_wait()). */
struct koda_slot *connection_slot(struct connection *conn, struct koda_error *err);
/* Marks the slot as failed for good: a later call gets a new one. */
void connection_lost_slot(struct connection *conn);

/* ---- in and out ---- */

bool connection_wants_input(struct connection *conn);
void connection_read(struct connection *conn);
/* Processes the lines that were read, but only a few at a time, so that other clients get their
 * turn. */
void connection_process(struct connection *conn);
bool connection_has_lines(struct connection *conn);
/* Returns true if the connection has no usable slot yet and has to wait: until its own is acquired,
 * or until another connection has acquired one. */
bool connection_waits(const struct connection *conn);
/* Returns true if a message that was put off still has to be answered. */
bool connection_owes(const struct connection *conn);
void connection_write(struct connection *conn);
/* Queues message, which is stolen. */
void connection_send(struct connection *conn, json_t *message);
void connection_log(struct connection *conn, enum level level, const char *text);

/* ---- asking the client ---- */

/* result is NULL if the client refused, stopped answering, or could not be asked. Called once,
 * unless the question is withdrawn. */
typedef void ask_answered_fn(void *data, const json_t *result);
struct ask *connection_ask(struct connection *conn, const char *method, json_t *params,
    ask_answered_fn *answered, void *data);
/* With rounds: asks through the answer to that call of a tool; the final answer is sent when the
 * client has called again. Returns NULL if too many calls are parked already. params is stolen. */
struct ask *connection_ask_by(struct call *call, const char *method, json_t *params,
    ask_answered_fn *answered, void *data);
/* Keeps the answer of a call that ended before the client called again, until the client does.
 * answer is stolen. */
void connection_hold_answer(struct ask *ask, json_t *answer);
/* Handles a call with a requestState. Returns NULL if the parked call goes on or was answered,
 * otherwise why it cannot. */
const char *connection_called_again(struct connection *conn, const struct rpc *rpc,
    const struct tool *tool, const json_t *args);
/* Answers all open questions with no, and drops the parked calls. */
void connection_forget_asks(struct connection *conn);
/* Withdraws the question: the callback is not called. Notifies the client, except with rounds,
 * where it may still call again. */
void connection_withdraw(struct ask *ask, const char *reason);
void connection_answered(struct connection *conn, const struct rpc *response);
/* Gives up on questions that were not answered in time, and reports progress. Returns when to
 * call it again, in ms of the clock; UINT64_MAX: never. */
uint64_t connection_tick(struct connection *conn, uint64_t now_ms);

/* ---- calls ---- */

/* The answers of one batch, sent together. */
struct batch;
struct batch *batch_new(struct connection *conn);
/* batch_hold() adds a holder and returns batch. batch_leave() adds the holder's answer, if it is
 * not NULL, and drops the holder; the last one sends the answers and frees batch. answer is
 * stolen. */
struct batch *batch_hold(struct batch *batch);
void batch_leave(struct batch *batch, json_t *answer);

/* A request that is answered later. */
struct call {
	struct call *next, *prev;
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
	struct ask *parked;
	/* Called once when the client cancels, or the connection ends: it makes the call end
	 * soon. The call must still be answered; the answer is discarded. NULL: the call ends
	 * soon anyway. */
	void (*cancel)(struct call *call);
	void *state; /* of the code that serves the call */
	void (*free_state)(void *state);
};

/* Creates a call. owed is the approximate size of the answer in bytes. params may have
 * _meta.progressToken. The call frees itself in call_answer() or call_refuse(). */
struct call *call_new(struct connection *conn, struct batch *batch, const json_t *id,
    const json_t *params, size_t owed);
/* Makes that request, by which the client has called again, the call's own. */
void call_continue(struct call *call, const json_t *id, const json_t *params);
/* Both end the call and free it. result and data are stolen. */
void call_answer(struct call *call, json_t *result);
void call_refuse(struct call *call, enum rpc_code code, const char *why, json_t *data);
/* Reports progress, in any unit; it must grow. total 0: unknown. */
void call_progress(struct call *call, double progress, double total, const char *message);
void call_cancel(struct call *call);
struct call *call_find(struct connection *conn, const json_t *id);

#endif
