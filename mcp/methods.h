/* SPDX-License-Identifier: Apache-2.0 */
/* The requests and notifications of a client: a table of the protocol's methods, and the phases
 * in which each may come. */
#ifndef KODA_MCP_METHODS_H
#define KODA_MCP_METHODS_H

#include "mcp/connection_state.h"

extern const struct meaning methods_meaning;

#endif
