/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One JSON-RPC 2.0 message: turns a line into a request, a notification or a response, or into the
 * error that the standard defines for it. Pure: knows no method. The checks here are done before
 * any other code reads a member.
 */
#ifndef KODA_MCP_RPC_H
#define KODA_MCP_RPC_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum rpc_code {
	RPC_PARSE = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_NO_METHOD = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	/* Defined by the Model Context Protocol. */
	RPC_NO_RESOURCE = -32002,
	RPC_NO_VERSION = -32022,
};

/* Arguments and schemas are a few levels deep; code that recurses over a message goes no deeper
 * than this. */
#define RPC_DEPTH_MAX 64
/* A value of two bytes takes some hundred bytes when parsed: a line of nothing else would take a
 * gigabyte. This is more than a batch of large edits has. */
#define RPC_VALUES_MAX (1u << 16)
/* An id is held for as long as its request runs, and echoed. */
#define RPC_ID_MAX 256
/* As many messages as a client has reason to put into one line. */
#define RPC_BATCH_MAX 64

enum rpc_kind {
	RPC_REQUEST = 1,
	RPC_NOTIFICATION,
	RPC_RESPONSE,
	RPC_BATCH,
	RPC_BAD,
};

/* Pointers to JSON are borrowed from the parsed value. */
struct rpc {
	enum rpc_kind kind;
	const json_t *id;   /* request, response; bad: NULL if unknown */
	const char *method; /* request, notification; without NUL */
	json_t *params;     /* an object, or NULL */
	json_t *result;     /* response; NULL: an error */
	json_t *error;      /* response */
	enum rpc_code code; /* bad */
	char why[160];      /* bad: one sentence */
};

/* Returns the value of a line, which the caller releases, or NULL with *ret saying what is wrong
 * with it. */
json_t *rpc_parse(const char *line, size_t len, struct rpc *ret);
/* Classifies message, the value of a line or of a member of a batch. */
void rpc_read(const json_t *message, struct rpc *ret);

/* Return new values. id NULL: null. result, params and data are stolen; params and data may be
 * NULL. */
json_t *rpc_result(const json_t *id, json_t *result);
json_t *rpc_error(const json_t *id, enum rpc_code code, const char *why, json_t *data);
json_t *rpc_notification(const char *method, json_t *params);
json_t *rpc_request(json_int_t id, const char *method, json_t *params);

/* Returns whether value is a string or an integer, and short enough to be held. For ids and
 * progress tokens. */
bool rpc_is_id(const json_t *value);

#endif
