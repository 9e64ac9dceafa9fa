/*
 * One client: two descriptors, a session and a slot of its own, the calls that it waits for and what it was asked. Lines
 * in, messages out; what a message means is methods.c.
 *
 * What a client can make us hold is bounded: the line that it sends (LINE_MAX_BYTES), the calls under way
 * (CONNECTION_CALLS_MAX), and what is queued for it. When that, and what the calls under way will add, is above
 * CONNECTION_HOLD_BYTES, no more lines of it are looked at; and what would go above CONNECTION_QUEUE_BYTES is answered by
 * an error instead.
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
/* Below the 1,024 that a slot takes: some make more than one call of the library. */
#define CONNECTION_CALLS_MAX 256
/* Of the arguments of calls under way, in Safe mode until somebody has answered: a few of the largest lines. Not a reason
 * to read no more, because the answer that they wait for comes the same way. */
#define CONNECTION_HELD_BYTES (64u << 20)
/* How long a client may take to answer. It is a person who does. */
#define CONNECTION_ASK_MS (600 * 1000)
/* "parent/a/b": room for the longest that child.h makes. */
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
	PHASE_NEW = 0, /* initialize is to come, or a request that needs none */
	PHASE_READY,
};

/* What the negotiated revision of the protocol has; by date, so that a later one has what an earlier one had. */
struct version {
	const char *name;
	bool batches;     /* 2025-03-26 alone */
	bool annotations; /* since 2025-03-26 */
	bool
	    structured; /* titles, output schemas, structured content, elicitation: since 2025-06-18 */
	bool
	    arguments_told; /* wrong arguments are a result that the model sees: since 2025-11-25 */
	/* No handshake, each request says what it is; what is asked is an answer, and the client calls again: since 2026-07-28 */
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
	struct connection *next;
	char name[CONNECTION_NAME_SIZE]; /* in logs */
	struct child *child;             /* NULL: the server's own client */
	int in, out;                     /* not ours to close: see connection_free() */
	bool out_is_socket;
	bool at_end; /* nothing more comes in */
	bool broken; /* nothing goes out any more */
	struct line_reader reader;
	struct line_queue queue;

	enum phase phase;
	const struct version *version;
	bool can_ask; /* elicitation; with rounds, see struct call */
	bool has_roots;
	bool roots_asked, roots_changed; /* meanwhile */
	enum level level;

	enum koda_mode mode;
	bool asks_hosts; /* its client may be asked for hosts that no rule names */
	struct koda_session *ses;
	struct koda_slot *slot; /* NULL: not acquired yet, or lost; connection_slot() */
	bool slot_lost;
	uint64_t seen_connections, seen_violations; /* of the slot: in the log already */
	struct event_budget {
		unsigned used;
		uint64_t at_ms;  /* when one more was given back */
		uint64_t missed; /* events that it has not let into the log */
		uint64_t said_ms;
	} events;
	bool ending; /* the session is being closed: nothing more is begun */
	char *root;  /* canonical */

	struct call *calls;
	size_t n_calls;
	size_t owed; /* what the calls under way may add to the queue */
	size_t held; /* by the arguments of the calls under way */
	struct ask *asks;
	json_int_t next_id;
	struct approvals *approvals;
	struct remembered *remembered;
	struct commands *commands;
};

struct connection_options {
	const char *name;
	int in, out;      /* stay the caller's */
	const char *root; /* canonical */
	/* NULL: root. Else another name of it, which leads there whatever happens to its path meanwhile. */
	const char *root_by;
	enum koda_mode mode;
	const struct koda_policy *policy; /* NULL: the mode's */
	bool narrowed;                    /* as in struct koda_session_options */
	bool asks_hosts;
	struct child *child;
	const char *helper_dir;
};
/* With a session; the slot is acquired when it is needed. NULL with *err set. */
struct connection *connection_new(struct server *server, const struct connection_options *options,
    struct koda_error *err);
/* Answers what is open to nobody, ends the session and with it everything of it. */
void connection_free(struct connection *conn);

/* Its input has ended: what it was asked is answered with no. */
void connection_stop_asking(struct connection *conn);
/* Nobody waits for any of its calls any more. */
void connection_cancel_all(struct connection *conn);

/* The slot, acquired if there is none; NULL with *err set. */
struct koda_slot *connection_slot(struct connection *conn, struct koda_error *err);
/* The slot gave up for good: the next call gets another. */
void connection_lost_slot(struct connection *conn);

/* ---- in and out ---- */

bool connection_wants_input(struct connection *conn);
void connection_read(struct connection *conn);
/* Look at the lines that are there; at most a few, so that other clients have their turn. */
void connection_process(struct connection *conn);
bool connection_has_lines(struct connection *conn);
void connection_write(struct connection *conn);
/* message is stolen. */
void connection_send(struct connection *conn, json_t *message);
void connection_log(struct connection *conn, enum level level, const char *text);

/* ---- asking the client ---- */

/* result NULL: the client refused, does not answer any more, or never could. Called once, unless withdrawn. */
typedef void ask_answered_fn(void *data, const json_t *result);
struct ask *connection_ask(struct connection *conn, const char *method, json_t *params,
    ask_answered_fn *answered, void *data);
/* With rounds: by the answer to that call, of a tool, which is answered for good when the client has called again. NULL: it
 * waits for too many already. params is stolen. */
struct ask *connection_ask_by(struct call *call, const char *method, json_t *params,
    ask_answered_fn *answered, void *data);
/* What the call has come to before the client has called again: for then. answer is stolen. */
void connection_hold_answer(struct ask *ask, json_t *answer);
/* A call with a requestState. NULL: its call goes on, or has been answered. Else why not. */
const char *connection_called_again(struct connection *conn, const struct rpc *rpc,
    const struct tool *tool, const json_t *args);
/* All of them are answered with no, and no call waits for another. */
void connection_forget_asks(struct connection *conn);
/* The answer is not wanted any more, and the client told so. */
void connection_withdraw(struct ask *ask, const char *reason);
void connection_answered(struct connection *conn, const struct rpc *response);
/* Gives up on what was not answered in time. Returns when to look again, in ms of the clock; UINT64_MAX: never. */
uint64_t connection_tick(struct connection *conn, uint64_t now_ms);

/* ---- calls ---- */

/* Answers of one batch, sent together. */
struct batch;
struct batch *batch_new(struct connection *conn);
/* One more holder; who has added its answer (NULL: none) lets go. */
struct batch *batch_hold(struct batch *batch);
void batch_leave(struct batch *batch, json_t *answer);

/* A request that is answered later. */
struct call {
	struct call *next, *prev;
	struct connection *conn;
	struct batch *batch;
	json_t *id;
	json_t *progress_token; /* NULL: nobody wants to hear */
	const struct tool *tool;
	json_t *args;              /* an object that holds to the tool's schema; or NULL */
	struct recorded *recorded; /* record.h */
	size_t owed, held;
	uint64_t began_ms;
	double progress;
	bool mute;          /* cancelled: nobody waits for the answer */
	bool can_ask;       /* its client, for what it needs */
	struct ask *parked; /* its request has been answered by a question; NULL: it has not */
	/* Called once when the client cancels, or the connection ends: end it soon, and answer all the same (to nobody). NULL:
	 * it is soon over anyway. */
	void (*cancel)(struct call *call);
	void *state; /* whoever serves it */
	void (*free_state)(void *state);
};

/* owed: about as much as the answer will take. params may have _meta.progressToken. */
struct call *call_new(struct connection *conn, struct batch *batch, const json_t *id,
    const json_t *params, size_t owed);
/* The client has called again, by that request. */
void call_continue(struct call *call, const json_t *id, const json_t *params);
/* Both end it. result and data are stolen. */
void call_answer(struct call *call, json_t *result);
void call_refuse(struct call *call, enum rpc_code code, const char *why, json_t *data);
/* In whatever unit, growing; total 0: not known. */
void call_progress(struct call *call, double progress, double total, const char *message);
void call_cancel(struct call *call);
struct call *call_find(struct connection *conn, const json_t *id);

#endif
