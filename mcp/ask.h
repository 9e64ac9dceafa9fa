/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the client: by a request of ours or, where the protocol has rounds, by the answer to the
 * client's own request. In that case the call is parked as it is, and the client calls again with
 * the user's answer and with a secret that finds the call. What was shown and what is bound to it
 * stay in the call, so nothing in that secret has to be trusted.
 */
#ifndef KODA_MCP_ASK_H
#define KODA_MCP_ASK_H

#include "mcp/connection_state.h"

/* result is NULL if the client refused, stopped answering, or could not be asked. Called once,
 * unless the question is withdrawn. */
typedef void ask_answered_fn(void *data, const json_t *result);
struct client_question *connection_ask(struct connection *conn, const char *method, json_t *params,
    ask_answered_fn *answered, void *data);
/* With rounds: asks through the answer to that call of a tool; the final answer is sent when the
 * client has called again. Returns NULL if too many calls are parked already. params is stolen. */
struct client_question *connection_ask_by(struct tool_call *call, const char *method,
    json_t *params, ask_answered_fn *answered, void *data);
/* Handles a call with a requestState. Returns NULL if the parked call goes on or was answered,
 * otherwise why it cannot. */
const char *connection_called_again(struct connection *conn, const struct rpc *rpc,
    const struct tool *tool, const json_t *args);
/* Answers all open questions with no, and drops the parked calls. */
void connection_forget_asks(struct connection *conn);
/* Withdraws the question: the callback is not called. Notifies the client, except with rounds,
 * where it may still call again. */
void connection_withdraw(struct client_question *ask, const char *reason);
void connection_answered(struct connection *conn, const struct rpc *response);
/* Gives up on questions that were not answered in time. Returns when to call it again, in ms of the
 * clock; UINT64_MAX: never. */
uint64_t asks_tick(struct connection *conn, uint64_t now_ms);

#endif
