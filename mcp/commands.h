/*
 * The commands of one client: which run, who waits for their end, what they print while they do, and of those in the
 * background the id and the last words. They end with the client's session.
 *
 * What a client can make us hold is bounded: so many at once (COMMANDS_MAX), so many in the background, ended ones
 * included (BACKGROUND_MAX), and of each stream its head and its tail.
 */
#ifndef KODA_MCP_COMMANDS_H
#define KODA_MCP_COMMANDS_H

#include "mcp/connection.h"
#include "mcp/text.h"

/* Twice what a busy client has; the answers that are owed for them stay far below CONNECTION_HOLD_BYTES, so that a
 * cancellation is always read. */
#define COMMANDS_MAX   32
#define BACKGROUND_MAX 16
/* Of each stream. What a model reads at once, and of one in the background what it may have missed. */
#define COMMAND_OUTPUT_MAX    (32u << 10)
#define BACKGROUND_OUTPUT_MAX (64u << 10)
/* Between two reports of progress: often enough for a person, and no load for anybody. */
#define COMMAND_PROGRESS_MS    250
#define COMMAND_PROGRESS_BYTES 2048
/* 64 random bits: nobody guesses whose they are not. */
#define COMMAND_ID_SIZE 17

struct command_waiter;

struct command {
	struct command *next;
	struct commands *all;
	char id[COMMAND_ID_SIZE]; /* of one in the background */
	bool background;
	uint64_t intent; /* in the log */
	char *text;
	struct koda_command *handle;
	bool over;   /* then either the result, or */
	bool failed; /* why there is none */
	struct koda_command_result result;
	struct koda_error err;
	/* Connections that failed (a look-up, a server) while it ran, if it did not end well: a sentence a line. */
	struct text failures;
	uint64_t seen_connections; /* that were there before it */
	uint64_t began_ms, ended_ms;
	/* How far the client has been shown what it prints, by progress or by command_output. */
	uint64_t shown_out, shown_err;
	uint64_t progress_at;
	struct command_waiter *waiters;
};

struct commands;
struct commands *commands_new(struct connection *conn);
/* After the session is closed. */
void commands_free(struct commands *all);

/* May one more be begun, of this call? NULL, or a sentence. Calls that are still asking count, too. */
const char *commands_refuse(const struct commands *all, const struct call *call, bool background);
/* Does any run, of whatever client of the server? Clients may share a project. */
bool commands_run(void);

struct command_request {
	const char *text; /* for sh -c */
	const char *cwd;  /* canonical */
	unsigned timeout_ms;
	bool background;
	uint64_t intent; /* of the call, in the log */
};
/* Whoever had to be asked has said yes. NULL with *err set. */
struct command *commands_start(struct commands *all, const struct command_request *request,
    struct koda_error *err);
/* Called once, from the loop. One that is not in the background is gone after that. */
typedef void command_over_fn(struct call *call, const struct command *c);
void commands_wait(struct command *c, struct call *call, command_over_fn *over);
/* SIGTERM, after a grace SIGKILL. */
void commands_end(struct command *c);
/* What was kept of what it has printed. */
void commands_output(const struct command *c, struct koda_output *ret_out,
    struct koda_output *ret_err);

/* In the background, running or ended; NULL: there is none. */
struct command *commands_find(const struct commands *all, const char *id);
/* All of them, newest first: NULL begins, and is the end. */
const struct command *commands_next(const struct commands *all, const struct command *c);

/* Each that runs, and for how long. */
typedef void commands_fn(void *data, const char *text, double seconds);
void commands_tell(const struct commands *all, commands_fn *fn, void *data);

/* Reports progress. Returns when to look again, in ms of the clock; UINT64_MAX: when something happens. */
uint64_t commands_tick(struct commands *all, uint64_t now_ms);

#endif
