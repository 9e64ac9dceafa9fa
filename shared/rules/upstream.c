/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/upstream.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"

#define SOCKS_LOGIN_MAX 255 /* RFC 1929: the length is one byte */

struct upstream_exception {
	bool is_prefix;
	struct address_prefix prefix;
	unsigned port; /* 0: all */
	size_t len;
	char name[DOMAIN_HOST_MAX + 1];
};

/* ---- the proxy's URL. Messages about it are fixed text: the value may hold a password. ---- */

static const struct {
	const char *name;
	enum upstream_kind kind;
	unsigned port;
	const char *why; /* NULL, or why it cannot be used */
} schemes[] = {
	{ "http", UPSTREAM_HTTP, 80, NULL },
	{ "socks5", UPSTREAM_SOCKS5, 1080, NULL },
	{ "socks5h", UPSTREAM_SOCKS5, 1080, NULL },
	{ "https", UPSTREAM_DIRECT, 0,
	    "TLS to the proxy (https://) is not supported: use http://" },
	{ "socks", UPSTREAM_DIRECT, 0, "socks:// does not say which version: use socks5h://" },
	{ "socks4", UPSTREAM_DIRECT, 0, "SOCKS 4 is not supported: use socks5h://" },
	{ "socks4a", UPSTREAM_DIRECT, 0, "SOCKS 4 is not supported: use socks5h://" },
};

static const char *
decode(const char *p, size_t n, char ret[UPSTREAM_CREDENTIALS_MAX + 1])
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '%') {
			int high = i + 1 < n ? hex_digit(p[i + 1]) : -1;
			int low = i + 2 < n ? hex_digit(p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return "it has a '%' in the credentials that is not followed by two "
				       "hex digits";
			c = (unsigned char)(high << 4 | low);
			i += 2;
		}
		if (c < ' ' || c == 0x7f)
			return "it has a control character in the credentials";
		if (len == UPSTREAM_CREDENTIALS_MAX)
			return "the credentials are too long";
		ret[len++] = (char)c;
	}
	ret[len] = '\0';
	return NULL;
}

static const char *
parse_credentials(const char *p, size_t n, struct upstream_proxy *ret)
{
	const char *colon = memchr(p, ':', n), *why;
	size_t user = colon == NULL ? n : (size_t)(colon - p);

	why = decode(p, user, ret->user);
	if (why == NULL && colon != NULL)
		why = decode(colon + 1, n - user - 1, ret->password);
	if (why != NULL)
		return why;
	if (ret->user[0] == '\0' && ret->password[0] == '\0')
		return "it has a '@' but no user";
	if (ret->kind == UPSTREAM_SOCKS5) {
		if (ret->user[0] == '\0')
			return "it has a password but no user, which SOCKS needs";
		if (strlen(ret->user) > SOCKS_LOGIN_MAX || strlen(ret->password) > SOCKS_LOGIN_MAX)
			return "the credentials are longer than the 255 bytes that SOCKS allows";
	} else if (strchr(ret->user, ':') != NULL) {
		return "it has a ':' in the user, which Basic authentication cannot express";
	}
	ret->has_credentials = true;
	return NULL;
}

static const char *
parse_authority(const char *p, size_t n, unsigned default_port, struct upstream_proxy *ret)
{
	const char *at = memrchr(p, '@', n), *why;
	enum domain_kind kind;

	if (at != NULL) {
		why = parse_credentials(p, (size_t)(at - p), ret);
		if (why != NULL)
			return why;
		n -= (size_t)(at + 1 - p);
		p = at + 1;
	}
	if (n == 0)
		return "it has no host";
	return domain_authority_parse(p, n, default_port, ret->host, &kind, &ret->port);
}

static const char *
parse_proxy(const char *value, struct upstream_proxy *ret)
{
	const char *rest = strstr(value, "://"), *end;
	size_t scheme = 0;

	if (strnlen(value, UPSTREAM_VALUE_MAX + 1) > UPSTREAM_VALUE_MAX)
		return "it is too long";
	for (const char *c = value; *c != '\0'; c++) {
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return "it has white space or a control character";
	}
	if (rest != NULL) {
		size_t len = (size_t)(rest - value);

		while (scheme < N_ELEMENTS(schemes) &&
		    (strlen(schemes[scheme].name) != len ||
			strncasecmp(schemes[scheme].name, value, len) != 0))
			scheme++;
		if (scheme == N_ELEMENTS(schemes))
			return "its scheme is not http, socks5 or socks5h";
		if (schemes[scheme].why != NULL)
			return schemes[scheme].why;
		rest += strlen("://");
	} else {
		rest = value; /* host:port means HTTP, as other programs take it */
	}
	end = rest + strcspn(rest, "/?#");
	if (end[0] != '\0' && strcmp(end, "/") != 0)
		return "it has a path after the host (a '/' in a password must be %2F)";
	ret->kind = schemes[scheme].kind;
	return parse_authority(rest, (size_t)(end - rest), schemes[scheme].port, ret);
}

/* ---- NO_PROXY ---- */

static bool
parse_port(const char *p, size_t n, unsigned *ret)
{
	unsigned v = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (unsigned)(p[i] - '0');
	}
	*ret = v;
	return v > 0 && v <= 65535;
}

/* False: the entry cannot name a host ("<local>", "10.*"), so it is ignored and the proxy is
 * used. */
static bool
parse_exception(const char *p, size_t n, struct upstream_exception *ret)
{
	const char *colon;
	enum domain_kind kind;

	memset(ret, 0, sizeof(*ret));
	if (p[0] == '[') {
		const char *close = memchr(p, ']', n);
		size_t inside = close == NULL ? 0 : (size_t)(close - p) - 1;

		if (close == NULL ||
		    (inside + 2 < n &&
			(close[1] != ':' || !parse_port(close + 2, n - inside - 3, &ret->port))))
			return false;
		ret->is_prefix = true;
		return address_prefix_parse(p + 1, inside, &ret->prefix) &&
		    ret->prefix.family == AF_INET6;
	}
	if (address_prefix_parse(p, n, &ret->prefix)) { /* also IPv6 without brackets */
		ret->is_prefix = true;
		return true;
	}
	colon = memchr(p, ':', n);
	if (colon != NULL) {
		if (!parse_port(colon + 1, n - (size_t)(colon - p) - 1, &ret->port))
			return false;
		n = (size_t)(colon - p);
		if (address_prefix_parse(p, n, &ret->prefix)) {
			ret->is_prefix = true;
			return true;
		}
	}
	if (n > 2 && p[0] == '*' && p[1] == '.') {
		p += 2;
		n -= 2;
	} else if (n > 1 && p[0] == '.') {
		p++;
		n--;
	}
	if (domain_host_parse(p, n, true, ret->name, &kind) != NULL || kind != DOMAIN_NAME)
		return false;
	ret->len = strlen(ret->name);
	return true;
}

static int
parse_exceptions(const char *value, struct upstream *u, struct koda_error *err)
{
	static const char between[] = ", \t\r\n";
	const char *p = value;
	size_t n = 0;

	if (strnlen(value, UPSTREAM_VALUE_MAX + 1) > UPSTREAM_VALUE_MAX)
		return err_set(err, KODA_INVALID, 0, "NO_PROXY: it is longer than %d bytes",
		    UPSTREAM_VALUE_MAX);
	for (p += strspn(p, between); *p != '\0'; p += strspn(p, between)) {
		p += strcspn(p, between);
		n++;
	}
	if (n > UPSTREAM_NO_PROXY_MAX)
		return err_set(err, KODA_INVALID, 0, "NO_PROXY: it has more than %d entries",
		    UPSTREAM_NO_PROXY_MAX);
	if (n == 0)
		return 0;
	u->except = calloc(n, sizeof(*u->except));
	if (u->except == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "NO_PROXY");
	p = value + strspn(value, between);
	while (*p != '\0') {
		size_t len = strcspn(p, between);

		if (len == 1 && p[0] == '*')
			u->except_all = true;
		else if (parse_exception(p, len, &u->except[u->n_except]))
			u->n_except++;
		p += len;
		p += strspn(p, between);
	}
	return 0;
}

/* ---- all variables ---- */

static bool
is_set(const char *value)
{
	return value != NULL && value[0] != '\0';
}

/* Parse the variable, or ALL_PROXY where it is not set. ALL_PROXY may be invalid if it is not
 * needed. */
static int
parse_variable(const char *name, const char *value, const char *all, struct upstream_proxy *ret,
    struct koda_error *err)
{
	const char *why;

	if (!is_set(value)) {
		name = "ALL_PROXY";
		value = all;
	}
	if (!is_set(value))
		return 0;
	why = parse_proxy(value, ret);
	return why == NULL ? 0 : err_set(err, KODA_INVALID, 0, "%s cannot be used: %s", name, why);
}

int
upstream_parse(const struct upstream_variables *v, struct upstream *ret, struct koda_error *err)
{
	struct upstream u = { 0 };

	if (parse_variable("HTTPS_PROXY", v->https_proxy, v->all_proxy, &u.https, err) < 0 ||
	    parse_variable("HTTP_PROXY", v->http_proxy, v->all_proxy, &u.http, err) < 0)
		return -1;
	if (is_set(v->no_proxy) && parse_exceptions(v->no_proxy, &u, err) < 0)
		return -1;
	*ret = u;
	return 0;
}

void
upstream_done(struct upstream *u)
{
	free(u->except);
	/* Erase the passwords. */
	explicit_bzero(u, sizeof(*u));
}

static bool
names(const struct upstream_exception *e, const char *host, size_t len)
{
	if (len < e->len || memcmp(host + len - e->len, e->name, e->len) != 0)
		return false;
	return len == e->len || host[len - e->len - 1] == '.';
}

const struct upstream_proxy *
upstream_for(const struct upstream *u, const char *host, unsigned port, bool plain,
    const struct sockaddr *resolved)
{
	const struct upstream_proxy *proxy = plain ? &u->http : &u->https;
	struct sockaddr_storage literal;
	socklen_t literal_len;
	bool is_literal = address_parse(host, port, &literal, &literal_len);
	size_t len = strlen(host);

	if (proxy->kind == UPSTREAM_DIRECT || u->except_all)
		return NULL;
	for (size_t i = 0; i < u->n_except; i++) {
		const struct upstream_exception *e = &u->except[i];

		if (e->port != 0 && e->port != port)
			continue;
		if (!e->is_prefix) {
			if (names(e, host, len)) /* never a literal: see parse_exception() */
				return NULL;
		} else if ((is_literal &&
			       address_prefix_contains(&e->prefix, (struct sockaddr *)&literal)) ||
		    (resolved != NULL && address_prefix_contains(&e->prefix, resolved))) {
			return NULL;
		}
	}
	return proxy;
}
