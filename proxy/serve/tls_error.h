/* SPDX-License-Identifier: Apache-2.0 */
/* Why OpenSSL failed, in a sentence. */
#ifndef KODA_PROXY_SERVE_TLS_ERROR_H
#define KODA_PROXY_SERVE_TLS_ERROR_H

#include "shared/base/err.h"

/* Returns OpenSSL's reason, or `otherwise`. */
const char *tls_reason(const char *otherwise);
/* Sets *err to what failed, with that reason. Returns -1. */
int tls_failed(struct koda_error *err, const char *what);

#endif
