/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/call.h"

#include <stdlib.h>

#include "mcp/batch.h"
#include "mcp/connection_out.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/review_line.h"
#include "mcp/text.h"
#include "shared/base/clock.h"

/* Returns whether the client can put a question about this call to a person. */
static bool
can_ask(const struct connection *conn, const json_t *params)
{
	const json_t *meta = json_object_get(params, "_meta");

	return conn->version->rounds
	    ? version_has_forms(json_object_get(meta, VERSION_META_CAPABILITIES))
	    : conn->can_ask;
}

struct tool_call *
call_new(struct connection *conn, struct batch *batch, const json_t *id, const json_t *params,
    size_t owed)
{
	struct tool_call *call = memory_zero(sizeof(*call));

	*call = (struct tool_call){
		.next = conn->calls,
		.conn = conn,
		.batch = batch != NULL ? batch_hold(batch) : NULL,
		.owed = owed,
		.began_ms = monotonic_ms(),
		.can_ask = can_ask(conn, params),
	};
	call_continue(call, id, params);
	if (conn->calls != NULL)
		conn->calls->prev = call;
	conn->calls = call;
	conn->n_calls++;
	conn->owed += owed;
	if (conn->child != NULL)
		conn->acts(conn->child);
	return call;
}

void
call_continue(struct tool_call *call, const json_t *id, const json_t *params)
{
	const json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");

	json_decref(call->id);
	json_decref(call->progress_token);
	call->id = json_copy((json_t *)id);
	call->progress_token = rpc_is_id(token) ? json_copy((json_t *)token) : NULL;
	call->progress = -1;
}

static void
end(struct tool_call *call, json_t *answer)
{
	struct connection *conn = call->conn;

	review_line_leave(call);
	record_end(call);
	if (call->prev != NULL)
		call->prev->next = call->next;
	else
		conn->calls = call->next;
	if (call->next != NULL)
		call->next->prev = call->prev;
	conn->n_calls--;
	conn->owed -= call->owed;
	conn->held -= call->held;
	if (call->mute && call->parked == NULL && answer != NULL) {
		json_decref(answer);
		answer = NULL;
	}
	if (call->parked != NULL)
		call->hold_answer(call->parked, answer);
	else if (call->batch != NULL)
		batch_leave(call->batch, answer);
	else if (answer != NULL)
		connection_send(conn, answer);
	if (call->free_state != NULL)
		call->free_state(call->state);
	json_decref(call->id);
	json_decref(call->progress_token);
	json_decref(call->args);
	free(call);
}

void
call_answer(struct tool_call *call, json_t *result)
{
	/* The result of a call without a tool is a list or a resource, which a client might
	 * cache. */
	if (call->conn->version->rounds)
		result = version_result(result, call->tool == NULL);
	end(call, rpc_result(call->id, result));
}

void
call_refuse(struct tool_call *call, enum rpc_code code, const char *why, json_t *data)
{
	end(call, rpc_error(call->id, code, why, data));
}

void
call_progress(struct tool_call *call, double progress, double total, const char *message)
{
	json_t *params;

	if (call->progress_token == NULL || call->mute || call->parked != NULL ||
	    progress <= call->progress || line_queued(&call->conn->queue) > CONNECTION_HOLD_BYTES)
		return;
	call->progress = progress;
	params = json_object();
	json_object_set_nocheck(params, "progressToken", call->progress_token);
	json_object_set_new_nocheck(params, "progress", json_real(progress));
	if (total > 0)
		json_object_set_new_nocheck(params, "total", json_real(total));
	if (message != NULL && call->conn->version->annotations)
		json_object_set_new_nocheck(params, "message", text_json_string(message));
	connection_send(call->conn, rpc_notification("notifications/progress", params));
}

void
call_cancel(struct tool_call *call)
{
	void (*cancel)(struct tool_call *) = call->cancel;

	call->mute = true;
	call->cancel = NULL;
	if (cancel != NULL)
		cancel(call);
}

struct tool_call *
call_find(struct connection *conn, const json_t *id)
{
	struct tool_call *call = conn->calls;

	while (call != NULL && !json_equal(call->id, id))
		call = call->next;
	return call;
}
