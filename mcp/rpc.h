/*
 * JSON-RPC 2.0, one message: a line becomes a request, a notification or a response, or the error that the standard has
 * for what it is instead. Pure: knows no method. What is here holds before anybody looks at a member.
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
	/* Of the Model Context Protocol. */
	RPC_NO_RESOURCE = -32002,
	RPC_NO_VERSION = -32022,
};

/* Arguments and schemas are a few levels deep; what recurses over a message recurses no deeper than this. */
#define RPC_DEPTH_MAX 64
/* A value of two bytes takes some hundred when it is parsed: a line of nothing else would take a gigabyte. Above what a
 * batch of large edits has. */
#define RPC_VALUES_MAX (1u << 16)
/* An id is held, and echoed, for as long as its request runs. */
#define RPC_ID_MAX 256
/* As many as a client has reason to put into one line. */
#define RPC_BATCH_MAX 64

enum rpc_kind {
	RPC_REQUEST = 1,
	RPC_NOTIFICATION,
	RPC_RESPONSE,
	RPC_BATCH,
	RPC_BAD,
};

/* What points to JSON is borrowed from what was parsed. */
struct rpc {
	enum rpc_kind kind;
	const json_t *id;   /* request, response; bad: NULL where it is not known */
	const char *method; /* request, notification; without NUL */
	json_t *params;     /* an object, or NULL */
	json_t *result;     /* response; NULL: it is an error */
	json_t *error;      /* response */
	enum rpc_code code; /* bad */
	char why[160];      /* bad: one sentence */
};

/* The value of a line, to be released, or NULL with *ret saying what is bad about it. */
json_t *rpc_parse(const char *line, size_t len, struct rpc *ret);
/* What message means: the value of a line, or one of a batch's. */
void rpc_read(const json_t *message, struct rpc *ret);

/* New values. id NULL: null. result, params, data are stolen; params and data may be NULL. */
json_t *rpc_result(const json_t *id, json_t *result);
json_t *rpc_error(const json_t *id, enum rpc_code code, const char *why, json_t *data);
json_t *rpc_notification(const char *method, json_t *params);
json_t *rpc_request(json_int_t id, const char *method, json_t *params);

/* Is it a string or an integer, and not too long to be held? For ids and progress tokens. */
bool rpc_is_id(const json_t *value);

#endif
