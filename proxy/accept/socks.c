/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/accept/socks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "shared/rules/address.h"

enum {
	METHOD_NONE = 0,
	METHOD_LOGIN = 2, /* RFC 1929 */
	METHOD_NO = 0xff,

	COMMAND_CONNECT = 1,

	TYPE_IPV4 = 1,
	TYPE_NAME = 3,
	TYPE_IPV6 = 4,

	LOGIN_VERSION = 1,
	LOGIN_MAX = 255,
};

enum socks_result
socks_greeting_parse(const void *bytes, size_t n, size_t *ret_len)
{
	const unsigned char *p = bytes;
	size_t len;

	if (n > 0 && p[0] != SOCKS_VERSION)
		return SOCKS_BAD;
	if (n < 2)
		return SOCKS_INCOMPLETE;
	len = 2 + (size_t)p[1];
	if (n < len)
		return SOCKS_INCOMPLETE;
	*ret_len = len;
	return memchr(p + 2, METHOD_NONE, p[1]) != NULL ? SOCKS_OK : SOCKS_NO_METHOD;
}

/* The length of an address type, address and port; 0: not yet known; -1: unknown type. */
static long
address_len(const unsigned char *p, size_t n)
{
	if (n == 0)
		return 0;
	switch (p[0]) {
	case TYPE_IPV4:
		return 1 + 4 + 2;
	case TYPE_IPV6:
		return 1 + 16 + 2;
	case TYPE_NAME:
		return n < 2 ? 0 : 1 + 1 + p[1] + 2;
	default:
		return -1;
	}
}

/* Returns NULL, or what is wrong. */
static const char *
host_of(const unsigned char *p, char host[DOMAIN_HOST_MAX + 1], enum domain_kind *kind)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	switch (p[0]) {
	case TYPE_IPV4:
		memcpy(&v4.sin_addr, p + 1, sizeof(v4.sin_addr));
		address_text((struct sockaddr *)&v4, host);
		*kind = DOMAIN_IPV4;
		return NULL;
	case TYPE_IPV6:
		memcpy(&v6.sin6_addr, p + 1, sizeof(v6.sin6_addr));
		address_text((struct sockaddr *)&v6, host);
		*kind = DOMAIN_IPV6;
		return NULL;
	default:
		return domain_host_parse(p + 2, p[1], false, host, kind);
	}
}

static enum socks_result
refuse(struct socks_request *ret, enum socks_reply reply, const char *why)
{
	ret->reply = reply;
	ret->why = why;
	return SOCKS_REFUSE;
}

enum socks_result
socks_request_parse(const void *bytes, size_t n, struct socks_request *ret)
{
	const unsigned char *p = bytes;
	long len;

	if ((n > 0 && p[0] != SOCKS_VERSION) || (n > 2 && p[2] != 0))
		return SOCKS_BAD;
	if (n < 4)
		return SOCKS_INCOMPLETE;
	len = address_len(p + 3, n - 3);
	if (len == 0 || (len > 0 && n < 3 + (size_t)len))
		return SOCKS_INCOMPLETE;
	*ret = (struct socks_request){ .command = p[1], .atyp = p[3] };
	/* The length of an unknown type of address is not known. */
	if (len < 0) {
		ret->len = 4;
		return refuse(ret, SOCKS_ADDRESS_TYPE, "an unknown type of address");
	}
	ret->len = 3 + (size_t)len;
	if (p[1] != COMMAND_CONNECT)
		return refuse(ret, SOCKS_COMMAND, "a command other than CONNECT");
	ret->why = host_of(p + 3, ret->host, &ret->kind);
	if (ret->why != NULL) {
		ret->host[0] = '\0';
		return refuse(ret, SOCKS_FAILURE, ret->why);
	}
	ret->port = (unsigned)p[ret->len - 2] << 8 | p[ret->len - 1];
	if (ret->port == 0)
		return refuse(ret, SOCKS_FAILURE, "port 0");
	return SOCKS_OK;
}

void
socks_reply(enum socks_reply code, unsigned char ret[SOCKS_REPLY_LEN])
{
	memset(ret, 0, SOCKS_REPLY_LEN);
	ret[0] = SOCKS_VERSION;
	ret[1] = (unsigned char)code;
	ret[3] = TYPE_IPV4;
}

size_t
socks_client_greeting(bool credentials, unsigned char buf[SOCKS_GREETING_MAX])
{
	buf[0] = SOCKS_VERSION;
	buf[1] = credentials ? 2 : 1;
	buf[2] = METHOD_NONE;
	buf[3] = METHOD_LOGIN;
	return credentials ? 4 : 3;
}

size_t
socks_client_login(const char *user, const char *password, unsigned char buf[3 + 255 + 255])
{
	/* upstream_parse() has refused longer ones. */
	size_t u = strnlen(user, LOGIN_MAX), w = strnlen(password, LOGIN_MAX);

	buf[0] = LOGIN_VERSION;
	buf[1] = (unsigned char)u;
	memcpy(buf + 2, user, u);
	buf[2 + u] = (unsigned char)w;
	memcpy(buf + 3 + u, password, w);
	return 3 + u + w;
}

size_t
socks_client_request(const char *host, enum domain_kind kind, unsigned port,
    unsigned char buf[SOCKS_REQUEST_MAX])
{
	struct sockaddr_storage sa;
	socklen_t sa_len;
	size_t n = 0;

	buf[n++] = SOCKS_VERSION;
	buf[n++] = COMMAND_CONNECT;
	buf[n++] = 0;
	if (kind == DOMAIN_IPV4 && address_parse(host, port, &sa, &sa_len)) {
		buf[n++] = TYPE_IPV4;
		memcpy(buf + n, &((struct sockaddr_in *)&sa)->sin_addr, 4);
		n += 4;
	} else if (kind == DOMAIN_IPV6 && address_parse(host, port, &sa, &sa_len)) {
		buf[n++] = TYPE_IPV6;
		memcpy(buf + n, &((struct sockaddr_in6 *)&sa)->sin6_addr, 16);
		n += 16;
	} else {
		size_t len = strnlen(host, DOMAIN_HOST_MAX);

		buf[n++] = TYPE_NAME;
		buf[n++] = (unsigned char)len;
		memcpy(buf + n, host, len);
		n += len;
	}
	buf[n++] = (unsigned char)(port >> 8);
	buf[n++] = (unsigned char)port;
	return n;
}

enum socks_result
socks_client_method(const void *bytes, size_t n, bool credentials, size_t *ret_len,
    unsigned char *ret_method)
{
	const unsigned char *p = bytes;

	if (n > 0 && p[0] != SOCKS_VERSION)
		return SOCKS_BAD;
	if (n < 2)
		return SOCKS_INCOMPLETE;
	*ret_len = 2;
	*ret_method = p[1];
	if (p[1] == METHOD_NO)
		return SOCKS_NO_METHOD;
	return p[1] == METHOD_NONE || (credentials && p[1] == METHOD_LOGIN) ? SOCKS_OK : SOCKS_BAD;
}

enum socks_result
socks_client_logged_in(const void *bytes, size_t n, size_t *ret_len)
{
	const unsigned char *p = bytes;

	/* Some servers answer with SOCKS's version in place of the login's. */
	if (n > 0 && p[0] != LOGIN_VERSION && p[0] != SOCKS_VERSION)
		return SOCKS_BAD;
	if (n < 2)
		return SOCKS_INCOMPLETE;
	*ret_len = 2;
	return p[1] == 0 ? SOCKS_OK : SOCKS_REFUSE;
}

enum socks_result
socks_client_reply(const void *bytes, size_t n, size_t *ret_len, unsigned char *ret_code)
{
	const unsigned char *p = bytes;
	long len;

	if (n > 0 && p[0] != SOCKS_VERSION)
		return SOCKS_BAD;
	if (n < 2)
		return SOCKS_INCOMPLETE;
	/* Some servers close after a refusal before all of it is sent. */
	if (p[1] != SOCKS_SUCCEEDED) {
		*ret_len = 2;
		*ret_code = p[1];
		return SOCKS_REFUSE;
	}
	if (n < 4)
		return SOCKS_INCOMPLETE;
	len = address_len(p + 3, n - 3);
	if (len < 0)
		return SOCKS_BAD;
	if (len == 0 || n < 3 + (size_t)len)
		return SOCKS_INCOMPLETE;
	*ret_len = 3 + (size_t)len;
	*ret_code = SOCKS_SUCCEEDED;
	return SOCKS_OK;
}
