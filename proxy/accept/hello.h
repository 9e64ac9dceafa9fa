/*
 * The server name in a TLS ClientHello, which may be split over records in any way, up to HELLO_MAX bytes. Pure.
 */
#ifndef KODA_PROXY_ACCEPT_HELLO_H
#define KODA_PROXY_ACCEPT_HELLO_H

#include <stddef.h>

#include "shared/rules/domain.h"

#define HELLO_MAX 32768 /* record headers included; post-quantum key shares make some 2 KiB */

enum hello_result {
	HELLO_INCOMPLETE,
	HELLO_OK,
	HELLO_NOT_TLS, /* the first byte is not a handshake's: SSLv2's hello too, which has no server name */
	HELLO_BAD, /* TLS, and wrong, or larger than HELLO_MAX */
};

struct hello {
	bool has_name;
	bool
	    encrypted; /* an encrypted_client_hello (or what may be one) or the old encrypted_server_name is there */
	char name[DOMAIN_HOST_MAX + 1]; /* canonical */
	size_t len;                     /* of its records; behind them it is something else */
};

/* Begins anew with each piece that came, as http_request_parse does: HELLO_MAX makes that harmless. ret is untouched but by
 * HELLO_OK; a name that is no host is HELLO_BAD, and so is anything behind the hello in its last record: nobody has something
 * to say there, and it might be another hello. */
enum hello_result hello_parse(const void *bytes, size_t n, struct hello *ret, const char **why);

/* Does a server's first record ask for another hello (RFC 8446, HelloRetryRequest)? Incomplete: not yet known, which it
 * is after HELLO_ANSWER_LEN bytes at the latest. */
#define HELLO_ANSWER_LEN 43
enum hello_answer {
	HELLO_ANSWER_INCOMPLETE,
	HELLO_ANSWER_OTHER,
	HELLO_ANSWER_RETRY,
};
enum hello_answer hello_answer_parse(const void *bytes, size_t n);

/* A fatal alert, as the client shows it: unrecognized_name. */
#define HELLO_ALERT_LEN 7
extern const unsigned char hello_alert[HELLO_ALERT_LEN];

#endif
