/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server name in a TLS ClientHello, which may be split over records in any way, up to HELLO_MAX
 * bytes. Pure.
 */
#ifndef KODA_PROXY_ACCEPT_HELLO_H
#define KODA_PROXY_ACCEPT_HELLO_H

#include <stddef.h>

#include "shared/rules/domain.h"

#define HELLO_MAX 32768 /* with record headers; post-quantum key shares take some 2 KiB */

enum hello_result {
	HELLO_INCOMPLETE,
	HELLO_OK,
	/* The first byte is not a handshake's; also SSLv2's hello, which has no server name. */
	HELLO_NOT_TLS,
	HELLO_BAD, /* TLS, but invalid, or larger than HELLO_MAX */
};

struct tls_hello {
	bool has_name;
	/* Has an encrypted_client_hello (or what may be one) or the old encrypted_server_name. */
	bool encrypted;
	char name[DOMAIN_HOST_MAX + 1]; /* canonical */
	size_t len;                     /* of its records; other data follows */
};

/* Parse a hello. Starts again with each piece that arrives, as http_request_parse() does:
 * HELLO_MAX makes that harmless. Sets *ret only with HELLO_OK. A name that is not a host is
 * HELLO_BAD, and so is anything after the hello in its last record: no client has a reason to
 * send that, and it might be another hello. */
enum hello_result hello_parse(const void *bytes, size_t n, struct tls_hello *ret, const char **why);

/* Does a server's first record ask for another hello (RFC 8446, HelloRetryRequest)? Incomplete:
 * not yet known; it is known after HELLO_ANSWER_LEN bytes at the latest. */
#define HELLO_ANSWER_LEN 43
enum hello_answer {
	HELLO_ANSWER_INCOMPLETE,
	HELLO_ANSWER_OTHER,
	HELLO_ANSWER_RETRY,
};
enum hello_answer hello_answer_parse(const void *bytes, size_t n);

/* A fatal alert for the client: unrecognized_name. */
#define HELLO_ALERT_LEN 7
extern const unsigned char hello_alert[HELLO_ALERT_LEN];

#endif
