/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp/rpc.c: what a line is: a request, a notification, a response, a batch, or which of the
 * standard's errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/rpc.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

#define V "\"jsonrpc\":\"2.0\""

/* clang-format off */
static const struct {
	const char *label, *line;
	enum rpc_kind kind;
	int code;
	const char *id; /* as JSON; NULL: none is known */
} cases[] = {
	{ "request", "{" V ",\"id\":1,\"method\":\"ping\"}", RPC_REQUEST, 0, "1" },
	{ "request with a name as id", "{" V ",\"id\":\"a\",\"method\":\"ping\",\"params\":{}}", RPC_REQUEST, 0, "\"a\"" },
	{ "negative id", "{" V ",\"id\":-7,\"method\":\"ping\"}", RPC_REQUEST, 0, "-7" },
	{ "empty id", "{" V ",\"id\":\"\",\"method\":\"ping\"}", RPC_REQUEST, 0, "\"\"" },
	{ "blanks around", " \t{" V " , \"id\" : 1 , \"method\" : \"ping\" }\r ", RPC_REQUEST, 0, "1" },
	{ "members that we do not know", "{" V ",\"id\":1,\"method\":\"ping\",\"more\":[1]}", RPC_REQUEST, 0, "1" },
	{ "notification", "{" V ",\"method\":\"notifications/x\"}", RPC_NOTIFICATION, 0, NULL },
	{ "response", "{" V ",\"id\":3,\"result\":{}}", RPC_RESPONSE, 0, "3" },
	{ "response, an error", "{" V ",\"id\":3,\"error\":{\"code\":1,\"message\":\"\"}}", RPC_RESPONSE, 0, "3" },
	{ "batch", "[{" V ",\"id\":1,\"method\":\"ping\"},5]", RPC_BATCH, 0, NULL },

	{ "nothing", "", RPC_BAD, -32700, NULL },
	{ "blanks", "  \t ", RPC_BAD, -32700, NULL },
	{ "words", "hello", RPC_BAD, -32700, NULL },
	{ "half an object", "{" V ",\"id\":1,", RPC_BAD, -32700, NULL },
	{ "two objects", "{" V ",\"id\":1,\"method\":\"ping\"}{}", RPC_BAD, -32700, NULL },
	{ "a key twice", "{" V ",\"id\":1,\"id\":2,\"method\":\"ping\"}", RPC_BAD, -32700, NULL },
	{ "a key twice, deep inside", "{" V ",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":{\"b\":1,\"b\":1}}}", RPC_BAD, -32700, NULL },
	{ "a key twice, by an escape", "{" V ",\"id\":1,\"\\u0069d\":2,\"method\":\"ping\"}", RPC_BAD, -32700, NULL },
	{ "no UTF-8", "{" V ",\"id\":1,\"method\":\"p\xff\"}", RPC_BAD, -32700, NULL },
	{ "over-long UTF-8", "{" V ",\"id\":1,\"method\":\"p\xc0\xaf\"}", RPC_BAD, -32700, NULL },
	{ "half of a surrogate", "{" V ",\"id\":1,\"method\":\"p\\ud800\"}", RPC_BAD, -32700, NULL },
	{ "a huge integer", "{" V ",\"id\":123456789012345678901234567890,\"method\":\"ping\"}", RPC_BAD, -32700, NULL },
	{ "a huge real", "{" V ",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":1e999}}", RPC_BAD, -32700, NULL },
	{ "no number", "{" V ",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":NaN}}", RPC_BAD, -32700, NULL },
	{ "a control character", "{" V ",\"id\":1,\"method\":\"a\x01\"}", RPC_BAD, -32700, NULL },

	{ "a number", "5", RPC_BAD, -32600, NULL },
	{ "null", "null", RPC_BAD, -32600, NULL },
	{ "a string", "\"ping\"", RPC_BAD, -32600, NULL },
	{ "an empty batch", "[]", RPC_BAD, -32600, NULL },
	{ "an empty object", "{}", RPC_BAD, -32600, NULL },
	{ "no version", "{\"id\":1,\"method\":\"ping\"}", RPC_BAD, -32600, "1" },
	{ "another version", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", RPC_BAD, -32600, "1" },
	{ "a version with a NUL", "{\"jsonrpc\":\"2.0\\u0000\",\"id\":1,\"method\":\"ping\"}", RPC_BAD, -32600, "1" },
	{ "the version as a number", "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", RPC_BAD, -32600, "1" },
	{ "null as id", "{" V ",\"id\":null,\"method\":\"ping\"}", RPC_BAD, -32600, NULL },
	{ "a fraction as id", "{" V ",\"id\":1.5,\"method\":\"ping\"}", RPC_BAD, -32600, NULL },
	{ "an object as id", "{" V ",\"id\":{},\"method\":\"ping\"}", RPC_BAD, -32600, NULL },
	{ "a method that is a number", "{" V ",\"id\":1,\"method\":5}", RPC_BAD, -32600, "1" },
	{ "a method with a NUL", "{" V ",\"id\":1,\"method\":\"ping\\u0000\"}", RPC_BAD, -32600, "1" },
	{ "neither method nor result", "{" V ",\"id\":1}", RPC_BAD, -32600, "1" },
	{ "result and error", "{" V ",\"id\":1,\"result\":{},\"error\":{}}", RPC_BAD, -32600, "1" },
	{ "a response without an id", "{" V ",\"result\":{}}", RPC_BAD, -32600, NULL },
	{ "an error that is none", "{" V ",\"id\":1,\"error\":5}", RPC_BAD, -32600, "1" },
	{ "params by position", "{" V ",\"id\":1,\"method\":\"ping\",\"params\":[1]}", RPC_BAD, -32602, "1" },
	{ "params that are none", "{" V ",\"id\":1,\"method\":\"ping\",\"params\":5}", RPC_BAD, -32602, "1" },
	{ "a notification's params by position", "{" V ",\"method\":\"x\",\"params\":[1]}", RPC_BAD, -32600, NULL },
};
/* clang-format on */

static void
check(const char *line, size_t len, enum rpc_kind kind, int code, const char *id)
{
	struct rpc rpc;
	json_t *value = rpc_parse(line, len, &rpc);
	json_t *want = id != NULL ? json_loads(id, JSON_DECODE_ANY, NULL) : NULL;

	if (value != NULL)
		rpc_read(value, &rpc);
	assert_int_equal(rpc.kind, kind);
	assert_int_equal(rpc.code, code);
	assert_int_equal(rpc.id != NULL, want != NULL);
	assert_true(want == NULL || json_equal(rpc.id, want));
	assert_int_equal(kind == RPC_BAD, rpc.why[0] != '\0');
	assert_int_equal(rpc.method != NULL && kind != RPC_BAD,
	    kind == RPC_REQUEST || kind == RPC_NOTIFICATION);
	json_decref(want);
	json_decref(value);
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;

	check(cases[i].line, strlen(cases[i].line), cases[i].kind, cases[i].code, cases[i].id);
}

static void
nested(void **state)
{
	char line[2 * RPC_DEPTH_MAX + 64];

	for (size_t depth = RPC_DEPTH_MAX - 1; depth <= RPC_DEPTH_MAX; depth++) {
		size_t n = (size_t)sprintf(line, "{" V ",\"id\":1,\"method\":\"[[\",\"x\":");

		for (size_t i = 0; i < depth; i++)
			line[n++] = '[';
		for (size_t i = 0; i < depth; i++)
			line[n++] = ']';
		line[n++] = '}';
		if (depth < RPC_DEPTH_MAX)
			check(line, n, RPC_REQUEST, 0, "1");
		else
			check(line, n, RPC_BAD, RPC_PARSE, NULL);
	}
}

/* A line of small values is as long as any other, but parsed it would take a hundred times as
 * much memory. */
static void
many_values(void **state)
{
	static char line[2 * RPC_VALUES_MAX + 64];

	for (size_t values = RPC_VALUES_MAX - 4; values <= RPC_VALUES_MAX + 1; values += 5) {
		size_t n = (size_t)sprintf(line, "{" V ",\"id\":1,\"method\":\",,\",\"x\":");

		/* The printed part contains four values. */
		for (size_t i = 4; i < values; i++) {
			line[n++] = i > 4 ? ',' : '[';
			line[n++] = '1';
		}
		line[n++] = ']';
		line[n++] = '}';
		if (values <= RPC_VALUES_MAX)
			check(line, n, RPC_REQUEST, 0, "1");
		else
			check(line, n, RPC_BAD, RPC_PARSE, NULL);
	}
}

/* No parser recurses before the depth is known. */
static void
nested_for_ever(void **state)
{
	const size_t n = 1 << 20;
	char *line = malloc(n);

	assert_non_null(line);
	memset(line, '[', n);
	check(line, n, RPC_BAD, RPC_PARSE, NULL);
	free(line);
}

static void
long_id(void **state)
{
	for (int len = RPC_ID_MAX; len <= RPC_ID_MAX + 1; len++) {
		char line[RPC_ID_MAX + 64], id[RPC_ID_MAX + 8];
		int n;

		snprintf(id, sizeof(id), "\"%0*d\"", len, 0);
		n = snprintf(line, sizeof(line), "{" V ",\"id\":%s,\"method\":\"ping\"}", id);
		if (len <= RPC_ID_MAX)
			check(line, (size_t)n, RPC_REQUEST, 0, id);
		else
			check(line, (size_t)n, RPC_BAD, RPC_INVALID_REQUEST, NULL);
	}
}

static void
large_batch(void **state)
{
	for (size_t count = RPC_BATCH_MAX; count <= RPC_BATCH_MAX + 1; count++) {
		char line[2 * RPC_BATCH_MAX + 16] = "[1";

		for (size_t i = 1; i < count; i++)
			strcat(line, ",1");
		strcat(line, "]");
		check(line, strlen(line), count <= RPC_BATCH_MAX ? RPC_BATCH : RPC_BAD,
		    count <= RPC_BATCH_MAX ? 0 : RPC_INVALID_REQUEST, NULL);
	}
}

static void
expect_text(json_t *message, const char *want)
{
	char *line = json_dumps(message, JSON_COMPACT);

	assert_string_equal(line, want);
	free(line);
	json_decref(message);
}

static void
written(void **state)
{
	json_t *id = json_string("x");

	expect_text(rpc_result(id, json_object()), "{" V ",\"id\":\"x\",\"result\":{}}");
	expect_text(rpc_error(NULL, RPC_PARSE, "why", NULL),
	    "{" V ",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"why\"}}");
	expect_text(rpc_error(id, RPC_NO_METHOD, "why", json_true()),
	    "{" V ",\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"why\",\"data\":true}}");
	expect_text(rpc_notification("n", NULL), "{" V ",\"method\":\"n\"}");
	expect_text(rpc_request(4, "m", json_object()),
	    "{" V ",\"method\":\"m\",\"params\":{},\"id\":4}");
	json_decref(id);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(nested),
		cmocka_unit_test(many_values),
		cmocka_unit_test(nested_for_ever),
		cmocka_unit_test(long_id),
		cmocka_unit_test(large_batch),
		cmocka_unit_test(written),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(single)];
	size_t n = 0;

	CASES(cases, check_case);
	OTHERS(single);
	return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
