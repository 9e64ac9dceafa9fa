/* Which places of the host a session's file operations and commands may write: what an audit log must not be in. */
#ifndef KODA_MCP_AUDIT_PLACES_H
#define KODA_MCP_AUDIT_PLACES_H

#include <stddef.h>

#include "include/koda/sandbox.h"

struct audit_places {
	char **path;
	size_t n;
};

/* The root, whatever the mode: another mode writes there. What the policy lets be written, and what the sandbox of commands
 * has mounted so. 0, or -1 with *err set. */
int audit_places_find(const char *root, enum koda_mode mode, const struct koda_policy *policy,
    struct audit_places *ret, struct koda_error *err);
void audit_places_done(struct audit_places *places);

#endif
