/*
 * Ending TLS, when the host has asked for it: a CA made at start whose key exists in this process's memory alone, leaf
 * certificates for hosts that were allowed (made once, a bounded number kept), HTTP/1.1 by ALPN, and TLS of our own to
 * the server, verified against the policy's ca_bundle or the system's.
 *
 * The client's handshake waits until the server was verified, so that a bad certificate is the client's to see as a refusal
 * (a 502 inside) and never as a good one.
 */
#ifndef KODA_PROXY_SERVE_INTERCEPT_H
#define KODA_PROXY_SERVE_INTERCEPT_H

#include "proxy/serve/forward.h"

#define INTERCEPT_LEAVES_MAX 256

/* Before the process is confined: reads the trusted certificates. ca_bundle NULL: the system's. */
struct intercept *intercept_new(const char *ca_bundle, struct koda_error *err);
void intercept_free(struct intercept *ic);
/* PEM, ends with NUL; the intercept's. */
const char *intercept_ca(const struct intercept *ic);

typedef void intercept_fn(void *data);
struct interception;
/* A tunnel whose client has begun TLS (bytes: what of it was read already) to an allowed target. Both descriptors and the
 * account are taken. */
struct interception *intercept_start(struct listener *l, const struct target *target, int client,
    const void *bytes, size_t n, int server, struct account *account, intercept_fn *fn, void *data);
void intercept_cancel(struct interception *x);

#endif
