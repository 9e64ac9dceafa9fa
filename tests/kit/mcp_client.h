/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP client of the tests: sends JSON-RPC line by line, and takes the answers apart. Each
 * function fails the case when the server does not do what it should. bench/mcp_client.c is another
 * client, because parsing an answer would be measured, too.
 */
#ifndef KODA_TESTS_KIT_MCP_CLIENT_H
#define KODA_TESTS_KIT_MCP_CLIENT_H

#include <jansson.h>

#include "tests/kit/process.h"

struct client {
	struct process p;
	/* Its answer to a question, such as "accept"; NULL: cannot be asked; "": never answers. For
	 * the talk_ functions; the others leave questions to the test. */
	const char *says;
	const char *scope; /* the scope of an accept; NULL: once */
	unsigned asked;
	json_int_t next_id;
	char *buf;
	size_t len;
};

struct client client_run(const char *const *argv);
/* Closes the pipes, for a server that was waited for otherwise. */
void client_forget(struct client *c);
/* As process_wait() and process_finish(). */
int client_wait(struct client *c);
int client_finish(struct client *c);

/* ---- lines ---- */

void send_bytes(struct client *c, const char *data, size_t len);
void send_line(struct client *c, const char *line);
/* Steals the reference. */
void send_json(struct client *c, json_t *message);
/* Returns the next message, of any kind, or NULL at the end. The caller owns it. */
json_t *receive(struct client *c);
/* Fails if any message arrives within that time. */
void expect_silence(struct client *c, int ms);

/* ---- reading messages: "result.content.0.text" ---- */

const json_t *look(const json_t *value, const char *path);
/* Fails the case with the message. */
void complain(const json_t *message, const char *path, const char *want);
const char *string_at(const json_t *message, const char *path);
void says(const json_t *message, const char *path, const char *want);
void says_part(const json_t *message, const char *path, const char *want);
void counts(const json_t *message, const char *path, json_int_t want);
void is_true(const json_t *message, const char *path);
void is_missing(const json_t *message, const char *path);
/* Requires that the call succeeded. */
void went_well(const json_t *message);
/* Requires that the call was refused or failed with that code. */
void went_wrong(const json_t *message, const char *code);

/* ---- requests ---- */

/* Sends a request and returns its id. Steals params, which may be NULL. */
json_int_t request(struct client *c, const char *method, json_t *params);
/* Requires the next message to be the answer to that request. */
json_t *answer(struct client *c, json_int_t id);
json_t *ask(struct client *c, const char *method, json_t *params);
/* Both steal args. */
json_int_t request_tool(struct client *c, const char *name, json_t *args);
json_t *call_tool(struct client *c, const char *name, json_t *args);
/* Tells the server that a request is cancelled. */
void cancel(struct client *c, json_int_t id);
/* capabilities is JSON text. */
json_t *initialize(struct client *c, const char *version, const char *capabilities);

/* ---- calls of tools, by a client that answers questions ---- */

/* Returns the response to the request with that id. Messages before it are questions, which it
 * answers, or are ignored. */
json_t *talk_response(struct client *c, json_int_t id);
/* Returns the result; the caller releases it. */
json_t *talk_result(struct client *c, json_int_t id);
/* Steals args. */
json_t *talk_tool(struct client *c, const char *tool, json_t *args);
/* Returns "" for success, else the error's code. */
const char *talk_code(const json_t *result);
const char *talk_text(const json_t *result);
/* Requires the call to end with that code, "" for success. Steals args. */
void talk_expect(struct client *c, const char *want, const char *tool, json_t *args);

#endif
