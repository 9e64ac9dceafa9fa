/* SPDX-License-Identifier: Apache-2.0 */
/* A tool: one row of the table (tool_table.h). Data only. */
#ifndef KODA_MCP_TOOL_H
#define KODA_MCP_TOOL_H

#include <stddef.h>

struct tool_call;

enum tool_flags {
	TOOL_READ_ONLY = 1 << 0,
	TOOL_DESTRUCTIVE = 1 << 1, /* may destroy what was there */
	TOOL_IDEMPOTENT = 1 << 2,
	TOOL_OPEN_WORLD = 1 << 3, /* reaches beyond this machine */
	TOOL_MUTATES = 1 << 4,    /* refused in Plan, asked for in Safe */
	TOOL_RUNS = 1 << 5,       /* approval in Safe; in Plan what it runs can change nothing */
	/* Served by a process of its own, whose death does not fail the slot. */
	TOOL_APART = 1 << 6,
};

struct tool {
	const char *name;
	const char *title;
	unsigned flags; /* enum tool_flags */
	/* Few tokens: each conversation pays for all of them. The list adds what the mode means. */
	const char *description;
	const char *input;  /* JSON Schema: advertised and enforced */
	const char *output; /* of the structured content */
	size_t owed;        /* approximate bytes of an answer; see CONNECTION_HOLD_BYTES */
	void (*run)(struct tool_call *call);
};

#endif
