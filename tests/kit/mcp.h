/*
 * A hand-written MCP client: it runs a real koda-sandbox mcp in the test's own installation,
 * writes lines to it and reads messages from it.
 */
#ifndef KODA_TESTS_SUPPORT_MCP_H
#define KODA_TESTS_SUPPORT_MCP_H

#include <errno.h>
#include <fcntl.h>
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "shared/base/cleanup.h"

#define mcp_unused __attribute__((unused))
/* Longer than anything here takes; a test that waits this long has failed. */
#define PATIENCE_MS 20000

static char prefix[PATH_MAX - 256];  /* the installation */
static char project[PATH_MAX - 128]; /* the current test's root */
static char outside[PATH_MAX - 128];

struct client {
	pid_t pid;
	int in, out; /* its standard input and output; -1: closed */
	char *buf;
	size_t len;
	json_int_t next_id;
};

/* ---- the scene ---- */

/* Runs a shell script with the arguments as $1 and on, so that names need no quoting. */
static mcp_unused void
shell(const char *script, const char *one, const char *two, const char *three)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-euc", script, "sh", one, two, three, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static mcp_unused int
make_installation(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX], real[PATH_MAX];

	snprintf(name, sizeof(name), "%s/koda-mcp.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(name) == NULL || realpath(name, real) == NULL)
		return -1;
	snprintf(prefix, sizeof(prefix), "%s", real);
	shell(
	    "cd \"$1\" && mkdir -p bin libexec/koda-sandbox && cp \"$2/cli/koda-sandbox\" bin && "
	    "cp \"$2/worker/koda-fs-worker\" \"$2/search/koda-fs-search\" \"$2/proxy/koda-egress-proxy\" "
	    "\"$2/connect/koda-egress-connect\" \"$3\" libexec/koda-sandbox",
	    prefix, KODA_TEST_BUILD_DIR, KODA_TEST_STAGE2);
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

static mcp_unused int
remove_installation(void **state)
{
	shell("rm -rf \"$1\"", prefix, NULL, NULL);
	return 0;
}

static mcp_unused int
make_project(void **state)
{
	snprintf(project, sizeof(project), "%s/scene/project", prefix);
	snprintf(outside, sizeof(outside), "%s/scene/outside", prefix);
	shell("mkdir -p \"$1\" \"$2\"", project, outside, NULL);
	return 0;
}

static mcp_unused int
remove_project(void **state)
{
	shell("rm -rf \"$1/scene\"", prefix, NULL, NULL);
	return 0;
}

static mcp_unused const char *
at_root(const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", project, name);
	return p;
}

static mcp_unused void
put_bytes(const char *name, const void *data, size_t len)
{
	int fd = open(at_root(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static mcp_unused void
put_text(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static mcp_unused void
holds_text(const char *name, const char *want)
{
	char text[4096];
	cleanup_close int fd = open(at_root(name), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	assert_int_equal(n < 0, want == NULL);
	if (n < 0)
		return;
	text[n] = '\0';
	assert_string_equal(text, want);
}

static mcp_unused uint64_t
clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- the process ---- */

static mcp_unused struct client
client_start(const char *mode)
{
	struct client c = { .next_id = 1 };
	char program[PATH_MAX];
	int in[2], out[2];

	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
			_exit(126);
		signal(SIGPIPE, SIG_DFL);
		execl(program, program, "mcp", "--root", project, "--mode", mode, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c.in = in[1];
	c.out = out[0];
	return c;
}

static mcp_unused void
close_input(struct client *c)
{
	if (c->in >= 0)
		close(c->in);
	c->in = -1;
}

/* Returns the exit status, or -signal. */
static mcp_unused int
client_wait(struct client *c)
{
	const uint64_t until = clock_ms() + PATIENCE_MS;
	int status;

	while (waitpid(c->pid, &status, WNOHANG) == 0) {
		if (clock_ms() > until)
			fail_msg("the server does not end");
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	close_input(c);
	close(c->out);
	free(c->buf);
	c->buf = NULL;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Ends a test: closes the input, upon which the server must exit in order. */
static mcp_unused void
client_end(struct client *c)
{
	close_input(c);
	assert_int_equal(client_wait(c), 0);
}

/* ---- lines ---- */

static mcp_unused void
send_bytes(struct client *c, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(c->in, data, len);

		assert_true(n > 0);
		data += n;
		len -= (size_t)n;
	}
}

static mcp_unused void
send_line(struct client *c, const char *line)
{
	send_bytes(c, line, strlen(line));
	send_bytes(c, "\n", 1);
}

/* Steals the reference. */
static mcp_unused void
send_json(struct client *c, json_t *message)
{
	char *line = json_dumps(message, JSON_COMPACT);

	assert_non_null(line);
	send_line(c, line);
	free(line);
	json_decref(message);
}

/* Returns the next message, of any kind, or NULL at the end. The caller owns it. */
static mcp_unused json_t *
receive(struct client *c)
{
	for (;;) {
		struct pollfd pfd = { .fd = c->out, .events = POLLIN };
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
		n = read(c->out, c->buf + c->len, 65536);
		assert_true(n >= 0);
		if (n == 0) {
			assert_int_equal(c->len, 0);
			return NULL;
		}
		c->len += (size_t)n;
	}
}

/* Fails if any message arrives within that time. */
static mcp_unused void
expect_silence(struct client *c, int ms)
{
	struct pollfd pfd = { .fd = c->out, .events = POLLIN };

	assert_int_equal(c->len, 0);
	assert_int_equal(poll(&pfd, 1, ms), 0);
}

/* ---- reading messages: "result.content.0.text" ---- */

static mcp_unused const json_t *
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

static mcp_unused void
complain(const json_t *message, const char *path, const char *want)
{
	char *line = json_dumps(message, JSON_COMPACT);

	fail_msg("%s is not %s in %s", path, want, line);
}

static mcp_unused const char *
string_at(const json_t *message, const char *path)
{
	const char *s = json_string_value(look(message, path));

	if (s == NULL)
		complain(message, path, "a string");
	return s;
}

static mcp_unused void
says(const json_t *message, const char *path, const char *want)
{
	if (strcmp(string_at(message, path), want) != 0)
		complain(message, path, want);
}

static mcp_unused void
says_part(const json_t *message, const char *path, const char *want)
{
	if (strstr(string_at(message, path), want) == NULL)
		complain(message, path, want);
}

static mcp_unused void
counts(const json_t *message, const char *path, json_int_t want)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)want);
	if (!json_is_integer(look(message, path)) ||
	    json_integer_value(look(message, path)) != want)
		complain(message, path, text);
}

static mcp_unused void
is_true(const json_t *message, const char *path)
{
	if (!json_is_true(look(message, path)))
		complain(message, path, "true");
}

static mcp_unused void
is_missing(const json_t *message, const char *path)
{
	if (look(message, path) != NULL)
		complain(message, path, "missing");
}

/* ---- requests ---- */

/* Sends a request and returns its id. Steals params, which may be NULL. */
static mcp_unused json_int_t
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

/* Requires the next message to be the answer to that request. */
static mcp_unused json_t *
answer(struct client *c, json_int_t id)
{
	json_t *message = receive(c);

	if (message == NULL)
		fail_msg("it has ended");
	is_missing(message, "method");
	counts(message, "id", id);
	return message;
}

static mcp_unused json_t *
ask(struct client *c, const char *method, json_t *params)
{
	return answer(c, request(c, method, params));
}

/* Steals args. */
static mcp_unused json_int_t
request_tool(struct client *c, const char *name, json_t *args)
{
	return request(c, "tools/call", json_pack("{s:s, s:o}", "name", name, "arguments", args));
}

static mcp_unused json_t *
call_tool(struct client *c, const char *name, json_t *args)
{
	return answer(c, request_tool(c, name, args));
}

/* capabilities is JSON text. */
static mcp_unused json_t *
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

static mcp_unused struct client
client_open(const char *mode, const char *capabilities)
{
	struct client c = client_start(mode);

	json_decref(initialize(&c, "2025-11-25", capabilities));
	return c;
}

/* Requires that the call succeeded. */
static mcp_unused void
went_well(const json_t *message)
{
	if (look(message, "result.content") == NULL || look(message, "result.isError") != NULL)
		complain(message, "result", "a success");
}

/* Requires that the call was refused or failed with that code. */
static mcp_unused void
went_wrong(const json_t *message, const char *code)
{
	is_true(message, "result.isError");
	is_missing(message, "result.structuredContent");
	says(message, "result._meta.koda-sandbox/error.code", code);
}

static mcp_unused long
resident_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	}
	fclose(f);
	return kib;
}

#endif
