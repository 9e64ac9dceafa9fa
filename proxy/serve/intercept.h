/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminates TLS, when the host has asked for it: a CA made at start whose key exists in this
 * process's memory alone, leaf certificates for allowed hosts (made once, a bounded number kept),
 * HTTP/1.1 by ALPN, and TLS of our own to the server, verified against the policy's ca_bundle or
 * the system's.
 *
 * The client's handshake waits until the server is verified, so that the client sees a bad
 * certificate as a refusal (a 502 inside TLS) and never as a good one.
 */
#ifndef KODA_PROXY_SERVE_INTERCEPT_H
#define KODA_PROXY_SERVE_INTERCEPT_H

#include "proxy/serve/forward.h"

/* Read the trusted certificates: call before the process is confined. ca_bundle NULL: the
 * system's. */
struct intercept *intercept_new(const char *ca_bundle, struct koda_error *err);
void intercept_free(struct intercept *ic);
/* Return the CA's certificate: PEM, ends with NUL, owned by the intercept. */
const char *intercept_ca(const struct intercept *ic);

typedef void intercept_fn(void *data);
struct interception;
/* Intercept a tunnel to an allowed target whose client has begun TLS (bytes: what was read of it
 * already). Takes both descriptors and the account. */
struct interception *intercept_start(struct listener *l, const struct target *target, int client,
    const void *bytes, size_t n, int server, struct account *account, intercept_fn *fn, void *data);
void intercept_cancel(struct interception *x);

#endif
