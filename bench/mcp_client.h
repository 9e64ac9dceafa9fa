/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A minimal client of the Model Context Protocol: it sends one request and reads one line. We
 * measure our server and other servers with the same client, so that only the server differs.
 */
#ifndef KODA_BENCH_MCP_CLIENT_H
#define KODA_BENCH_MCP_CLIENT_H

#include <sys/types.h>

#define MCP_LINE_MAX (1u << 20) /* longest answer; a list of 1,000 entries takes a tenth of it */

struct mcp_client {
	pid_t pid;
	int to, from;
	char *line; /* the last answer, as a string */
	size_t filled, taken;
	unsigned next_id;
};
#define MCP_CLIENT_EMPTY                                                                           \
	{                                                                                          \
		.pid = -1, .to = -1, .from = -1                                                    \
	}

/* All return 0, or -1 after printing why. */

/* Start a server with dir as its working directory and wait for its answer to initialize. Its
 * standard error is discarded. The caller calls mcp_stop(), also after a failure. */
int mcp_start(struct mcp_client *ret, const char *const *argv, const char *dir);

/* Call a tool; arguments is a JSON object. A result that is a tool error counts as a failure. The
 * answer is in client->line. */
int mcp_call(struct mcp_client *client, const char *tool, const char *arguments);

/* Close the server's input, wait until the server has ended, and free the client's memory. */
int mcp_stop(struct mcp_client *client);

#endif
