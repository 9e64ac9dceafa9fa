/* SPDX-License-Identifier: Apache-2.0 */
/* The places of the host that a session's file operations and commands may write: an audit log
 * must not be inside them. */
#ifndef KODA_MCP_AUDIT_PLACES_H
#define KODA_MCP_AUDIT_PLACES_H

#include <stddef.h>

#include "include/koda/sandbox.h"

struct audit_places {
	char **path;
	size_t n;
};

/* Finds the root, in every mode because another mode writes there, what the policy allows
 * writing, and what the sandbox of commands mounts writable. Returns 0 with *ret set, to be
 * freed with audit_places_done(), or -1 with *err set. */
int audit_places_find(const char *root, enum koda_mode mode, const struct koda_policy *policy,
    struct audit_places *ret, struct koda_error *err);
void audit_places_done(struct audit_places *places);

#endif
