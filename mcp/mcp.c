/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles the server: the order in which its parts start and end. */
#include "mcp/mcp.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "mcp/child.h"
#include "mcp/child_copy.h"
#include "mcp/connection.h"
#include "mcp/memory.h"
#include "mcp/methods.h"
#include "mcp/record.h"
#include "mcp/report.h"
#include "mcp/session_drafts.h"
#include "mcp/tool_table.h"

struct mcp {
	struct server server;
	struct runtime *rt;
	struct status *status;
	struct server_watch watch; /* of the status socket */
};

static void
on_status(struct server_watch *watch, short revents)
{
	const struct mcp *mcp = (struct mcp *)((char *)watch - offsetof(struct mcp, watch));

	status_dispatch(mcp->status);
}

/* Opens the sockets for children and for `koda-sandbox top`. Everything else works without them. */
static void
open_doors(struct mcp *mcp, const struct mcp_options *options)
{
	struct koda_error err;

	mcp->rt = runtime_new(&err);
	if (mcp->rt != NULL)
		mcp->server.hub.children =
		    children_new(&mcp->server, mcp->rt, options->helper_dir, &err);
	if (mcp->server.hub.children != NULL)
		mcp->status = status_new(mcp->rt, report_fill, &mcp->server, &err);
	if (mcp->status == NULL) {
		fprintf(stderr,
		    "koda-sandbox: warning: %s; %s'koda-sandbox top' does not show this server\n",
		    err.message,
		    mcp->server.hub.children == NULL ? "no child can connect, and " : "");
		return;
	}
	mcp->watch = (struct server_watch){
		.fd = status_fd(mcp->status),
		.events = POLLIN,
		.ready = on_status,
	};
	server_watch(&mcp->server, &mcp->watch);
}

static struct connection *
open_parent(struct mcp *mcp, const struct mcp_options *options, struct koda_error *err)
{
	const struct connection_options co = {
		.name = "parent",
		.in = STDIN_FILENO,
		.out = STDOUT_FILENO,
		.root = options->root,
		.mode = options->mode,
		/* In the other modes the library never asks about hosts. If a child in Safe mode
		 * could ask, it could be allowed more than its parent. */
		.asks_hosts = options->mode == KODA_SAFE,
		.drafts = options->draft,
		.judged = options->judged,
		.helper_dir = options->helper_dir,
	};

	return connection_new(&mcp->server.hub, &co, err);
}

static enum mcp_end
serve(struct mcp *mcp, const struct mcp_options *options, struct koda_error *err)
{
	struct connection *conn = open_parent(mcp, options, err);

	if (conn == NULL)
		return MCP_FAILED;
	mcp->server.parent = server_add(&mcp->server, conn, NULL, NULL);
	if (options->audit != NULL &&
	    record_open(mcp->server.hub.record, options->audit, conn, err) < 0)
		return MCP_NO_AUDIT;
	open_doors(mcp, options);
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
	mcp.server.hub.record = record_new(tools, n_tools);
	mcp.server.hub.meaning = &methods_meaning;
	end = serve(&mcp, options, err);
	/* The clients end first, because what they still do is logged. The log ends last. */
	server_done(&mcp.server);
	if (mcp.status != NULL)
		server_unwatch(&mcp.server, &mcp.watch);
	status_free(mcp.status);
	children_free(mcp.server.hub.children);
	session_drafts_free(&mcp.server.hub);
	child_copies_free(&mcp.server.hub);
	runtime_free(mcp.rt);
	record_free(mcp.server.hub.record);
	return end;
}
