/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/tls_error.h"

#include <openssl/err.h>
#include <stddef.h>

const char *
tls_reason(const char *otherwise)
{
	unsigned long e = ERR_peek_last_error();
	const char *reason = e != 0 ? ERR_reason_error_string(e) : NULL;

	return reason != NULL ? reason : otherwise;
}

int
tls_failed(struct koda_error *err, const char *what)
{
	return err_set(err, KODA_IO, 0, "%s: %s", what, tls_reason("no memory"));
}
