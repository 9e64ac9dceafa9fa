/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user has allowed for longer than once: writing and editing below a directory, and one
 * exact command for as long as the tree below the root stays as it was when the user looked. Pure.
 */
#ifndef KODA_MCP_CONSENT_H
#define KODA_MCP_CONSENT_H

#include <stdbool.h>
#include <stddef.h>

#include "mcp/tree.h"

/* More would amount to a policy made of mouse clicks. */
#define CONSENTS_MAX 64

enum consent_kind {
	CONSENT_CONTENT = 1, /* covers is a canonical directory */
	CONSENT_COMMAND,     /* covers is everything that identifies the command */
};

struct consent {
	enum consent_kind kind;
	char *covers;
	size_t covers_len;
	struct tree_state tree; /* for a command */
};

/* Zero-initialise. */
struct consents {
	struct consent all[CONSENTS_MAX];
	size_t n;
};

/* Adds a copy of it. Drops the oldest when there are too many. */
void consents_add(struct consents *cs, const struct consent *one);
bool consents_have_content(const struct consents *cs, const char *path);
/* Returns whether this command is allowed. Drops the consent if the tree has changed since it
 * was given. */
bool consents_have_command(struct consents *cs, const struct consent *one);
/* Gives the consent for this command, if there is one, the state of its tree. */
void consents_renew(struct consents *cs, const struct consent *one);
/* Drops the consents for commands. */
void consents_lapse(struct consents *cs);
void consents_done(struct consents *cs);

#endif
