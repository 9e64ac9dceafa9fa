/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the servers of a user find each other: $XDG_RUNTIME_DIR/koda-sandbox, or
 * /tmp/koda-sandbox-UID if there is no such directory owned by the user. A directory is judged by
 * its descriptor (ours, 0700, reached through no link), and everything in it is reached through
 * that descriptor, however long its path is.
 *
 * A server there has a name, a file NAME.lock on which it holds a flock as long as it lives, and
 * its sockets, NAME.KIND. The next server removes what a killed server left behind.
 *
 * Commands in a sandbox see neither /run nor /tmp of the host, and cannot connect to any socket
 * outside, wherever it is.
 */
#ifndef KODA_MCP_RUNTIME_H
#define KODA_MCP_RUNTIME_H

#include <stdbool.h>

#include "include/koda/sandbox.h"

#define RUNTIME_NAME_LEN 16 /* hexadecimal digits */

/* The sockets that a server can have there. */
#define RUNTIME_CHILD  "child"
#define RUNTIME_STATUS "status"
#define RUNTIME_KINDS  2

/* One server's place in the directory. */
struct runtime;

/* Creates the directory and a name in it, and removes what dead servers left. Returns NULL with
 * *err set on failure. */
struct runtime *runtime_new(struct koda_error *err);
/* Removes the server's own files, and the directory if it is empty. rt may be NULL; a forked
 * child must not call it. */
void runtime_free(struct runtime *rt);
const char *runtime_name(const struct runtime *rt);

/* Creates a non-blocking listening socket NAME.KIND, SOCK_SEQPACKET or SOCK_STREAM; one of each
 * kind. Returns it, or -1 with *err set. */
int runtime_listen(struct runtime *rt, const char *kind, int type, struct koda_error *err);

/* ---- finding servers ---- */

/* Returns the directory's descriptor; -1 with err->code KODA_OK if there is no directory, so no
 * server; otherwise -1 with *err set. */
int runtime_find(struct koda_error *err);
/* Connects to NAME.KIND. Returns the socket, or -1 with errno; ECONNREFUSED and ENOENT: the
 * server is gone. */
int runtime_connect(int dir, const char *name, const char *kind, int type);
/* Calls fn with each server's name. A non-zero return of fn stops, and is returned; -1 with
 * errno on failure. */
typedef int runtime_name_fn(void *data, const char *name);
int runtime_visit(int dir, runtime_name_fn *fn, void *data);

bool runtime_is_name(const char *text, size_t len);
/* Returns whether the peer is the same user. */
bool runtime_peer_is_us(int fd);

/* Fills ret with n random bytes. Aborts if the kernel has none. */
void runtime_random(void *ret, size_t n);

#endif
