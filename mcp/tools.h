/*
 * The table of tools, and what all of them share: schemas, arguments, results. A tool's run() gets
 * a call whose arguments match its schema, and ends it with one of the tool_ functions, at once or
 * from a callback.
 */
#ifndef KODA_MCP_TOOLS_H
#define KODA_MCP_TOOLS_H

#include "mcp/connection.h"

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
	void (*run)(struct call *call);
};

extern const struct tool tools[];
extern const size_t n_tools;
/* Return the parsed schemas of tools[i]; the table owns them. */
const json_t *tools_input(size_t i);
const json_t *tools_output(size_t i);

/* Answers tools/list; NULL with *why set if the params are wrong. */
json_t *tools_list(struct connection *conn, const json_t *cursor, const char **why);
/* Handles tools/call. Returns NULL if it is answered or will be, otherwise why its params are
 * wrong. */
const char *tools_call(struct connection *conn, struct batch *batch, const struct rpc *rpc);

/* ---- the end of a call: each frees it ---- */

/* structured is stolen. text is for the model: it is taken too, and empty afterwards. NULL: use
 * the structured content as JSON. */
struct text;
void tool_done(struct call *call, json_t *structured, struct text *text);
/* Like tool_done(), with content of other kinds: an array of it, stolen. */
void tool_done_content(struct call *call, json_t *structured, json_t *content);
/* Ends the call with a result that the model sees: what the library reports, and what to do
 * about it. remedy is a sentence, or NULL for the usual one. */
void tool_failed(struct call *call, const struct koda_error *err, const char *remedy);
void tool_fail(struct call *call, enum koda_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- arguments that the schema has let through ---- */

/* Returns NULL if the argument is missing. */
const char *tool_string(const struct call *call, const char *key);
bool tool_bool(const struct call *call, const char *key);
/* Returns `otherwise` if the argument is missing. */
uint64_t tool_number(const struct call *call, const char *key, uint64_t otherwise);
/* Checks that the string arguments that become paths have no NUL. Returns false if the call has
 * failed. */
bool tool_check_paths(struct call *call, const char *const *keys);

/* Does op on the call's slot; done gets the call. A failure before that ends the call. For
 * operations that change something use approval_submit(). */
void tool_submit(struct call *call, const struct koda_op *op, koda_done_fn *done);

/* The rows' functions. */
void tool_read_file(struct call *call);
void tool_write_file(struct call *call);
void tool_edit_file(struct call *call);
void tool_list_directory(struct call *call);
void tool_move(struct call *call);
void tool_remove(struct call *call);
void tool_explain_access(struct call *call);
void tool_glob(struct call *call);
void tool_grep(struct call *call);
void tool_tree(struct call *call);
void tool_run_command(struct call *call);
void tool_command_output(struct call *call);
void tool_command_stop(struct call *call);
void tool_command_list(struct call *call);
void tool_open_child(struct call *call);
void tool_close_child(struct call *call);
void tool_list_children(struct call *call);

#endif
