/* The snapshots of all servers of the user that live: what `koda-sandbox top` shows. */
#ifndef KODA_MCP_STATUS_READ_H
#define KODA_MCP_STATUS_READ_H

#include <jansson.h>

#include "include/koda/sandbox.h"

/* Servers of one user; more than that is something else gone wrong. */
#define STATUS_SERVERS_MAX 256
/* All of them together have so long to answer: one that was stopped is shown as silent, and does not hold up the rest. */
#define STATUS_WAIT_MS 1000

/* An array, by process id: each server's object, or {"name": ..., "silent": true}. NULL with *err set. */
json_t *status_read_all(struct koda_error *err);

#endif
