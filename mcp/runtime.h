/*
 * Where the servers of a user find each other: $XDG_RUNTIME_DIR/koda-sandbox, or /tmp/koda-sandbox-UID where there is no
 * such directory that is the user's own. A directory counts by what its descriptor is (ours, 0700, reached through no
 * link), and everything in it is reached by that descriptor, however long its path is.
 *
 * A server there has a name, NAME.lock, on which it holds a flock as long as it lives, and its sockets, NAME.KIND. What a
 * server that was killed left behind, the next one removes.
 *
 * Commands in a sandbox see neither /run nor /tmp of the host, and may connect to no socket outside wherever it is.
 */
#ifndef KODA_MCP_RUNTIME_H
#define KODA_MCP_RUNTIME_H

#include <stdbool.h>

#include "include/koda/sandbox.h"

#define RUNTIME_NAME_LEN 16 /* hexadecimal digits */

/* What sockets a server can have there. */
#define RUNTIME_CHILD  "child"
#define RUNTIME_STATUS "status"
#define RUNTIME_KINDS  2

/* One server's place. */
struct runtime;

/* Make the directory and a name in it, and sweep. NULL with *err set. */
struct runtime *runtime_new(struct koda_error *err);
/* Removes what is its own, and the directory when it is empty. NULL is fine; a forked child must not call it. */
void runtime_free(struct runtime *rt);
const char *runtime_name(const struct runtime *rt);

/* A listening socket NAME.KIND, SOCK_SEQPACKET or SOCK_STREAM, that does not block; one of each kind. -1 with *err set. */
int runtime_listen(struct runtime *rt, const char *kind, int type, struct koda_error *err);

/* ---- for who looks for servers ---- */

/* The directory's descriptor; -1 with err->code KODA_OK: there is none, so nobody is there; else -1 with *err set. */
int runtime_find(struct koda_error *err);
/* Connect to NAME.KIND. -1 with errno; ECONNREFUSED and ENOENT: nobody is there any more. */
int runtime_connect(int dir, const char *name, const char *kind, int type);
/* Each server's name; fn returning non-zero stops, and that is returned; -1 with errno. */
typedef int runtime_name_fn(void *data, const char *name);
int runtime_visit(int dir, runtime_name_fn *fn, void *data);

bool runtime_is_name(const char *text, size_t len);
/* Is who is at the other end the same user? */
bool runtime_peer_is_us(int fd);

/* n random bytes. A kernel that has none is not one that we run on. */
void runtime_random(void *ret, size_t n);

#endif
