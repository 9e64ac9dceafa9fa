/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/ask.h"
#include "mcp/batch.h"
#include "mcp/call.h"
#include "mcp/connection_out.h"
#include "mcp/resources.h"
#include "mcp/roots.h"
#include "mcp/text.h"
#include "mcp/tools.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define CANCELLED    "notifications/cancelled"

/* The immediate answer to a request. Empty if call_new() was called: the call answers later. */
struct reply {
	json_t *result;
	enum rpc_code code; /* 0: no error */
	const char *why;
	json_t *data; /* of the error, or NULL */
};

struct request {
	struct connection *conn;
	struct batch *batch;
	const struct rpc *rpc;
};

static struct reply
refuse(enum rpc_code code, const char *why)
{
	return (struct reply){ .code = code, .why = why };
}

static struct reply
wrong_params(const char *why)
{
	return refuse(RPC_INVALID_PARAMS, why);
}

/* ---- requests ---- */

static json_t *
capabilities(const struct version *version)
{
	json_t *ret = json_pack("{s:{s:b}, s:{s:b, s:b}}", "tools", "listChanged", 0, "resources",
	    "subscribe", 0, "listChanged", 0);

	if (!version->rounds)
		json_object_set_new_nocheck(ret, "logging", json_object());
	return ret;
}

static json_t *
instructions(const struct connection *conn)
{
	static const char *const of_mode[] = {
		[KODA_PLAN] = "Plan mode: files can be read, nothing can be changed.",
		[KODA_SAFE] = "Safe mode: the user is asked before each change.",
		[KODA_AUTO] = "Auto mode: what the policy allows happens without asking.",
	};
	struct text t = { 0 };

	text_printf(&t, "Sandboxed tools for the project '");
	text_show_string(&t, conn->root);
	text_printf(&t,
	    "'; relative paths begin there. %s A refusal is final: it names the rule that decided, and other ways around it will be refused, too. Use explain_access to find out what is possible, or ask the user.",
	    of_mode[conn->mode]);
	if (conn->drafts)
		text_printf(&t,
		    " This session works in a draft: its changes reach the project only by draft_apply.");
	if (conn->judged)
		text_printf(&t,
		    " What a command changes reaches the project when it ends, as far as the policy allows; its result tells what was refused.");
	return text_json(&t);
}

static bool
has_member(const json_t *object, const char *key)
{
	return json_is_object(json_object_get(object, key));
}

static struct reply
on_initialize(const struct request *req)
{
	const json_t *params = req->rpc->params;
	const json_t *wanted = json_object_get(params, "protocolVersion");
	const json_t *can = json_object_get(params, "capabilities");
	struct connection *conn = req->conn;
	json_t *result;

	if (req->batch != NULL)
		return refuse(RPC_INVALID_REQUEST, "initialize cannot be part of a batch");
	if (conn->phase != PHASE_NEW)
		return refuse(RPC_INVALID_REQUEST, "initialize was already called");
	if (!json_is_string(wanted))
		return wrong_params("protocolVersion is not a string");
	if (can != NULL && !json_is_object(can))
		return wrong_params("capabilities is not an object");
	conn->version = version_negotiate(json_string_value(wanted));
	conn->can_ask = conn->version->structured && version_has_forms(can);
	conn->has_roots = has_member(can, "roots");
	conn->phase = PHASE_READY;
	result = json_pack("{s:s, s:o, s:o, s:o}", "protocolVersion", conn->version->name,
	    "capabilities", capabilities(conn->version), "serverInfo",
	    version_server_info(conn->version), "instructions", instructions(conn));
	return (struct reply){ .result = result };
}

static struct reply
on_discover(const struct request *req)
{
	return (struct reply){ .result = json_pack("{s:o, s:o, s:o}", "supportedVersions",
				   version_names(), "capabilities", capabilities(&version_newest),
				   "instructions", instructions(req->conn)) };
}

static struct reply
on_ping(const struct request *req)
{
	return (struct reply){ .result = json_object() };
}

static struct reply
on_set_level(const struct request *req)
{
	const json_t *level = json_object_get(req->rpc->params, "level");

	if (!json_is_string(level))
		return wrong_params("level is not a string");
	for (size_t i = 0; i < N_LEVELS; i++) {
		if (strcmp(json_string_value(level), level_name((enum level)i)) == 0) {
			req->conn->level = (enum level)i;
			return (struct reply){ .result = json_object() };
		}
	}
	return wrong_params(
	    "level is not one of debug, info, notice, warning, error, critical, alert and emergency");
}

static struct reply
on_tools_list(const struct request *req)
{
	const char *why = NULL;
	json_t *result = tools_list(req->conn, json_object_get(req->rpc->params, "cursor"), &why);

	return result != NULL ? (struct reply){ .result = result } : wrong_params(why);
}

static struct reply
on_tools_call(const struct request *req)
{
	const char *why = tools_call(req->conn, req->batch, req->rpc);

	return why == NULL ? (struct reply){ 0 } : wrong_params(why);
}

static struct reply
on_resources_list(const struct request *req)
{
	const char *why = resources_list(req->conn, req->batch, req->rpc);

	return why == NULL ? (struct reply){ 0 } : wrong_params(why);
}

static struct reply
on_resources_read(const struct request *req)
{
	const char *why = resources_read(req->conn, req->batch, req->rpc);

	return why == NULL ? (struct reply){ 0 } : wrong_params(why);
}

static struct reply
on_resource_templates(const struct request *req)
{
	return (struct reply){ .result = resources_templates(req->conn) };
}

/* ---- notifications ---- */

static struct reply
on_initialized(const struct request *req)
{
	roots_ask(req->conn);
	return (struct reply){ 0 };
}

static struct reply
on_roots_changed(const struct request *req)
{
	roots_ask(req->conn);
	return (struct reply){ 0 };
}

static struct reply
on_cancelled(const struct request *req)
{
	const json_t *id = json_object_get(req->rpc->params, "requestId");
	struct tool_call *call = rpc_is_id(id) ? call_find(req->conn, id) : NULL;

	/* If there is none, the call has been answered, and the cancellation has crossed our
	 * answer, or there never was one. */
	if (call != NULL)
		call_cancel(call);
	return (struct reply){ 0 };
}

/* ---- the table ---- */

#define IS_NOTIFICATION (1u << 0)
#define BEFORE          (1u << 1) /* also before initialize, or before it is known to be unneeded */
#define HANDSHAKE       (1u << 2) /* only in revisions with a handshake */
#define ROUNDS          (1u << 3) /* only in revisions without one */
#define NO_SLOT         (1u << 4) /* answered also while the connection waits for its slot */

/* clang-format off */
static const struct method {
	const char *name;
	unsigned flags;
	struct reply (*run)(const struct request *req);
} methods[] = {
	{ "initialize",                       HANDSHAKE | BEFORE,          on_initialize },
	{ "server/discover",                  ROUNDS | BEFORE,             on_discover },
	{ "ping",                             HANDSHAKE | BEFORE | NO_SLOT, on_ping },
	{ "logging/setLevel",                 HANDSHAKE | NO_SLOT,         on_set_level },
	{ "tools/list",                       NO_SLOT,                     on_tools_list },
	{ "tools/call",                       0,                           on_tools_call },
	{ "resources/list",                   0,                           on_resources_list },
	{ "resources/templates/list",         NO_SLOT,                     on_resource_templates },
	{ "resources/read",                   0,                           on_resources_read },
	{ "notifications/initialized",        IS_NOTIFICATION | HANDSHAKE, on_initialized },
	{ CANCELLED,                          IS_NOTIFICATION,             on_cancelled },
	{ "notifications/roots/list_changed", IS_NOTIFICATION | HANDSHAKE, on_roots_changed },
};
/* clang-format on */

static const struct method *
find(const struct rpc *rpc, bool rounds)
{
	const unsigned other = rounds ? HANDSHAKE : ROUNDS;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		bool notification = methods[i].flags & IS_NOTIFICATION;

		if ((methods[i].flags & other) == 0 &&
		    notification == (rpc->kind == RPC_NOTIFICATION) &&
		    strcmp(methods[i].name, rpc->method) == 0)
			return &methods[i];
	}
	return NULL;
}

static const json_t *
declared(const struct rpc *rpc)
{
	return json_object_get(json_object_get(rpc->params, "_meta"), META_VERSION);
}

/* Returns whether the connection has rounds. The first message decides it for good: what a
 * handshake has agreed on must not be changed by a later request. */
static bool
has_rounds(const struct connection *conn, const struct rpc *rpc)
{
	if (conn->phase == PHASE_NEW)
		return declared(rpc) != NULL || strcmp(rpc->method, "server/discover") == 0;
	return conn->version->rounds;
}

/* Checks what a request must declare where there is no handshake. */
static struct reply
check_meta(const struct rpc *rpc)
{
	const json_t *version = declared(rpc);

	if (!json_is_string(version))
		return wrong_params("_meta has no " META_VERSION);
	if (strcmp(json_string_value(version), version_newest.name) != 0)
		return (struct reply){
			.code = RPC_NO_VERSION,
			.why = "this revision of the protocol is not supported",
			.data = json_pack("{s:o, s:O}", "supported", version_names(), "requested",
			    version),
		};
	if (!has_member(json_object_get(rpc->params, "_meta"), VERSION_META_CAPABILITIES))
		return wrong_params("_meta has no " VERSION_META_CAPABILITIES);
	return (struct reply){ 0 };
}

static struct reply
run(const struct request *req)
{
	const bool rounds = has_rounds(req->conn, req->rpc);
	const struct method *method = find(req->rpc, rounds);
	struct reply reply = { 0 };

	if (rounds && req->rpc->kind == RPC_REQUEST)
		reply = check_meta(req->rpc);
	if (reply.code != 0)
		return reply;
	if (method == NULL)
		return refuse(RPC_NO_METHOD, "there is no such method");
	/* A client that has only sent requests with BEFORE may still do a handshake. */
	if (req->conn->phase == PHASE_NEW && (method->flags & BEFORE) == 0) {
		if (!rounds || req->rpc->kind != RPC_REQUEST)
			return refuse(RPC_INVALID_REQUEST, "call initialize first");
		req->conn->version = &version_newest;
		req->conn->phase = PHASE_READY;
	}
	reply = method->run(req);
	if (rounds && reply.result != NULL)
		version_result(reply.result, true);
	return reply;
}

static bool
needs_slot(const struct connection *conn, const struct rpc *rpc)
{
	const struct method *method;

	if (rpc->kind != RPC_REQUEST && rpc->kind != RPC_NOTIFICATION)
		return true;
	method = find(rpc, has_rounds(conn, rpc));
	return method != NULL && (method->flags & (NO_SLOT | BEFORE)) == 0;
}

static const json_t *
cancels(const struct rpc *rpc)
{
	if (rpc->kind != RPC_NOTIFICATION || strcmp(rpc->method, CANCELLED) != 0)
		return NULL;
	return json_object_get(rpc->params, "requestId");
}

static void
handle(struct connection *conn, struct batch *batch, const struct rpc *rpc)
{
	const struct request req = { conn, batch, rpc };
	struct reply reply = { 0 };
	json_t *answer = NULL;

	if (rpc->kind == RPC_RESPONSE) {
		connection_answered(conn, rpc);
		return;
	}
	reply = run(&req);
	/* A notification is never answered, even if it is invalid. */
	if (rpc->kind == RPC_REQUEST && reply.code != 0)
		answer = rpc_error(rpc->id, reply.code, reply.why, json_incref(reply.data));
	else if (reply.result != NULL)
		answer = rpc_result(rpc->id, reply.result);
	json_decref(reply.data);
	if (answer == NULL)
		return;
	if (batch != NULL)
		batch_leave(batch_hold(batch), answer);
	else
		connection_send(conn, answer);
}

const struct meaning methods_meaning = {
	.handle = handle,
	.needs_slot = needs_slot,
	.cancels = cancels,
};
