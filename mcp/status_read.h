/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots of all running servers of the user, which `koda-sandbox top` shows. */
#ifndef KODA_MCP_STATUS_READ_H
#define KODA_MCP_STATUS_READ_H

#include <jansson.h>

#include "include/koda/sandbox.h"

/* Servers of one user; a larger number means that something else is wrong. */
#define STATUS_SERVERS_MAX 256
/* The time in which all servers have to answer: a stopped one is shown as silent, and does not
 * hold up the rest. */
#define STATUS_WAIT_MS 1000

/* Returns an array, ordered by process id: each server's object, or {"name": ..., "silent":
 * true}. NULL with *err set on failure. */
json_t *status_read_all(struct koda_error *err);

#endif
