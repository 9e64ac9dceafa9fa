/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/rpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp/text.h"

__attribute__((format(printf, 3, 4))) static void
bad(struct rpc *ret, enum rpc_code code, const char *fmt, ...)
{
	va_list ap;

	ret->kind = RPC_BAD;
	ret->code = code;
	va_start(ap, fmt);
	vsnprintf(ret->why, sizeof(ret->why), fmt, ap);
	va_end(ap);
}

/* Checks the limits before anything recurses or allocates: the number of open brackets, and the
 * number of values. Returns NULL, or what is wrong. */
static const char *
is_too_much(const char *p, size_t len)
{
	unsigned depth = 0, values = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '[' || p[i] == '{') {
			if (++depth > RPC_DEPTH_MAX)
				return "nested too deep";
			values++;
		} else if (p[i] == ',') {
			values++;
		} else if ((p[i] == ']' || p[i] == '}') && depth > 0) {
			depth--;
		}
		if (values > RPC_VALUES_MAX)
			return "a message has too many values";
	}
	return NULL;
}

json_t *
rpc_parse(const char *line, size_t len, struct rpc *ret)
{
	const char *why = is_too_much(line, len);
	json_error_t err;
	json_t *value;

	*ret = (struct rpc){ 0 };
	if (why != NULL) {
		bad(ret, RPC_PARSE, "%s", why);
		return NULL;
	}
	/* Duplicate keys are rejected because readers differ about their meaning; so are numbers
	 * that do not fit. */
	value =
	    json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &err);
	if (value == NULL) {
		/* Leave out the text near the error: those bytes can be anything. */
		char *near = strstr(err.text, " near ");

		if (near != NULL)
			*near = '\0';
		bad(ret, RPC_PARSE, "not JSON: %s", err.text);
	}
	return value;
}

bool
rpc_is_id(const json_t *value)
{
	return json_is_integer(value) ||
	    (json_is_string(value) && json_string_length(value) <= RPC_ID_MAX);
}

/* Returns the method's name, or NULL if it is not a string or contains NUL. */
static const char *
method_of(const json_t *message)
{
	const json_t *method = json_object_get(message, "method");

	if (!json_is_string(method) ||
	    strlen(json_string_value(method)) != json_string_length(method))
		return NULL;
	return json_string_value(method);
}

static void
read_response(const json_t *message, struct rpc *ret)
{
	ret->result = json_object_get(message, "result");
	ret->error = json_object_get(message, "error");
	if (ret->id == NULL)
		bad(ret, RPC_INVALID_REQUEST,
		    "a response needs the id of a request of this server");
	else if ((ret->result == NULL) == (ret->error == NULL))
		bad(ret, RPC_INVALID_REQUEST,
		    "a message needs a method, or exactly one of result and error");
	else if (ret->error != NULL && !json_is_object(ret->error))
		bad(ret, RPC_INVALID_REQUEST, "error is not an object");
	else
		ret->kind = RPC_RESPONSE;
}

static void
read_object(const json_t *message, struct rpc *ret)
{
	const json_t *version = json_object_get(message, "jsonrpc");
	const json_t *id = json_object_get(message, "id");
	json_t *params = json_object_get(message, "params");

	if (rpc_is_id(id))
		ret->id = id;
	if (!json_is_string(version) || json_string_length(version) != 3 ||
	    strcmp(json_string_value(version), "2.0") != 0) {
		bad(ret, RPC_INVALID_REQUEST, "jsonrpc is not \"2.0\"");
	} else if (id != NULL && ret->id == NULL) {
		bad(ret, RPC_INVALID_REQUEST,
		    "an id must be an integer, or a string of at most %d bytes", RPC_ID_MAX);
	} else if (json_object_get(message, "method") == NULL) {
		read_response(message, ret);
	} else if ((ret->method = method_of(message)) == NULL) {
		bad(ret, RPC_INVALID_REQUEST, "method must be a string without NUL");
	} else if (params != NULL && !json_is_object(params)) {
		/* JSON-RPC allows positional params too, but no method here has any. */
		bad(ret, ret->id != NULL ? RPC_INVALID_PARAMS : RPC_INVALID_REQUEST,
		    "params is not an object");
	} else {
		ret->params = params;
		ret->kind = ret->id != NULL ? RPC_REQUEST : RPC_NOTIFICATION;
	}
}

void
rpc_read(const json_t *message, struct rpc *ret)
{
	*ret = (struct rpc){ 0 };
	if (json_is_object(message))
		read_object(message, ret);
	else if (!json_is_array(message))
		bad(ret, RPC_INVALID_REQUEST, "a message must be an object");
	else if (json_array_size(message) == 0)
		bad(ret, RPC_INVALID_REQUEST, "a batch must not be empty");
	else if (json_array_size(message) > RPC_BATCH_MAX)
		bad(ret, RPC_INVALID_REQUEST, "a batch may have at most %d messages",
		    RPC_BATCH_MAX);
	else
		ret->kind = RPC_BATCH;
}

static json_t *
message_new(void)
{
	json_t *message = json_object();

	json_object_set_new_nocheck(message, "jsonrpc", json_string_nocheck("2.0"));
	return message;
}

static json_t *
answer_new(const json_t *id)
{
	json_t *message = message_new();

	json_object_set_new_nocheck(message, "id",
	    id != NULL ? json_copy((json_t *)id) : json_null());
	return message;
}

json_t *
rpc_result(const json_t *id, json_t *result)
{
	json_t *message = answer_new(id);

	json_object_set_new_nocheck(message, "result", result);
	return message;
}

json_t *
rpc_error(const json_t *id, enum rpc_code code, const char *why, json_t *data)
{
	json_t *message = answer_new(id), *error = json_object();

	json_object_set_new_nocheck(error, "code", json_integer(code));
	/* It may quote what a client sent, cut in the middle of a character. */
	json_object_set_new_nocheck(error, "message", text_json_string(why));
	if (data != NULL)
		json_object_set_new_nocheck(error, "data", data);
	json_object_set_new_nocheck(message, "error", error);
	return message;
}

json_t *
rpc_notification(const char *method, json_t *params)
{
	json_t *message = message_new();

	json_object_set_new_nocheck(message, "method", json_string_nocheck(method));
	if (params != NULL)
		json_object_set_new_nocheck(message, "params", params);
	return message;
}

json_t *
rpc_request(json_int_t id, const char *method, json_t *params)
{
	json_t *message = rpc_notification(method, params);

	json_object_set_new_nocheck(message, "id", json_integer(id));
	return message;
}
