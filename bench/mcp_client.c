/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mcp_client.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define REQUEST_MAX 4096

static int
complain(const char *what)
{
	fprintf(stderr, "mcp: %s: %s\n", what, strerror(errno));
	return -1;
}

static int
send_all(struct mcp_client *c, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(c->to, text, len);

		if (n < 0)
			return complain("write");
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Read the next line into c->line, as a string. Returns 0, or -1 after printing why. */
static int
next_line(struct mcp_client *c)
{
	char *end;

	/* Keep what was read after the previous line. */
	memmove(c->line, c->line + c->taken, c->filled - c->taken);
	c->filled -= c->taken;
	c->taken = 0;
	while ((end = memchr(c->line, '\n', c->filled)) == NULL) {
		ssize_t n;

		if (c->filled == MCP_LINE_MAX) {
			errno = EMSGSIZE;
			return complain("answer");
		}
		n = read(c->from, c->line + c->filled, MCP_LINE_MAX - c->filled);
		if (n <= 0) {
			errno = n == 0 ? ECONNRESET : errno;
			return complain("read");
		}
		c->filled += (size_t)n;
	}
	*end = '\0';
	c->taken = (size_t)(end - c->line) + 1;
	return 0;
}

/* Read lines until the answer to request `id`. Returns 0 if it is a result, -1 after printing why
 * otherwise. Searches for the id, with the members in either order, instead of parsing the answer,
 * because parsing would be measured, too. */
static int
answer(struct mcp_client *c, unsigned id)
{
	char wanted[32], other[32];

	snprintf(wanted, sizeof(wanted), "\"id\":%u,", id);
	snprintf(other, sizeof(other), "\"id\":%u}", id);
	for (;;) {
		if (next_line(c) < 0)
			return -1;
		/* Skip notifications: some servers send them although the measured calls do not ask
		 * for any. */
		if (strstr(c->line, wanted) == NULL && strstr(c->line, other) == NULL)
			continue;
		if (strstr(c->line, "\"isError\":true") == NULL &&
		    strstr(c->line, "\"result\":") != NULL)
			return 0;
		fprintf(stderr, "mcp: %.300s\n", c->line);
		return -1;
	}
}

static int
spawn(struct mcp_client *c, const char *const *argv, const char *dir)
{
	posix_spawn_file_actions_t actions;
	cleanup_close int in = -1, out = -1;
	int to[2], from[2], r;

	if (pipe2(to, O_CLOEXEC) < 0)
		return complain("pipe");
	in = to[0];
	c->to = to[1];
	if (pipe2(from, O_CLOEXEC) < 0)
		return complain("pipe");
	c->from = from[0];
	out = from[1];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addchdir_np(&actions, dir);
	r = posix_spawnp(&c->pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r == 0)
		return 0;
	errno = r;
	return complain(argv[0]);
}

int
mcp_start(struct mcp_client *ret, const char *const *argv, const char *dir)
{
	static const char hello[] =
	    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
	    "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}"
	    "\n";
	static const char ready[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

	*ret = (struct mcp_client)MCP_CLIENT_EMPTY;
	ret->next_id = 1;
	ret->line = malloc(MCP_LINE_MAX);
	if (ret->line == NULL)
		return complain("memory");
	if (spawn(ret, argv, dir) < 0 || send_all(ret, hello, strlen(hello)) < 0 ||
	    answer(ret, 0) < 0)
		return -1;
	return send_all(ret, ready, strlen(ready));
}

int
mcp_call(struct mcp_client *c, const char *tool, const char *arguments)
{
	char text[REQUEST_MAX];
	unsigned id = c->next_id++;
	int len = snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
	    "\"arguments\":%s}}\n",
	    id, tool, arguments);

	if (len >= (int)sizeof(text)) {
		errno = EMSGSIZE;
		return complain(tool);
	}
	return send_all(c, text, (size_t)len) < 0 ? -1 : answer(c, id);
}

int
mcp_stop(struct mcp_client *c)
{
	int status = 0, r = 0;

	close_at(&c->to);
	if (c->pid > 0 && waitpid(c->pid, &status, 0) < 0)
		r = complain("wait");
	close_at(&c->from);
	free(c->line);
	*c = (struct mcp_client)MCP_CLIENT_EMPTY;
	return r;
}
