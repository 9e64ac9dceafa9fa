/* The server put together: who is there before whom, and who goes first. */
#include "host/mcp/mcp.h"

#include <unistd.h>

#include "host/mcp/memory.h"
#include "host/mcp/record.h"
#include "host/mcp/server.h"

struct mcp {
	struct server server;
};

static struct connection *
open_parent(struct mcp *mcp, const struct mcp_options *options, struct koda_error *err)
{
	const struct connection_options co = {
		.name = "parent",
		.in = STDIN_FILENO,
		.out = STDOUT_FILENO,
		.root = options->root,
		.mode = options->mode,
		/* In the other modes the library never wants it. What a child in Safe were allowed beyond them would be more
		 * than its parent has. */
		.asks_hosts = options->mode == KODA_SAFE,
		.helper_dir = options->helper_dir,
	};

	return connection_new(&mcp->server, &co, err);
}

static enum mcp_end
serve(struct mcp *mcp, const struct mcp_options *options, struct koda_error *err)
{
	struct connection *conn = open_parent(mcp, options, err);

	if (conn == NULL)
		return MCP_FAILED;
	mcp->server.parent = server_add(&mcp->server, conn, NULL, NULL);
	if (options->audit != NULL &&
	    record_open(mcp->server.record, options->audit, conn, err) < 0)
		return MCP_NO_AUDIT;
	return server_run(&mcp->server, err) < 0 ? MCP_FAILED : MCP_ENDED;
}

enum mcp_end
mcp_serve(const struct mcp_options *options, struct koda_error *err)
{
	struct mcp mcp = { 0 };
	enum mcp_end end;

	memory_init();
	if (server_init(&mcp.server, err) < 0)
		return MCP_FAILED;
	mcp.server.record = record_new();
	end = serve(&mcp, options, err);
	/* The clients first: what they still do is written down. The log's end is the last. */
	server_done(&mcp.server);
	record_free(mcp.server.record);
	return end;
}
