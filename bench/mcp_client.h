/*
 * A client of the Model Context Protocol that does no more than it has to: one request, one line back. The same for our
 * server and for those of others, so that what differs is the server.
 */
#ifndef KODA_BENCH_MCP_CLIENT_H
#define KODA_BENCH_MCP_CLIENT_H

#include <sys/types.h>

#define MCP_LINE_MAX (1u << 20) /* of an answer; a thousand entries take a tenth */

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

/* All return 0, or -1 after saying why. */

/* Start it with dir as its working directory and wait until initialize is answered. What it says on standard error is
 * thrown away. */
int mcp_start(struct mcp_client *ret, const char *const *argv, const char *dir);

/* arguments: a JSON object. A result that is an error of the tool is a failure. The answer is in client->line. */
int mcp_call(struct mcp_client *client, const char *tool, const char *arguments);

/* End of input, and wait until it has ended. */
int mcp_stop(struct mcp_client *client);

#endif
