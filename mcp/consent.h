/*
 * What the user has allowed for longer than once: writing and editing below a directory, and exactly one command for as
 * long as the tree below the root stays as it was when he looked. Pure.
 */
#ifndef KODA_MCP_CONSENT_H
#define KODA_MCP_CONSENT_H

#include <stdbool.h>
#include <stddef.h>

#include "mcp/tree.h"

/* More would be a policy of its own, by mouse clicks. */
#define CONSENTS_MAX 64

enum consent_kind {
	CONSENT_CONTENT = 1, /* covers: a directory, canonical */
	CONSENT_COMMAND,     /* covers: all that makes it this one */
};

struct consent {
	enum consent_kind kind;
	char *covers;
	size_t covers_len;
	struct tree_state tree; /* of a command */
};

/* Zero-initialise. */
struct consents {
	struct consent all[CONSENTS_MAX];
	size_t n;
};

/* A copy of it. The eldest goes when there are too many. */
void consents_add(struct consents *cs, const struct consent *one);
bool consents_have_content(const struct consents *cs, const char *path);
/* One that the tree has changed since is gone after this. */
bool consents_have_command(struct consents *cs, const struct consent *one);
/* Those of commands are gone. */
void consents_lapse(struct consents *cs);
void consents_done(struct consents *cs);

#endif
