/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that knows no MCP: the part of mcp that stands alone, in a process that takes orders on
 * its standard input. For each child it sends back each piece that it reads, after the child's
 * number.
 *
 *	mcp_host                a server: "open N", "revoke N", "end N STATUS SENTENCE",
 *	                        "refusals", "big", "ping"
 *	mcp_host child TOKEN    the program that a child's MCP client starts
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcp/endpoint.h"
#include "mcp/endpoint_client.h"
#include "mcp/status.h"

#define CHILDREN_MAX 8

static struct child_agent {
	uint64_t number;
	int in, out, control; /* control -1: free */
} children[CHILDREN_MAX];

static struct endpoint *ep;
static struct latency latency;
static bool big;

static void
bury(struct child_agent *child)
{
	close(child->in);
	close(child->out);
	child->control = -1;
}

static void
on_child(void *data, uint64_t number, int in, int out, int control)
{
	for (size_t i = 0; i < CHILDREN_MAX; i++) {
		if (children[i].control < 0) {
			children[i] = (struct child_agent){ number, in, out, control };
			return;
		}
	}
	abort();
}

static void
echo(struct child_agent *child)
{
	char buf[512];
	ssize_t n = read(child->in, buf, sizeof(buf));

	if (n <= 0) {
		endpoint_end(child->control, 0, NULL);
		bury(child);
		return;
	}
	dprintf(child->out, "%llu:%.*s", (unsigned long long)child->number, (int)n, buf);
}

static void
fill(void *data, struct status_snapshot *snapshot)
{
	struct status_session session = { .name = "main",
		.root = "/p\033]0;x\007\xff",
		.mode = "safe",
		.stats = { .slots = 1, .calls = latency.calls } };
	struct koda_connection connection = { .host = "a.example",
		.port = 443,
		.outcome = KODA_CONNECTION_DENIED };
	char text[STATUS_TEXT_MAX + 1];

	status_add_session(snapshot, &session);
	status_add_worker(snapshot, "main", getpid());
	status_add_command(snapshot, "main", "make all", 1.5);
	status_add_connection(snapshot, "main", &connection);
	latency_add(&latency, 100);
	status_add_tool(snapshot, "read_file", &latency);
	status_add_number(snapshot, "child_refusals", endpoint_refusals(ep));
	if (!big)
		return;
	memset(text, 1, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (size_t i = 0; i < STATUS_ROWS_MAX; i++) {
		session.name = session.root = text;
		connection.host = text;
		status_add_session(snapshot, &session);
		status_add_command(snapshot, text, text, 1);
		status_add_connection(snapshot, text, &connection);
	}
}

static void
end(const char *words)
{
	unsigned long long number = strtoull(words, (char **)(uintptr_t)&words, 10);
	unsigned long status = strtoul(words, (char **)(uintptr_t)&words, 10);

	for (size_t i = 0; i < CHILDREN_MAX; i++) {
		if (children[i].control >= 0 && children[i].number == number) {
			endpoint_end(children[i].control, (uint8_t)status,
			    words + strspn(words, " "));
			bury(&children[i]);
		}
	}
}

static void
obey(char *line)
{
	char token[ENDPOINT_TOKEN_SIZE];
	struct koda_error err;

	if (strncmp(line, "open ", 5) == 0) {
		bool good = endpoint_open(ep, strtoull(line + 5, NULL, 10), token, &err) == 0;

		printf("%s\n", good ? token : err.message);
	} else if (strncmp(line, "revoke ", 7) == 0) {
		endpoint_revoke(ep, strtoull(line + 7, NULL, 10));
		puts("revoked");
	} else if (strncmp(line, "end ", 4) == 0) {
		end(line + 4);
	} else if (strcmp(line, "refusals") == 0) {
		printf("%llu\n", (unsigned long long)endpoint_refusals(ep));
	} else if (strcmp(line, "big") == 0) {
		big = true;
		puts("big");
	} else {
		puts("pong");
	}
}

/* Returns false at the end of input. The peer only ever writes whole lines. */
static bool
obey_lines(void)
{
	char buf[4096], *line = buf, *newline;
	ssize_t n = read(0, buf, sizeof(buf) - 1);

	if (n <= 0)
		return false;
	buf[n] = '\0';
	while ((newline = strchr(line, '\n')) != NULL) {
		*newline = '\0';
		obey(line);
		line = newline + 1;
	}
	return true;
}

static void
serve(struct status *status)
{
	for (;;) {
		struct pollfd fds[3 + 2 * CHILDREN_MAX] = { { .fd = 0, .events = POLLIN },
			{ .fd = endpoint_fd(ep), .events = POLLIN },
			{ .fd = status_fd(status), .events = POLLIN } };

		for (size_t i = 0; i < CHILDREN_MAX; i++) {
			bool lives = children[i].control >= 0;

			fds[3 + 2 * i] =
			    (struct pollfd){ .fd = lives ? children[i].in : -1, .events = POLLIN };
			fds[4 + 2 * i] = (struct pollfd){ .fd = lives ? children[i].control : -1,
				.events = POLLIN };
		}
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
			abort();
		if (fds[0].revents != 0 && !obey_lines())
			return;
		for (size_t i = 0; i < CHILDREN_MAX; i++) {
			if (fds[4 + 2 * i].revents != 0 && children[i].control >= 0) {
				printf("gone %llu\n", (unsigned long long)children[i].number);
				close(children[i].control);
				bury(&children[i]);
			} else if (fds[3 + 2 * i].revents != 0 && children[i].control >= 0) {
				echo(&children[i]);
			}
		}
		if (fds[1].revents != 0)
			endpoint_dispatch(ep);
		if (fds[2].revents != 0)
			status_dispatch(status);
	}
}

static int
be_child(const char *token)
{
	struct koda_error err;
	int status = endpoint_client_run(token, 0, 1, &err);

	if (err.message[0] != '\0')
		fprintf(stderr, "%s\n", err.message);
	return status >= 0 ? status : 125;
}

int
main(int argc, char **argv)
{
	struct koda_error err = { 0 };
	struct status *status = NULL;
	struct runtime *rt;

	if (argc == 3)
		return be_child(argv[2]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < CHILDREN_MAX; i++)
		children[i].control = -1;
	rt = runtime_new(&err);
	if (rt != NULL)
		ep = endpoint_new(rt, on_child, NULL, &err);
	if (ep != NULL)
		status = status_new(rt, fill, NULL, &err);
	if (status != NULL) {
		printf("ready %s\n", runtime_name(rt));
		serve(status);
	} else {
		printf("%s\n", err.message);
	}
	status_free(status);
	endpoint_free(ep);
	runtime_free(rt);
	return status != NULL ? 0 : 1;
}
