/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of an interception: a CA whose key exists in this process's memory alone, and
 * leaves for hosts, made once; a bounded number is kept.
 */
#ifndef KODA_PROXY_SERVE_CERTIFICATES_H
#define KODA_PROXY_SERVE_CERTIFICATES_H

#include <openssl/types.h>

#include "proxy/target.h"
#include "shared/base/err.h"

#define CERTIFICATES_LEAVES_MAX 256

struct certificates;

struct certificates *certificates_new(struct koda_error *err);
void certificates_free(struct certificates *c);
/* Return the CA's certificate: PEM, ends with NUL, owned by *c. */
const char *certificates_ca(const struct certificates *c);

/* Return a leaf for the target, which *c keeps. NULL: no memory. */
X509 *certificates_leaf(struct certificates *c, const struct target *t);
/* Return the key of all leaves, which *c keeps. */
EVP_PKEY *certificates_key(const struct certificates *c);

#endif
