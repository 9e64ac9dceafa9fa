/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of one client: which ones run, which calls wait for their end, what they print
 * meanwhile, and the ids and last output of those in the background. They end with the client's
 * session.
 *
 * What a client can make us hold is bounded: the number of commands at once (COMMANDS_MAX), the
 * number in the background, ended ones included (BACKGROUND_MAX), and the head and the tail of each
 * stream.
 */
#ifndef KODA_MCP_COMMANDS_H
#define KODA_MCP_COMMANDS_H

#include "mcp/connection_state.h"
#include "mcp/text.h"

/* Twice what a busy client uses. The answers owed for them stay far below CONNECTION_HOLD_BYTES,
 * so that a cancellation is always read. */
#define COMMANDS_MAX   32
#define BACKGROUND_MAX 16
/* Per stream: what a model reads at once, and for a background command what it may have missed. */
#define COMMAND_OUTPUT_MAX    (32u << 10)
#define BACKGROUND_OUTPUT_MAX (64u << 10)
/* Minimum time between two progress reports: often enough for a person, without noticeable load. */
#define COMMAND_PROGRESS_MS    250
#define COMMAND_PROGRESS_BYTES 2048
/* 64 random bits in hexadecimal, so that one client cannot guess the ids of another. */
#define COMMAND_ID_SIZE 17

struct command_waiter;

struct command {
	struct command *next;
	struct command_list *all;
	char id[COMMAND_ID_SIZE]; /* of a background command */
	bool background;
	uint64_t intent; /* its seq in the audit log */
	char *text;
	struct koda_slot *slot; /* where it runs, if not in the client's */
	struct koda_command *handle;
	bool over;   /* then result is valid, unless failed */
	bool failed; /* err says why there is no result */
	struct koda_command_result result;
	struct koda_error err;
	/* Connections that failed (in a look-up, or at a server) while it ran, if it did not end
	 * well: one sentence per line. */
	struct text failures;
	uint64_t seen_connections; /* connections of the slot before it started */
	uint64_t began_ms, ended_ms;
	/* How much of its output the client has been shown, by progress or by command_output. */
	uint64_t shown_out, shown_err;
	uint64_t progress_at;
	struct command_waiter *waiters;
};

struct command_list;
struct command_list *commands_new(struct connection *conn);
/* Call it after the session is closed. */
void commands_free(struct command_list *all);

/* Checks whether this call may start one more command. Returns NULL, or a sentence saying why
 * not. Calls that are still asking count too. */
const char *commands_refuse(const struct command_list *all, const struct tool_call *call,
    bool background);
/* Returns whether any client of the server has a running command. Clients may share a project. */
bool commands_run(void);

struct command_request {
	const char *text; /* for sh -c */
	const char *cwd;  /* canonical */
	unsigned timeout_ms;
	bool background;
	uint64_t intent;        /* of the call, in the audit log */
	struct koda_slot *slot; /* NULL: the client's */
};
/* Starts a command that needs no approval, or that has been approved. Returns NULL with *err set
 * on failure. */
struct command *commands_start(struct command_list *all, const struct command_request *request,
    struct koda_error *err);
/* Called once, from the loop. A foreground command is freed after that. */
typedef void command_over_fn(struct tool_call *call, const struct command *c);
void commands_wait(struct command *c, struct tool_call *call, command_over_fn *over);
/* Sends SIGTERM, and SIGKILL after a grace period. */
void commands_end(struct command *c);
/* Returns the part of its output that was kept. */
void commands_output(const struct command *c, struct koda_output *ret_out,
    struct koda_output *ret_err);

/* Returns the background command with this id, running or ended, or NULL. */
struct command *commands_find(const struct command_list *all, const char *id);
/* Iterates over all of them, newest first: c NULL returns the first, NULL is the end. */
const struct command *commands_next(const struct command_list *all, const struct command *c);

/* Calls fn for each running command, with the time that it has been running. */
typedef void commands_fn(void *data, const char *text, double seconds);
void commands_tell(const struct command_list *all, commands_fn *fn, void *data);

/* Reports progress. Returns when to call it again, in ms of the clock; UINT64_MAX: not before
 * something happens. */
uint64_t commands_tick(struct command_list *all, uint64_t now_ms);

#endif
