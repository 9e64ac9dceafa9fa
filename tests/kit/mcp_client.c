/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/mcp_client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct client
client_run(const char *const *argv)
{
	return (struct client){ .p = process_start(argv), .next_id = 1 };
}

void
client_forget(struct client *c)
{
	process_forget(&c->p);
	free(c->buf);
	c->buf = NULL;
}

int
client_wait(struct client *c)
{
	const int status = process_wait(&c->p);

	free(c->buf);
	c->buf = NULL;
	return status;
}

int
client_finish(struct client *c)
{
	process_close_input(&c->p);
	return client_wait(c);
}

/* ---- lines ---- */

void
send_bytes(struct client *c, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(c->p.in, data, len);

		assert_true(n > 0);
		data += n;
		len -= (size_t)n;
	}
}

void
send_line(struct client *c, const char *line)
{
	send_bytes(c, line, strlen(line));
	send_bytes(c, "\n", 1);
}

void
send_json(struct client *c, json_t *message)
{
	char *line = json_dumps(message, JSON_COMPACT);

	assert_non_null(line);
	send_line(c, line);
	free(line);
	json_decref(message);
}

json_t *
receive(struct client *c)
{
	for (;;) {
		struct pollfd pfd = { .fd = c->p.out, .events = POLLIN };
		char *newline = c->len > 0 ? memchr(c->buf, '\n', c->len) : NULL;
		ssize_t n;

		if (newline != NULL) {
			json_t *ret = json_loadb(c->buf, (size_t)(newline - c->buf),
			    JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

			if (ret == NULL)
				fail_msg("no JSON: %.*s", (int)(newline - c->buf), c->buf);
			c->len -= (size_t)(newline + 1 - c->buf);
			memmove(c->buf, newline + 1, c->len);
			return ret;
		}
		if (poll(&pfd, 1, PATIENCE_MS) != 1)
			fail_msg("the server says nothing");
		c->buf = realloc(c->buf, c->len + 65536);
		assert_non_null(c->buf);
		n = read(c->p.out, c->buf + c->len, 65536);
		assert_true(n >= 0);
		if (n == 0) {
			assert_int_equal(c->len, 0);
			return NULL;
		}
		c->len += (size_t)n;
	}
}

void
expect_silence(struct client *c, int ms)
{
	struct pollfd pfd = { .fd = c->p.out, .events = POLLIN };

	assert_int_equal(c->len, 0);
	assert_int_equal(poll(&pfd, 1, ms), 0);
}

/* ---- reading messages: "result.content.0.text" ---- */

const json_t *
look(const json_t *value, const char *path)
{
	while (value != NULL && *path != '\0') {
		size_t n = strcspn(path, ".");
		char key[128];

		snprintf(key, sizeof(key), "%.*s", (int)n, path);
		value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10))
					     : json_object_get(value, key);
		path += n + (path[n] == '.');
	}
	return value;
}

void
complain(const json_t *message, const char *path, const char *want)
{
	char *line = json_dumps(message, JSON_COMPACT);

	fail_msg("%s is not %s in %s", path, want, line);
}

const char *
string_at(const json_t *message, const char *path)
{
	const char *s = json_string_value(look(message, path));

	if (s == NULL)
		complain(message, path, "a string");
	return s;
}

void
says(const json_t *message, const char *path, const char *want)
{
	if (strcmp(string_at(message, path), want) != 0)
		complain(message, path, want);
}

void
says_part(const json_t *message, const char *path, const char *want)
{
	if (strstr(string_at(message, path), want) == NULL)
		complain(message, path, want);
}

void
counts(const json_t *message, const char *path, json_int_t want)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)want);
	if (!json_is_integer(look(message, path)) ||
	    json_integer_value(look(message, path)) != want)
		complain(message, path, text);
}

void
is_true(const json_t *message, const char *path)
{
	if (!json_is_true(look(message, path)))
		complain(message, path, "true");
}

void
is_missing(const json_t *message, const char *path)
{
	if (look(message, path) != NULL)
		complain(message, path, "missing");
}

/* ---- requests ---- */

json_int_t
request(struct client *c, const char *method, json_t *params)
{
	json_int_t id = c->next_id++;
	json_t *message =
	    json_pack("{s:s, s:I, s:s}", "jsonrpc", "2.0", "id", id, "method", method);

	if (params != NULL)
		json_object_set_new(message, "params", params);
	send_json(c, message);
	return id;
}

json_t *
answer(struct client *c, json_int_t id)
{
	json_t *message = receive(c);

	if (message == NULL)
		fail_msg("it has ended");
	is_missing(message, "method");
	counts(message, "id", id);
	return message;
}

json_t *
ask(struct client *c, const char *method, json_t *params)
{
	return answer(c, request(c, method, params));
}

json_int_t
request_tool(struct client *c, const char *name, json_t *args)
{
	return request(c, "tools/call", json_pack("{s:s, s:o}", "name", name, "arguments", args));
}

json_t *
call_tool(struct client *c, const char *name, json_t *args)
{
	return answer(c, request_tool(c, name, args));
}

void
cancel(struct client *c, json_int_t id)
{
	send_json(c,
	    json_pack("{s:s, s:s, s:{s:I}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
		"params", "requestId", id));
}

json_t *
initialize(struct client *c, const char *version, const char *capabilities)
{
	json_t *can = json_loads(capabilities, 0, NULL);
	json_t *ret;

	assert_non_null(can);
	ret = ask(c, "initialize",
	    json_pack("{s:s, s:o, s:{s:s, s:s}}", "protocolVersion", version, "capabilities", can,
		"clientInfo", "name", "test", "version", "1"));
	send_line(c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	return ret;
}

void
went_well(const json_t *message)
{
	if (look(message, "result.content") == NULL || look(message, "result.isError") != NULL)
		complain(message, "result", "a success");
}

void
went_wrong(const json_t *message, const char *code)
{
	is_true(message, "result.isError");
	is_missing(message, "result.structuredContent");
	says(message, "result._meta.koda-sandbox/error.code", code);
}

/* ---- questions ---- */

static void
talk_answer_question(struct client *c, const json_t *question)
{
	c->asked++;
	if (c->says[0] == '\0')
		return;
	send_json(c,
	    json_pack("{s:s, s:O, s:{s:s, s:{s:s}}}", "jsonrpc", "2.0", "id",
		json_object_get(question, "id"), "result", "action", c->says, "content", "scope",
		c->scope != NULL ? c->scope : "once"));
}

json_t *
talk_response(struct client *c, json_int_t id)
{
	for (;;) {
		json_t *m = receive(c);

		if (m == NULL)
			fail_msg("the server has gone");
		if (json_object_get(m, "method") == NULL &&
		    json_integer_value(json_object_get(m, "id")) == id)
			return m;
		if (json_object_get(m, "id") != NULL && json_object_get(m, "method") != NULL)
			talk_answer_question(c, m);
		json_decref(m);
	}
}

/* ---- calls of tools, by a client that answers questions ---- */

json_t *
talk_result(struct client *c, json_int_t id)
{
	json_t *response = talk_response(c, id), *ret = json_object_get(response, "result");

	if (ret == NULL) {
		char *text = json_dumps(response, 0);

		fail_msg("no result: %s", text);
	}
	json_incref(ret);
	json_decref(response);
	return ret;
}

json_t *
talk_tool(struct client *c, const char *tool, json_t *args)
{
	return talk_result(c, request_tool(c, tool, args));
}

const char *
talk_code(const json_t *result)
{
	const char *code = json_string_value(
	    json_object_get(json_object_get(json_object_get(result, "_meta"), "koda-sandbox/error"),
		"code"));

	return code != NULL ? code : "";
}

const char *
talk_text(const json_t *result)
{
	return json_string_value(
	    json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
}

void
talk_expect(struct client *c, const char *want, const char *tool, json_t *args)
{
	json_t *result = talk_tool(c, tool, args);

	if (strcmp(talk_code(result), want) != 0)
		fail_msg("%s ends with '%s' instead of '%s': %s", tool, talk_code(result), want,
		    talk_text(result));
	json_decref(result);
}
