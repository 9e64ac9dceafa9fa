/* SPDX-License-Identifier: Apache-2.0 */
/* What an MCP client sends: lines, in pieces, and how each of them is parsed. The result does not
 * depend on the pieces; an invalid line gets a sentence and one of the standard's codes; an answer
 * can be written and read again; a schema can judge any value. */
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "mcp/line.h"
#include "mcp/rpc.h"
#include "mcp/schema.h"
#include "mcp/tools.h"

static void
check_text(const char *s)
{
	must(s[0] != '\0');
	for (; *s != '\0'; s++)
		must((unsigned char)*s >= ' ' && (unsigned char)*s < 0x7f);
}

static void
check_bad(const struct rpc *rpc)
{
	json_t *answer = rpc_error(rpc->id, rpc->code, rpc->why, NULL), *again;
	char *line = json_dumps(answer, JSON_COMPACT);

	check_text(rpc->why);
	must(rpc->code == RPC_PARSE || rpc->code == RPC_INVALID_REQUEST ||
	    rpc->code == RPC_INVALID_PARAMS);
	must(line != NULL && strchr(line, '\n') == NULL);
	again = json_loads(line, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	must(again != NULL && json_equal(again, answer));
	json_decref(again);
	json_decref(answer);
	free(line);
}

static void
check_params(const struct rpc *rpc)
{
	char why[SCHEMA_WHY_MAX];

	for (size_t i = 0; i < n_tools; i++)
		must(schema_holds(tools_input(i), rpc->params, why) == (why[0] == '\0'));
}

static void
check_message(const json_t *message)
{
	struct rpc rpc;

	rpc_read(message, &rpc);
	must(rpc.id == NULL || rpc_is_id(rpc.id));
	switch (rpc.kind) {
	case RPC_REQUEST:
	case RPC_NOTIFICATION:
		must(rpc.method != NULL && (rpc.id != NULL) == (rpc.kind == RPC_REQUEST));
		must(rpc.params == NULL || json_is_object(rpc.params));
		if (rpc.params != NULL)
			check_params(&rpc);
		break;
	case RPC_RESPONSE:
		must(rpc.id != NULL && (rpc.result != NULL) != (rpc.error != NULL));
		break;
	case RPC_BATCH:
		must(json_array_size(message) > 0 && json_array_size(message) <= RPC_BATCH_MAX);
		for (size_t i = 0; i < json_array_size(message); i++) {
			if (!json_is_array(json_array_get(message, i)))
				check_message(json_array_get(message, i));
		}
		break;
	case RPC_BAD:
		check_bad(&rpc);
		break;
	}
}

static void
check_line(const char *line, size_t len)
{
	struct rpc rpc;
	json_t *value = rpc_parse(line, len, &rpc);

	if (value == NULL) {
		must(rpc.kind == RPC_BAD && rpc.code == RPC_PARSE && rpc.id == NULL);
		check_bad(&rpc);
		return;
	}
	check_message(value);
	json_decref(value);
}

/* Feed data in pieces of this size, check each line, and summarise all of them. */
static size_t
read_lines(const uint8_t *data, size_t size, size_t piece, bool look)
{
	struct line_reader r = { 0 };
	size_t sum = 0, len;
	const char *line;

	for (size_t at = 0; at < size; at += piece) {
		size_t room, n = size - at < piece ? size - at : piece;
		char *to = line_room(&r, &room);

		must(room >= n);
		memcpy(to, data + at, n);
		line_came(&r, n);
		while (line_ready(&r)) {
			must(line_next(&r, &line, &len) == LINE_WHOLE);
			must(memchr(line, '\n', len) == NULL);
			sum = sum * 31 + len;
			if (look)
				check_line(line, len);
		}
	}
	if (line_rest(&r, &line, &len) == LINE_WHOLE) {
		sum = sum * 31 + len;
		if (look)
			check_line(line, len);
	}
	line_done(&r);
	return sum;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece;

	if (size < 2 || size > 20000)
		return 0;
	piece = 1 + data[0];
	must(read_lines(data + 1, size - 1, piece, true) ==
	    read_lines(data + 1, size - 1, size, false));
	return 0;
}
