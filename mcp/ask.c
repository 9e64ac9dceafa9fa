/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/ask.h"

#include <stdlib.h>

#include "mcp/call.h"
#include "mcp/connection_out.h"
#include "mcp/digest.h"
#include "mcp/memory.h"
#include "mcp/runtime.h"
#include "mcp/text.h"
#include "shared/base/clock.h"

/* Maximum parked calls: a client that never asks its user, and goes on calling, can fill no more
 * than half of CONNECTION_CALLS_MAX with them. */
#define PARKED_MAX (CONNECTION_CALLS_MAX / 2)
/* The key in inputRequests: a call has one question at a time. */
#define ROUND_KEY "approval"

struct client_question {
	struct client_question *next;
	struct connection *conn;
	json_int_t id;             /* of our request */
	ask_answered_fn *answered; /* NULL: withdrawn, but the client may still call again */
	void *data;
	uint64_t until_ms;

	/* Only for rounds. */
	const struct tool *tool; /* NULL: not a round */
	json_t *args;
	char secret[TEXT_DIGEST_SIZE];
	struct tool_call *call; /* NULL: it has ended, and held is its answer */
	size_t owed;            /* what the call owes; not counted while it is parked */
	json_t *held;
};

static struct client_question *
ask_new(struct connection *conn, ask_answered_fn *answered, void *data)
{
	struct client_question *ask = memory_zero(sizeof(*ask));

	*ask = (struct client_question){
		.next = conn->asks,
		.conn = conn,
		.answered = answered,
		.data = data,
		.until_ms = monotonic_ms() + CONNECTION_ASK_MS,
	};
	conn->asks = ask;
	return ask;
}

static void
unlink_ask(struct client_question *ask)
{
	struct client_question **at = &ask->conn->asks;

	while (*at != ask)
		at = &(*at)->next;
	*at = ask->next;
}

static void
free_ask(struct client_question *ask)
{
	json_decref(ask->args);
	json_decref(ask->held);
	free(ask);
}

/* Ends the question: the call, if there is one, goes on, and the callback gets the result. */
static void
settle(struct client_question *ask, const json_t *result)
{
	unlink_ask(ask);
	if (ask->call != NULL)
		ask->call->parked = NULL;
	if (ask->answered != NULL)
		ask->answered(ask->data, result);
	free_ask(ask);
}

/* The client does not answer, or does not call again: discards the call's answer too. */
static void
give_up(struct client_question *ask)
{
	if (ask->call != NULL)
		ask->call->mute = true;
	settle(ask, NULL);
}

void
connection_forget_asks(struct connection *conn)
{
	while (conn->asks != NULL)
		give_up(conn->asks);
}

/* ---- by a request ---- */

struct client_question *
connection_ask(struct connection *conn, const char *method, json_t *params,
    ask_answered_fn *answered, void *data)
{
	struct client_question *ask = ask_new(conn, answered, data);

	ask->id = ++conn->next_id;
	connection_send(conn, rpc_request(ask->id, method, params));
	return ask;
}

static void
tell_withdrawn(const struct client_question *ask, const char *reason)
{
	json_t *params = json_object();

	json_object_set_new_nocheck(params, "requestId", json_integer(ask->id));
	json_object_set_new_nocheck(params, "reason", json_string_nocheck(reason));
	connection_send(ask->conn, rpc_notification("notifications/cancelled", params));
}

void
connection_withdraw(struct client_question *ask, const char *reason)
{
	if (ask->tool != NULL) {
		ask->answered = NULL;
		return;
	}
	tell_withdrawn(ask, reason);
	unlink_ask(ask);
	free_ask(ask);
}

void
connection_answered(struct connection *conn, const struct rpc *response)
{
	/* An answer that is no longer expected is not an error: it may have crossed our
	 * withdrawal. */
	for (struct client_question *ask = conn->asks; ask != NULL; ask = ask->next) {
		if (ask->tool == NULL && json_is_integer(response->id) &&
		    json_integer_value(response->id) == ask->id) {
			settle(ask, response->result);
			return;
		}
	}
}

uint64_t
asks_tick(struct connection *conn, uint64_t now_ms)
{
	uint64_t next = UINT64_MAX;
	struct client_question *ask = conn->asks;

	while (ask != NULL) {
		if (ask->until_ms > now_ms) {
			next = ask->until_ms < next ? ask->until_ms : next;
			ask = ask->next;
			continue;
		}
		if (ask->tool == NULL)
			tell_withdrawn(ask, "the user did not answer in time");
		give_up(ask);
		ask = conn->asks; /* the callback may have asked something else */
	}
	return next;
}

/* ---- by an answer ---- */

static size_t
n_parked(const struct connection *conn)
{
	size_t n = 0;

	for (const struct client_question *ask = conn->asks; ask != NULL; ask = ask->next)
		n += ask->tool != NULL;
	return n;
}

static json_t *
input_required(const struct client_question *ask, const char *method, json_t *params)
{
	return json_pack("{s:s, s:{s:{s:s, s:o}}, s:s}", "resultType", "input_required",
	    "inputRequests", ROUND_KEY, "method", method, "params", params, "requestState",
	    ask->secret);
}

static void
hold_answer(struct client_question *ask, json_t *answer)
{
	ask->call->parked = NULL;
	ask->call = NULL;
	ask->held = answer;
}

struct client_question *
connection_ask_by(struct tool_call *call, const char *method, json_t *params,
    ask_answered_fn *answered, void *data)
{
	struct connection *conn = call->conn;
	uint8_t random[KODA_DIGEST_BYTES];
	struct client_question *ask;

	if (n_parked(conn) >= PARKED_MAX) {
		json_decref(params);
		return NULL;
	}
	ask = ask_new(conn, answered, data);
	ask->tool = call->tool;
	ask->args = json_incref(call->args);
	runtime_random(random, sizeof(random));
	text_digest(ask->secret, random);
	ask->call = call;
	ask->owed = call->owed;
	conn->owed -= call->owed;
	call->owed = 0;
	call->parked = ask;
	call->hold_answer = hold_answer;
	connection_send(conn,
	    rpc_result(call->id, version_result(input_required(ask, method, params), false)));
	return ask;
}

/* Compares the secret with all of them, each in full, so that timing reveals nothing. */
static struct client_question *
find(const struct connection *conn, const json_t *secret)
{
	struct client_question *found = NULL;

	if (json_string_length(secret) != TEXT_DIGEST_SIZE - 1)
		return NULL;
	for (struct client_question *ask = conn->asks; ask != NULL; ask = ask->next) {
		if (digest_same_secret(ask->secret, json_string_value(secret),
			TEXT_DIGEST_SIZE - 1) &&
		    ask->tool != NULL)
			found = ask;
	}
	return found;
}

static void
resume(struct client_question *ask, const struct rpc *rpc)
{
	const json_t *responses = json_object_get(rpc->params, "inputResponses");
	struct connection *conn = ask->conn;
	struct tool_call *call = ask->call;

	if (call == NULL) {
		json_object_set_nocheck(ask->held, "id", (json_t *)rpc->id);
		connection_send(conn, json_incref(ask->held));
	} else {
		call_continue(call, rpc->id, rpc->params);
		call->owed = ask->owed;
		conn->owed += ask->owed;
	}
	settle(ask, json_object_get(responses, ROUND_KEY));
}

const char *
connection_called_again(struct connection *conn, const struct rpc *rpc, const struct tool *tool,
    const json_t *args)
{
	struct client_question *ask = find(conn, json_object_get(rpc->params, "requestState"));

	if (ask == NULL)
		return "requestState is not that of an open question: it was answered, or has expired";
	if (ask->call != NULL && ask->call->mute) {
		give_up(ask);
		return "requestState belongs to a call that was cancelled";
	}
	if (ask->tool != tool || !json_equal(ask->args, args)) {
		give_up(ask);
		return "requestState belongs to another call: neither of them was done";
	}
	resume(ask, rpc);
	return NULL;
}
