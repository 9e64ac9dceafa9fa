/* SPDX-License-Identifier: Apache-2.0 */
/* The revisions of the protocol: which there are, what each has, and what its results look like. */
#ifndef KODA_MCP_VERSION_H
#define KODA_MCP_VERSION_H

#include <stdbool.h>

#include <jansson.h>

/* What the negotiated revision of the protocol has. Ordered by date: a later one has what an
 * earlier one had, except for batches. */
struct version {
	const char *name;
	bool batches;     /* 2025-03-26 only */
	bool annotations; /* since 2025-03-26 */
	/* Titles, output schemas, structured content, elicitation: since 2025-06-18. */
	bool structured;
	/* Invalid arguments are reported as a result that the model sees: since 2025-11-25. */
	bool arguments_told;
	/* No handshake: each request carries its own version. A question is sent as the answer
	 * to a call, and the client calls again: since 2026-07-28. */
	bool rounds;
};

/* Where a request declares the capabilities of its client, if there is no handshake. */
#define VERSION_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

/* The one without a handshake. */
extern const struct version version_newest;

/* Returns the revision with a handshake that is offered to a client that wants that one. */
const struct version *version_negotiate(const char *wanted);
/* Returns the names of all revisions. */
json_t *version_names(void);
json_t *version_server_info(const struct version *version);

/* Adds to the result what every result has where the protocol has rounds. Returns the same
 * result. */
json_t *version_result(json_t *result, bool cacheable);

/* Returns whether a client with these capabilities can put a question to a person.
 * Elicitation started with forms only. Since URLs were added, a client may support only those. */
bool version_has_forms(const json_t *capabilities);

#endif
