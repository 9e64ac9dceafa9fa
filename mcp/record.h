/*
 * What was done, for who looks later or now: of each call two lines of the audit log, and how long it took. One a server,
 * for all of its sessions. It hooks into where calls begin and end, so that a tool is in the log whether it knows of it or
 * not; what a tool may add is where it really landed.
 */
#ifndef KODA_MCP_RECORD_H
#define KODA_MCP_RECORD_H

#include <stdbool.h>

#include "include/koda/sandbox.h"
#include "mcp/latency.h"

struct call;
struct command;
struct connection;
struct record;

struct record *record_new(void);
/* Closes the log. NULL is fine. */
void record_free(struct record *record);

/* From here on nothing is done that the log does not say before. -1 with *err set: the file may not be where it is, for
 * example below what the session may write. */
int record_open(struct record *record, const char *path, const struct connection *conn,
    struct koda_error *err);

/* Is a log kept? Then a digest that it would tell is worth reading a file for. */
bool record_is_kept(const struct record *record);

/*
 * Before the call does anything. what: the tool's name, or the method's. path NULL: from the call's arguments. -1 with
 * *err set: it must not be done.
 */
int record_begin(struct call *call, const char *what, const char *path, struct koda_error *err);
/* What the library said of it: where it landed, and the digests. */
void record_result(struct call *call, const struct koda_result *result);
/* The user was asked, or need not be: "once", "session", "kept". Static. */
void record_approved(struct call *call, const char *how);
/* How its command ended. */
void record_status(struct call *call, int status);
/* How it ended; the last one counts. A call that ends without either has an unknown outcome. */
void record_allowed(struct call *call);
void record_failed(struct call *call, const struct koda_error *err);
/* The call ends. */
void record_end(struct call *call);

/* The number of its intent, 0 without a log: for what comes of it when the call has ended. */
uint64_t record_intent(const struct call *call);
/* A command in the background has ended. */
void record_command_over(struct connection *conn, const struct command *c);
/* A child's client has come, or gone. Static. */
void record_client(struct connection *conn, const char *verdict);
/* What commands of that client reached and were refused since the last time. */
void record_news(struct connection *conn);
/* The same for the last time: also what the proxy has not said yet, and what there was no room for. */
void record_last_news(struct connection *conn);

/* The times of tools[i]. */
const struct latency *record_latency(const struct record *record, size_t i);

#endif
