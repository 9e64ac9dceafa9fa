/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/reach/dial.c and resolve.c against a small internet: a second network namespace behind a
 * veth, with servers, a name server and user's proxies, on addresses that look public. /etc belongs
 * to the test.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* It has a fail of its own. */
static double dial_secs = 10;
#define PROXY_HEAD_SECS 10.0
#define PROXY_KEEP_SECS 10.0
#define PROXY_DIAL_SECS dial_secs
#define PROXY_IDLE_SECS 10.0
#define PROXY_ASK_SECS  10.0
#include "proxy/reach/dial.c"        // NOLINT(bugprone-suspicious-include)
#include "proxy/reach/own_address.c" // NOLINT(bugprone-suspicious-include)

#include "tests/kit/small_internet.h"

static size_t
open_descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
on_wake(struct ev_loop *loop, ev_timer *t, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static void
loop_for(double secs)
{
	ev_timer t;

	ev_now_update(proxy.loop);
	ev_timer_init(&t, on_wake, secs, 0);
	ev_timer_start(proxy.loop, &t);
	ev_run(proxy.loop, 0);
	ev_timer_stop(proxy.loop, &t);
}

static void
on_dialed(void *data, const struct dial_result *result)
{
	struct shot *s = data;

	assert_false(s->over);
	s->over = true;
	s->result = *result;
	ev_break(proxy.loop, EVBREAK_ALL);
}

static struct shot
shoot_plain(const char *host, unsigned port, bool plain)
{
	char canonical[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;
	struct shot s = { 0 };
	double start = ev_time();

	assert_null(domain_host_parse(host, strlen(host), true, canonical, &kind));
	s.dial = dial_start(&proxy, slot, canonical, kind, port, plain, on_dialed, &s);
	assert_non_null(s.dial);
	assert_false(s.over);
	while (!s.over)
		ev_run(proxy.loop, 0);
	s.took = ev_time() - start;
	return s;
}

static struct shot
shoot(const char *host, unsigned port)
{
	return shoot_plain(host, port, false);
}

static const char *
peer_of(int fd)
{
	static char text[DOMAIN_HOST_MAX + 1];
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	assert_int_equal(getpeername(fd, (struct sockaddr *)&ss, &len), 0);
	address_text((struct sockaddr *)&ss, text);
	return text;
}

static void
check_options(int fd)
{
	int v = 0;
	socklen_t len = sizeof(v);

	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &len), 0);
	assert_int_not_equal(v, 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, &len), 0);
	assert_int_not_equal(v, 0);
}

static void
upstream(const char *https, const char *http, const char *no_proxy)
{
	struct upstream_variables v = { .https_proxy = https,
		.http_proxy = http,
		.no_proxy = no_proxy };
	struct koda_error err;

	upstream_done(&proxy.upstream);
	memset(&proxy.upstream, 0, sizeof(proxy.upstream));
	assert_int_equal(upstream_parse(&v, &proxy.upstream, &err), 0);
	silent_until = 0;
}

static size_t before;

static void
etc(const char *hosts, const char *resolv)
{
	put_file("/etc/hosts", hosts);
	put_file("/etc/resolv.conf", resolv);
}

static int
setup(void **state)
{
	struct koda_error err;

	all_counted();
	memset(net, 0, sizeof(*net));
	dial_secs = 10;
	slot = 1;
	etc("127.0.0.1 localhost\n", "search example\nnameserver " DNS "\n");
	before = open_descriptors();
	proxy.loop = ev_loop_new(EVFLAG_NOSIGMASK);
	policy_init(&proxy.policy);
	proxy.mode = KODA_AUTO;
	must(
	    policy_list_add(&proxy.policy.list[KODA_ALLOWED_DOMAINS], "127.0.0.1:8080", &err) == 0);
	proxy.rules = egress_rules_new(&proxy.policy, &err);
	proxy.resolver = resolver_new(&proxy, &err);
	must(proxy.rules != NULL && proxy.resolver != NULL);
	upstream(NULL, NULL, NULL);
	return 0;
}

static int
teardown(void **state)
{
	resolver_free(proxy.resolver);
	egress_rules_free(proxy.rules);
	policy_done(&proxy.policy);
	upstream_done(&proxy.upstream);
	memset(&proxy.upstream, 0, sizeof(proxy.upstream));
	ev_loop_destroy(proxy.loop);
	assert_int_equal(open_descriptors(), before);
	return 0;
}

/* ---- names ---- */

static const struct direct {
	const char *label, *host;
	unsigned port;
	enum dial_error want;
	const char *peer;   /* for DIAL_OK; NULL: any */
	const char *detail; /* for errors: a part of the detail */
	int private;        /* connections to PRIVATE */
	/* s; the next address is tried after 0.25, a question is repeated after 1.5 */
	double within;
} direct[] = {
	{ "both families", "ok.example", 80, DIAL_OK, "[" WEB6 "]", NULL, 0, 3 },
	{ "IPv4 alone", "v4.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "IPv6 alone", "v6.example", 80, DIAL_OK, "[" WEB6 "]", NULL, 0, 3 },
	{ "a CNAME", "cname.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "IPv6 is broken", "broken6.example", 80, DIAL_OK, WEB, NULL, 0, 1.5 },
	{ "one refuses, the other does not", "partly.example", 80, DIAL_OK, WEB, NULL, 0, 1.5 },
	{ "a literal", WEB, 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "a literal of IPv6", "[" WEB6 "]", 80, DIAL_OK, "[" WEB6 "]", NULL, 0, 3 },
	{ "private", "private.example", 80, DIAL_ADDRESS, NULL, "private.example", 0, 3 },
	{ "private and public", "mixed.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "loopback", "loop.example", 80, DIAL_ADDRESS, NULL, "loopback", 0, 3 },
	{ "localhost, by /etc/hosts", "localhost", 80, DIAL_ADDRESS, NULL, "loopback", 0, 3 },
	{ "metadata", "metadata.example", 80, DIAL_ADDRESS, NULL, "metadata.example", 0, 3 },
	{ "IPv4-mapped", "mapped.example", 80, DIAL_ADDRESS, NULL, "mapped.example", 0, 3 },
	{ "an address of this machine", "own.example", 80, DIAL_ADDRESS, NULL, "own.example", 0,
	    3 },
	{ "a private literal", PRIVATE, 80, DIAL_ADDRESS, NULL, PRIVATE, 0, 3 },
	{ "a loopback literal with a rule, refused there", "127.0.0.1", 8080, DIAL_REFUSED, NULL,
	    "127.0.0.1:8080", 0, 3 },
	{ "a loopback literal, another port", "127.0.0.1", 80, DIAL_ADDRESS, NULL, "loopback", 0,
	    3 },
	{ "nobody listens", "closed.example", 80, DIAL_REFUSED, NULL, "closed.example:80", 0, 3 },
	{ "no route", "nowhere.example", 80, DIAL_UNREACHABLE, NULL, "nowhere.example:80", 0, 3 },
	{ "no such name", "nx.example", 80, DIAL_DNS, NULL, "no such name", 0, 3 },
	{ "no address", "empty.example", 80, DIAL_DNS, NULL, "no address", 0, 3 },
	{ "SERVFAIL", "fail.example", 80, DIAL_DNS, NULL, "name server", 0, 8 },
	{ "no answer", "silent.example", 80, DIAL_TIMEOUT, NULL, "silent.example", 0, 10.5 },
	{ "questions for IPv6 are dropped", "dropped6.example", 80, DIAL_OK, WEB, NULL, 0, 3 },
	{ "questions for IPv4 are dropped", "dropped4.example", 80, DIAL_OK, "[" WEB6 "]", NULL, 0,
	    3 },
	{ "dropped, and private", "dropped.example", 80, DIAL_ADDRESS, NULL, "dropped.example", 0,
	    3 },
	{ "no search list", "ok", 80, DIAL_DNS, NULL, "no such name", 0, 3 },
};

static void
check_direct(void **state)
{
	const struct direct *c = &direct[(uintptr_t)*state];
	struct shot s = shoot(c->host, c->port);

	if (s.result.error != c->want)
		fail_msg("error %d, not %d: %s", s.result.error, c->want, s.result.detail);
	if (c->want == DIAL_OK) {
		assert_true(s.result.fd >= 0);
		assert_null(s.result.via);
		/* On a busy machine the other family may win, because it is tried if the first
		 * one is slow. */
		for (int i = 0; i < 2 && strcmp(peer_of(s.result.fd), c->peer) != 0; i++) {
			close(s.result.fd);
			s = shoot(c->host, c->port);
			assert_int_equal(s.result.error, DIAL_OK);
		}
		assert_string_equal(peer_of(s.result.fd), c->peer);
		check_options(s.result.fd);
		close(s.result.fd);
	} else {
		assert_int_equal(s.result.fd, -1);
		if (strstr(s.result.detail, c->detail) == NULL)
			fail_msg("'%s' is not in: %s", c->detail, s.result.detail);
	}
	if (s.took > c->within)
		fail_msg("%g s", s.took);
	all_counted();
	assert_int_equal(net->private, c->private);
}

static void
check_limit(void **state)
{
	struct shot s;

	dial_secs = 0.5;
	s = shoot("dark6.example", 80);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_true(s.took >= 0.45 && s.took < 2);
	s = shoot("silent.example", 80);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_true(s.took >= 0.45 && s.took < 2);
}

/* The second answer is a forbidden address: nothing connects to it. */
static void
check_rebinding(void **state)
{
	struct shot s = shoot("rebind.example", 80);
	int queries = net->queries;

	assert_int_equal(s.result.error, DIAL_OK);
	assert_string_equal(peer_of(s.result.fd), WEB);
	close(s.result.fd);
	assert_int_equal(queries, 2); /* A and AAAA, once */
	s = shoot("rebind.example", 80);
	assert_int_equal(s.result.error, DIAL_ADDRESS);
	all_counted();
	assert_int_equal(net->private, 0);
}

static void
check_files(void **state)
{
	struct shot s;

	etc("# ...\n" WEB " Hosts.example other.example\n", "nameserver " DNS "\n");
	s = shoot("hosts.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	close(s.result.fd);
	assert_int_equal(net->queries, 0);
	etc("10.0.0.8 hosts.example\n", "nameserver " DNS "\n");
	s = shoot("hosts.example", 80);
	assert_int_equal(s.result.error, DIAL_ADDRESS);
	etc("", "nameserver " DNS "\n");
	s = shoot("hosts.example", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
}

static void
check_resolv_conf(void **state)
{
	struct shot s;

	put_file("/etc/resolv.new", "nameserver " NO_DNS "\n");
	assert_int_equal(rename("/etc/resolv.new", "/etc/resolv.conf"), 0);
	loop_for(1.1);
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	assert_int_equal(net->queries, 0);
	/* While the file is missing, the previous settings apply. */
	unlink("/etc/resolv.conf");
	loop_for(1.1);
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	put_file("/etc/resolv.conf", "nameserver " DNS "\n");
	loop_for(1.1);
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	close(s.result.fd);
}

/* A question that is open while the file changes stays with its name server. */
static void
check_resolv_conf_meanwhile(void **state)
{
	struct shot slow = { 0 }, s;

	slow.dial =
	    dial_start(&proxy, slot, "silent.example", DOMAIN_NAME, 80, false, on_dialed, &slow);
	loop_for(1.1);
	etc("", "nameserver " DNS "\noptions timeout:1\n");
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	close(s.result.fd);
	while (!slow.over)
		ev_run(proxy.loop, 0);
	assert_int_equal(slow.result.error, DIAL_TIMEOUT);
}

static void
check_environment(void **state)
{
	struct koda_error err;
	struct shot s;

	put_file("/etc/aliases", "alias ok.example\n");
	setenv("HOSTALIASES", "/etc/aliases", 1);
	setenv("LOCALDOMAIN", "example", 1);
	setenv("RES_OPTIONS", "ndots:3 timeout:1 attempts:1", 1);
	resolver_free(proxy.resolver);
	proxy.resolver = resolver_new(&proxy, &err);
	s = shoot("alias", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	assert_string_equal(net->last_name, "alias");
	s = shoot("ok", 80);
	assert_int_equal(s.result.error, DIAL_DNS);
	assert_string_equal(net->last_name, "ok");
	s = shoot("silent.example", 80);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_true(s.took > 2);
	unsetenv("HOSTALIASES");
	unsetenv("LOCALDOMAIN");
	unsetenv("RES_OPTIONS");
}

/* The hosts that the policy maps to a socket, on any port; an exact name comes before a pattern. */
static void
check_mapped(void **state)
{
	static const struct {
		const char *host, *want;
	} cases[] = {
		{ "a.corp.example", "*.corp.example" },
		{ "b.corp.example", "b.corp.example" },
		{ "c.d.corp.example", NULL },
		{ "corp.example", NULL },
		{ "ok.example", NULL },
	};
	struct policy_socket sockets[] = { { (char[]){ "*.corp.example" }, (char[]){ "/run/all" } },
		{ (char[]){ "b.corp.example" }, (char[]){ "/run/b" } } };
	struct proxy p = { .policy.sockets = sockets, .policy.n_sockets = N_ELEMENTS(sockets) };

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct dial d = { .proxy = &p, .target.port = 8443 };
		const char *got;

		snprintf(d.target.host, sizeof(d.target.host), "%s", cases[i].host);
		got = mapped(&d);
		if (cases[i].want == NULL)
			assert_null(got);
		else
			assert_string_equal(got, cases[i].want);
	}
}

/*
 * Where any address can be bound, the machine's own addresses are still recognized, and others are
 * not mistaken for them.
 */
static void
check_nonlocal_bind(void **state)
{
	struct sockaddr_storage own, web;
	socklen_t len;

	assert_true(address_parse(OWN, 80, &own, &len));
	assert_true(address_parse(WEB, 80, &web, &len));
	assert_false(binds_anything(AF_INET));
	assert_true(is_own_address((struct sockaddr *)&own));
	assert_false(is_own_address((struct sockaddr *)&web));
	put_file("/proc/sys/net/ipv4/ip_nonlocal_bind", "1\n");
	assert_true(can_bind((struct sockaddr *)&web));
	assert_true(is_source((struct sockaddr *)&own));
	assert_false(is_source((struct sockaddr *)&web));
	put_file("/proc/sys/net/ipv4/ip_nonlocal_bind", "0\n");
	assert_true(address_parse("[2600:abcd::1]", 80, &own, &len));
	assert_true(address_parse("[" WEB6 "]", 80, &web, &len));
	assert_true(is_own_address((struct sockaddr *)&own));
	assert_true(is_source((struct sockaddr *)&own));
	assert_false(is_own_address((struct sockaddr *)&web));
	assert_false(is_source((struct sockaddr *)&web));
}

static void
check_cancel(void **state)
{
	static const char *const hosts[] = { "ok.example", "broken6.example", "silent.example", WEB,
		"dark6.example", "127.0.0.1", "nx.example" };
	static const char *const proxies[] = { NULL, "http://" PROXY ":3128",
		"http://" PROXY ":3132", "socks5://user:secret@" PROXY ":1081",
		"http://proxy.example:3128" };

	for (size_t u = 0; u < N_ELEMENTS(proxies); u++) {
		upstream(proxies[u], NULL, NULL);
		for (size_t h = 0; h < N_ELEMENTS(hosts); h++) {
			for (int turns = 0; turns < 7; turns++) {
				char canonical[DOMAIN_HOST_MAX + 1];
				enum domain_kind kind;
				struct shot s = { 0 };
				ev_timer guard;

				domain_host_parse(hosts[h], strlen(hosts[h]), true, canonical,
				    &kind);
				s.dial = dial_start(&proxy, slot, canonical, kind, 80, false,
				    on_dialed, &s);
				ev_timer_init(&guard, on_wake, 0.02, 0.02);
				ev_timer_start(proxy.loop, &guard);
				for (int i = 0; i < turns && !s.over; i++)
					ev_run(proxy.loop, EVRUN_ONCE);
				ev_timer_stop(proxy.loop, &guard);
				if (!s.over)
					dial_cancel(s.dial);
				else if (s.result.fd >= 0)
					close(s.result.fd);
			}
		}
	}
	/* teardown counts what is left; c-ares gives up on its own */
}

/* Cancels 1500 dials. Each leaves an open question, up to a limit. */
static void
flood(void)
{
	struct shot s = { 0 };

	for (int i = 0; i < 1500; i++) {
		struct dial *d = dial_start(&proxy, slot, "silent.example", DOMAIN_NAME, 80, false,
		    on_dialed, &s);

		assert_non_null(d);
		dial_cancel(d);
	}
	assert_false(s.over);
}

static void
check_flood(void **state)
{
	struct shot s;

	flood();
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_RESOURCES);
}

/*
 * Dials a name of the hosts file, which does not depend on the name server: the flood may have
 * affected the way to it.
 */
static bool
reaches(void)
{
	struct shot s = shoot("hosts.example", 80);

	if (s.result.error != DIAL_OK) {
		assert_int_equal(s.result.error, DIAL_RESOURCES);
		return false;
	}
	close(s.result.fd);
	return true;
}

/* Even if many slots do this, the next slot can dial. */
static void
check_flood_of_others(void **state)
{
	double end;

	etc(WEB " hosts.example\n", "nameserver " DNS "\n");
	for (slot = 1; slot <= 32; slot++) {
		assert_true(reaches());
		flood();
		assert_false(reaches());
	}
	assert_true(reaches());
	/* Unanswered questions are given up, which makes room. */
	end = ev_time() + GIVEN_UP_SECS;
	for (slot = 1; slot <= 32; slot++) {
		while (!reaches()) {
			assert_true(ev_time() < end);
			loop_for(0.05);
		}
	}
}

/* ---- through the user's proxy ---- */

#define HTTP_AT(port)  "http://" PROXY ":" #port
#define SOCKS_AT(port) "socks5://" PROXY ":" #port

static const struct by_proxy {
	const char *label, *proxy, *host;
	enum dial_error want;
	const char *detail;
	const char *head; /* a part of what the proxy received */
	int connections;
} by_proxy[] = {
	{ "HTTP", HTTP_AT(3128), "ok.example", DIAL_OK, NULL,
	    "CONNECT ok.example:443 HTTP/1.1\r\nHost: ok.example:443\r\n\r\n", 1 },
	{ "HTTP, credentials", "http://us%40er:pa%3Ass@" PROXY ":3128", "ok.example", DIAL_OK, NULL,
	    "\r\nProxy-Authorization: Basic dXNAZXI6cGE6c3M=\r\n\r\n", 1 },
	{ "HTTP, by name", "http://proxy.example:3128", "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, an address of IPv6", HTTP_AT(3128), "[" WEB6 "]", DIAL_OK, NULL,
	    "CONNECT [" WEB6 "]:443 HTTP/1.1\r\nHost: [" WEB6 "]:443\r\n", 1 },
	{ "HTTP, byte by byte", HTTP_AT(3131), "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, lines without CR", HTTP_AT(3135), "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, 100 before 299", HTTP_AT(3136), "ok.example", DIAL_OK, NULL, "CONNECT", 1 },
	{ "HTTP, 407", HTTP_AT(3129), "ok.example", DIAL_UPSTREAM,
	    "407 Proxy Authentication? Required", "CONNECT", 1 },
	{ "HTTP, garbage", HTTP_AT(3130), "ok.example", DIAL_UPSTREAM, "does not speak HTTP", NULL,
	    1 },
	{ "HTTP, no status", HTTP_AT(3137), "ok.example", DIAL_UPSTREAM, "not HTTP", NULL, 1 },
	{ "HTTP, no end", HTTP_AT(3133), "ok.example", DIAL_UPSTREAM, "too long", NULL, 1 },
	{ "HTTP, closes", HTTP_AT(3134), "ok.example", DIAL_UPSTREAM, "closed", NULL, 1 },
	{ "nobody is there", HTTP_AT(4444), "ok.example", DIAL_UPSTREAM, "cannot connect", NULL,
	    0 },
	{ "it has no address", "http://nx.example:3128", "ok.example", DIAL_UPSTREAM,
	    "no such name", NULL, 0 },
	{ "a name that is known there alone", HTTP_AT(3128), "nx.example", DIAL_OK, NULL,
	    "CONNECT nx.example:443", 1 },
	{ "a name that leads where it may not", HTTP_AT(3128), "private.example", DIAL_ADDRESS,
	    "private.example", NULL, 0 },
	{ "a name that partly leads where it may not", HTTP_AT(3128), "mixed.example", DIAL_ADDRESS,
	    "mixed.example", NULL, 0 },
	{ "a literal that may not be", HTTP_AT(3128), PRIVATE, DIAL_ADDRESS, PRIVATE, NULL, 0 },
	{ "SOCKS", SOCKS_AT(1080), "ok.example", DIAL_OK, NULL, "ok.example:443", 1 },
	{ "SOCKS, login", "socks5://user:secret@" PROXY ":1081", "ok.example", DIAL_OK, NULL,
	    "ok.example:443", 1 },
	{ "SOCKS, wrong login", "socks5://user:wrong@" PROXY ":1081", "ok.example", DIAL_UPSTREAM,
	    "name and password", NULL, 1 },
	{ "SOCKS, login is wanted", SOCKS_AT(1081), "ok.example", DIAL_UPSTREAM, "kind of login",
	    NULL, 1 },
	{ "SOCKS, no", SOCKS_AT(1082), "ok.example", DIAL_UPSTREAM, "code 2", NULL, 1 },
	{ "SOCKS, garbage", SOCKS_AT(1083), "ok.example", DIAL_UPSTREAM, "SOCKS5", NULL, 1 },
	{ "SOCKS, byte by byte", SOCKS_AT(1084), "ok.example", DIAL_OK, NULL, "ok.example:443", 1 },
	{ "SOCKS, bound to a name", SOCKS_AT(1085), "ok.example", DIAL_OK, NULL, "ok.example:443",
	    1 },
};

static void
check_by_proxy(void **state)
{
	const struct by_proxy *c = &by_proxy[(uintptr_t)*state];
	struct shot s;

	upstream(c->proxy, NULL, NULL);
	s = shoot(c->host, 443);
	if (s.result.error != c->want)
		fail_msg("error %d, not %d: %s", s.result.error, c->want, s.result.detail);
	if (c->want == DIAL_OK) {
		char buf[16] = "";

		assert_null(s.result.via);
		assert_int_equal(fcntl(s.result.fd, F_SETFL, 0), 0);
		setsockopt(s.result.fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 5 },
		    sizeof(struct timeval));
		/* The first byte after the answer is the next one to be read. */
		assert_int_equal(recv(s.result.fd, buf, 5, MSG_WAITALL), 5);
		assert_string_equal(buf, "HELLO");
		close(s.result.fd);
	} else if (strstr(s.result.detail, c->detail) == NULL) {
		fail_msg("'%s' is not in: %s", c->detail, s.result.detail);
	}
	assert_null(strstr(s.result.detail, "secret"));
	assert_null(strstr(s.result.detail, "wrong"));
	if (c->head != NULL && strstr(net->head, c->head) == NULL)
		fail_msg("'%s' is not in: %s", c->head, net->head);
	all_counted();
	assert_int_equal(net->proxy, c->connections);
	assert_int_equal(net->web + net->web6 + net->private, 0);
}

static void
check_proxy_silent(void **state)
{
	struct shot s;

	dial_secs = 2;
	upstream(HTTP_AT(3132), NULL, NULL);
	s = shoot("ok.example", 443);
	assert_int_equal(s.result.error, DIAL_TIMEOUT);
	assert_non_null(strstr(s.result.detail, "the proxy " PROXY));
	assert_true(s.took < 4);
}

/*
 * The local name servers do not know outer names and do not answer: only the first dial waits for
 * them.
 */
static void
check_proxy_names_there(void **state)
{
	struct shot s;

	upstream(HTTP_AT(3128), NULL, NULL);
	s = shoot("silent.example", 443);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_true(s.took > 1.5 && s.took < 4);
	close(s.result.fd);
	s = shoot("silent.example", 443);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_true(s.took < 1);
	close(s.result.fd);
}

static void
check_plain(void **state)
{
	struct shot s;

	upstream(NULL, HTTP_AT(3128), NULL);
	s = shoot_plain("ok.example", 80, true);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_ptr_equal(s.result.via, &proxy.upstream.http);
	assert_string_equal(peer_of(s.result.fd), PROXY);
	close(s.result.fd);
	/* Without https_proxy, tunnels are direct. */
	s = shoot("ok.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_null(s.result.via);
	assert_string_equal(peer_of(s.result.fd), "[" WEB6 "]");
	close(s.result.fd);
	upstream(NULL, SOCKS_AT(1080), NULL);
	s = shoot_plain("ok.example", 80, true);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_null(s.result.via);
	assert_string_equal(net->head, "ok.example:80");
	close(s.result.fd);
}

static void
check_no_proxy(void **state)
{
	static const char *const exceptions[] = { "v4.example", ".example", "44.1.1.0/24", "*" };
	struct shot s;

	for (size_t i = 0; i < N_ELEMENTS(exceptions); i++) {
		upstream(HTTP_AT(3128), NULL, exceptions[i]);
		s = shoot("v4.example", 80);
		assert_int_equal(s.result.error, DIAL_OK);
		assert_string_equal(peer_of(s.result.fd), WEB);
		close(s.result.fd);
	}
	all_counted();
	assert_int_equal(net->proxy, 0);
	upstream(HTTP_AT(3128), NULL, "other.example,44.1.2.0/24");
	s = shoot("v4.example", 80);
	assert_int_equal(s.result.error, DIAL_OK);
	assert_string_equal(peer_of(s.result.fd), PROXY);
	close(s.result.fd);
	/* A direct connection must still obey the address rules. */
	upstream(HTTP_AT(3128), NULL, "10.77.0.0/16");
	s = shoot("private.example", 80);
	assert_int_equal(s.result.error, DIAL_ADDRESS);
	all_counted();
	assert_int_equal(net->private, 0);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(direct) + N_ELEMENTS(by_proxy) + 32];
	size_t n = 0;

	signal(SIGPIPE, SIG_IGN);
	enter();
	for (size_t i = 0; i < N_ELEMENTS(direct); i++)
		tests[n++] = (struct CMUnitTest){ direct[i].label, check_direct, setup, teardown,
			(void *)i };
	for (size_t i = 0; i < N_ELEMENTS(by_proxy); i++)
		tests[n++] = (struct CMUnitTest){ by_proxy[i].label, check_by_proxy, setup,
			teardown, (void *)i };
#define CASE(label, fn) tests[n++] = (struct CMUnitTest){ label, fn, setup, teardown, NULL }
	CASE("all together have a limit", check_limit);
	CASE("rebinding", check_rebinding);
	CASE("/etc/hosts, and it changes", check_files);
	CASE("resolv.conf changes", check_resolv_conf);
	CASE("resolv.conf changes under an open question", check_resolv_conf_meanwhile);
	CASE("the environment", check_environment);
	CASE("the policy's sockets", check_mapped);
	CASE("ip_nonlocal_bind", check_nonlocal_bind);
	CASE("cancelled", check_cancel);
	CASE("asked and left, many times", check_flood);
	CASE("asked and left, by other slots", check_flood_of_others);
	CASE("a silent proxy", check_proxy_silent);
	CASE("names that only the proxy knows", check_proxy_names_there);
	CASE("plain HTTP", check_plain);
	CASE("NO_PROXY", check_no_proxy);
	return _cmocka_run_group_tests("dial", tests, n, NULL, NULL);
}
