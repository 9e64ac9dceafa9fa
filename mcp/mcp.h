/* SPDX-License-Identifier: Apache-2.0 */
/* The whole Model Context Protocol server, for the command line to start. */
#ifndef KODA_MCP_MCP_H
#define KODA_MCP_MCP_H

#include "include/koda/sandbox.h"

struct mcp_options {
	const char *root;
	enum koda_mode mode;
	const char *helper_dir; /* NULL: the directory where the program is installed */
	const char *audit;      /* NULL: keep no log */
	bool draft;             /* work in a draft */
	bool judged;            /* commands in drafts of their own, applied when they end */
};

enum mcp_end {
	MCP_ENDED = 0, /* ended normally */
	/* KODA_UNSUPPORTED: the sandbox that the mode needs could not be built. */
	MCP_FAILED,
	/* The log cannot be kept there: nothing was served. */
	MCP_NO_AUDIT,
};

/* Serves standard input and output until the input ends or a signal arrives. Sets *err unless it
 * returns MCP_ENDED. */
enum mcp_end mcp_serve(const struct mcp_options *options, struct koda_error *err);

#endif
