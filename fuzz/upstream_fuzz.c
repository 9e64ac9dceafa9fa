/* SPDX-License-Identifier: Apache-2.0 */
/* Input: four lines with HTTPS_PROXY, ALL_PROXY, NO_PROXY and a host. A value that is set is an
 * error or a proxy, never ignored; the message about it is printable and short. */
#include "fuzz/fuzz.h"
#include "shared/rules/upstream.h"

static void
check_proxy(const struct upstream_proxy *p)
{
	char host[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;

	must(p->kind == UPSTREAM_HTTP || p->kind == UPSTREAM_SOCKS5);
	must(domain_host_parse(p->host, strlen(p->host), true, host, &kind) == NULL);
	must(strcmp(host, p->host) == 0);
	must(p->port > 0 && p->port <= 65535);
	must(strlen(p->user) <= UPSTREAM_CREDENTIALS_MAX &&
	    strlen(p->password) <= UPSTREAM_CREDENTIALS_MAX);
	must(strpbrk(p->user, "\r\n") == NULL && strpbrk(p->password, "\r\n") == NULL);
	if (!p->has_credentials)
		must(p->user[0] == '\0' && p->password[0] == '\0');
	else if (p->kind == UPSTREAM_SOCKS5)
		must(p->user[0] != '\0' && strlen(p->user) <= 255 && strlen(p->password) <= 255);
	else
		must(strchr(p->user, ':') == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *lines[4] = { NULL }, *text, *rest;
	struct upstream_variables v;
	struct upstream u;
	struct koda_error err;
	char host[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;

	if (memchr(data, '\0', size) != NULL)
		return 0;
	text = rest = strndup((const char *)data, size);
	must(text != NULL);
	for (size_t i = 0; i < 4; i++)
		lines[i] = strsep(&rest, "\n");
	v = (struct upstream_variables){ .https_proxy = lines[0],
		.all_proxy = lines[1],
		.no_proxy = lines[2] };
	if (upstream_parse(&v, &u, &err) < 0) {
		must(err.code == KODA_INVALID && err.message[0] != '\0');
		for (const char *c = err.message; *c != '\0'; c++)
			must(*c >= ' ' && *c < 0x7f);
		free(text);
		return 0;
	}
	if (lines[0][0] != '\0' || (lines[1] != NULL && lines[1][0] != '\0'))
		check_proxy(&u.https);
	else
		must(u.https.kind == UPSTREAM_DIRECT);
	must(u.n_except <= UPSTREAM_NO_PROXY_MAX);
	if (lines[3] != NULL &&
	    domain_host_parse(lines[3], strlen(lines[3]), true, host, &kind) == NULL) {
		const struct upstream_proxy *p = upstream_for(&u, host, 443, false, NULL);

		must(p == NULL || p == &u.https);
		must(p == NULL || p->kind != UPSTREAM_DIRECT);
		/* A direct connection needs an exception or the absence of a proxy. */
		must(
		    p != NULL || u.https.kind == UPSTREAM_DIRECT || u.n_except > 0 || u.except_all);
	}
	upstream_done(&u);
	free(text);
	return 0;
}
