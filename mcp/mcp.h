/* The Model Context Protocol server: all of it, for the command line to start. */
#ifndef KODA_MCP_MCP_H
#define KODA_MCP_MCP_H

#include "include/koda/sandbox.h"

struct mcp_options {
	const char *root;
	enum koda_mode mode;
	const char *helper_dir; /* NULL: where the program is installed */
	const char *audit;      /* NULL: no log is kept */
};

enum mcp_end {
	MCP_ENDED = 0, /* in order */
	MCP_FAILED,    /* KODA_UNSUPPORTED: the sandbox that the mode needs could not be built */
	MCP_NO_AUDIT,  /* the log cannot be kept there: nothing was served */
};

/* Serves standard input and output until the input ends or a signal ends it. What is not MCP_ENDED is with *err set. */
enum mcp_end mcp_serve(const struct mcp_options *options, struct koda_error *err);

#endif
