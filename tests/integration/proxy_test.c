/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real proxy: what it lets through, what it answers, what it reports to the host, and what it
 * survives.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/kit/proxy.h"
#include "tests/kit/sanitized.h"

#define OPEN_PORT   7000 /* has no meaning to the proxy */
#define CLOSED_PORT 7001 /* nothing listens */
#define DEAF_PORT   7002 /* listens, but accepts no more */

static const char hosts[] =
    "127.0.0.1 good.test other.test any.test closed.test unnamed.test\n"
    "127.0.0.1 a.wild.test bad.wild.test bad.test a.b.wild.test asked.test\n"
    "127.0.0.9 private.test\n";

static const char *const allowed[] = { "good.test:7000", "good.test", "good.test:7001",
	"other.test", "any.test any-sni", "*.wild.test:7000", "bad.test", "private.test:7000",
	"nowhere.test:7000", "127.0.0.1", "127.0.0.1:7000", "127.0.0.1:7001", "deaf.test:7002",
	NULL };
static const char *const denied[] = { "bad.test", "bad.wild.test", NULL };
static const struct rig_options usual = { .allowed = allowed, .denied = denied };

enum {
	ALLOWED = KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED,
	DENIED = KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED,
	FAILED = KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED,
	INVALID = KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID,
	CONNECT = KODA__EGRESS_KIND__EGRESS_KIND_CONNECT,
	SOCKS = KODA__EGRESS_KIND__EGRESS_KIND_SOCKS,
	HTTP = KODA__EGRESS_KIND__EGRESS_KIND_HTTP,
};

static void
check_report(const struct rig_connection *c, uint64_t slot, int outcome, const char *host,
    unsigned port, const char *rule)
{
	assert_int_equal(c->slot, slot);
	assert_int_equal(c->outcome, outcome);
	assert_string_equal(c->host, host);
	assert_int_equal(c->port, port);
	assert_string_equal(c->rule, rule);
}

/* ---- answers ---- */

static int
say_connect(unsigned port, const char *target)
{
	char text[512];
	int fd = rig_client(port);

	snprintf(text, sizeof(text), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);
	rig_say(fd, text);
	return fd;
}

#define connect_to(target) "CONNECT " target " HTTP/1.1\r\nHost: " target "\r\n\r\n"

static const struct {
	const char *label, *request;
	int status;
	const char *header; /* in the Koda-Sandbox field */
	const char *body;   /* occurs in it */
	int outcome;
	const char *host;
	unsigned port;
	const char *rule;
} answers[] = {
	{ "no rule names it", connect_to("evil.example:443"), 403,
	    "deny; host=evil.example:443; rule=allowed_domains; mode=auto",
	    "evil.example:443 is refused", DENIED, "evil.example", 443, "allowed_domains" },
	{ "upper case and a dot at the end", connect_to("EVIL.Example.:443"), 403,
	    "deny; host=evil.example:443;", "evil.example:443", DENIED, "evil.example", 443,
	    "allowed_domains" },
	{ "another port", connect_to("good.test:22"), 403, "deny; host=good.test:22;",
	    "good.test:22", DENIED, "good.test", 22, "allowed_domains" },
	{ "denied beats allowed", connect_to("bad.test:443"), 403,
	    "deny; host=bad.test:443; rule=denied_domains;", "denies this host", DENIED, "bad.test",
	    443, "denied_domains" },
	{ "denied beats a wildcard", connect_to("bad.wild.test:7000"), 403, "rule=denied_domains;",
	    "", DENIED, "bad.wild.test", 7000, "denied_domains" },
	{ "two labels are not one", connect_to("a.b.wild.test:7000"), 403, "rule=allowed_domains;",
	    "", DENIED, "a.b.wild.test", 7000, "allowed_domains" },
	{ "the wildcard's own domain", connect_to("wild.test:7000"), 403, "rule=allowed_domains;",
	    "", DENIED, "wild.test", 7000, "allowed_domains" },
	{ "a suffix that is none", connect_to("evilgood.test:443"), 403, "rule=allowed_domains;",
	    "", DENIED, "evilgood.test", 443, "allowed_domains" },
	{ "leads to a private address", connect_to("private.test:7000"), 403,
	    "deny; host=private.test:7000; rule=address;", "loopback", DENIED, "private.test", 7000,
	    "address" },
	{ "an address that no rule names", connect_to("127.0.0.2:443"), 403, "host=127.0.0.2:443;",
	    "", DENIED, "127.0.0.2", 443, NULL },
	{ "another address", connect_to("[::1]:443"), 403, "host=[::1]:443;", "", DENIED, "[::1]",
	    443, NULL },
	{ "metadata", connect_to("169.254.169.254:80"), 403, "host=169.254.169.254:80;", "", DENIED,
	    "169.254.169.254", 80, NULL },
	{ "a name that nobody knows", connect_to("nowhere.test:7000"), 502,
	    "fail; host=nowhere.test:7000;", "nowhere.test", FAILED, "nowhere.test", 7000, "dns" },
	{ "nobody listens", connect_to("good.test:7001"), 502,
	    "fail; host=good.test:7001; rule=refused;", "", FAILED, "good.test", 7001, "refused" },
	{ "decimal", connect_to("2130706433:443"), 400, "invalid; host=-; rule=malformed;", "",
	    INVALID, "", 0, "malformed" },
	{ "octal", connect_to("0177.0.0.1:443"), 400, "invalid;", "", INVALID, "", 0, "malformed" },
	{ "hexadecimal", connect_to("0x7f000001:443"), 400, "invalid;", "", INVALID, "", 0,
	    "malformed" },
	{ "short", connect_to("127.1:443"), 400, "invalid;", "", INVALID, "", 0, "malformed" },
	{ "user information", connect_to("good.test@evil.example:443"), 400, "invalid;", "",
	    INVALID, "", 0, "malformed" },
	{ "no port", "CONNECT good.test HTTP/1.1\r\nHost: good.test\r\n\r\n", 400, "invalid;", "",
	    INVALID, "", 0, "malformed" },
	{ "two ports", connect_to("good.test:443:80"), 400, "invalid;", "", INVALID, "", 0,
	    "malformed" },
	{ "a fragment", connect_to("good.test:443#x"), 400, "invalid;", "", INVALID, "", 0,
	    "malformed" },
	{ "a backslash", connect_to("good.test\\@evil.example:443"), 400, "invalid;", "", INVALID,
	    "", 0, "malformed" },
	{ "no version", "CONNECT good.test:443\r\n\r\n", 400, "invalid;", "", INVALID, "", 0,
	    "malformed" },
	{ "SPDY", "CONNECT good.test:443 SPDY/1\r\n\r\n", 400, "invalid;", "", INVALID, "", 0,
	    "malformed" },
	{ "a body",
	    "CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\nContent-Length: 5\r\n\r\nhello",
	    400, "invalid;", "", INVALID, "", 0, "malformed" },
	{ "a bare line feed", "CONNECT good.test:443 HTTP/1.1\nHost: good.test:443\n\n", 400,
	    "invalid;", "", INVALID, "", 0, "malformed" },
	{ "origin form", "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", 400, "invalid;",
	    "this is a proxy", INVALID, "", 0, "malformed" },
};

static void
check_head(const char *head, int status, const char *header)
{
	char line[64];

	snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
	if (strncmp(head, line, strlen(line)) != 0 || strstr(head, header) == NULL ||
	    strstr(head, "\r\nKoda-Sandbox: ") == NULL)
		fail_msg("not %d, or not '%s':\n%s", status, header, head);
}

static void
check_answer(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct rig_connection *c;
	const char *text, *body;
	unsigned port, length = 0;
	uint64_t slot;
	struct rig r;
	int fd;

	rig_up(&r, &usual);
	slot = rig_serve(&r, &port);
	fd = rig_client(port);
	rig_say(fd, answers[i].request);
	text = rig_hear_all(fd);
	check_head(text, answers[i].status, answers[i].header);
	body = strstr(text, "\r\n\r\n") + 4;
	must(sscanf(strstr(text, "Content-Length: "), "Content-Length: %u", &length) == 1);
	assert_int_equal(strlen(body), length);
	assert_int_equal(strncmp(body, "koda-sandbox: ", 14), 0);
	assert_ptr_equal(strchr(body, '\n'), body + length - 1); /* one line */
	if (strstr(body, answers[i].body) == NULL)
		fail_msg("not '%s': %s", answers[i].body, body);
	/*
	 * The report of a refusal is in the host's socket before the client's answer, without a
	 * request.
	 */
	c = rig_next(&r);
	assert_false(c->open);
	check_report(c, slot, answers[i].outcome, answers[i].host, answers[i].port,
	    answers[i].rule != NULL ? answers[i].rule : c->rule);
	assert_int_equal(c->up + c->down, 0);
	rig_sync(&r);
	assert_int_equal(r.n_got, 1);
	close(fd);
	rig_down(&r);
}

/* The result is the same however the request is cut. */
static void
test_split_head(void **state)
{
	static const char request[] = connect_to("evil.example:443");
	unsigned port;
	struct rig r;
	int fd;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_client(port);
	must(setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){ 1 }, sizeof(int)) == 0);
	for (const char *p = request; *p != '\0'; p++)
		rig_say_bytes(fd, p, 1);
	check_head(rig_hear_all(fd), 403, "host=evil.example:443;");
	close(fd);
	rig_down(&r);
}

static void
say_much(int fd, size_t lines)
{
	char line[200];

	snprintf(line, sizeof(line), "X: %0190u\r\n", 0u);
	rig_say(fd, "CONNECT good.test:7000 HTTP/1.1\r\nHost: good.test:7000\r\n");
	while (lines-- > 0)
		rig_say(fd, line);
}

static void
test_too_large(void **state)
{
	unsigned port, open_port = OPEN_PORT;
	int on = rig_listen("127.0.0.1", &open_port);
	const struct rig_connection *c;
	uint64_t slot;
	struct rig r;
	int fd;

	rig_up(&r, &usual);
	slot = rig_serve(&r, &port);
	/* A head that fits is accepted. */
	fd = rig_client(port);
	say_much(fd, 80);
	rig_say(fd, "\r\n");
	assert_string_equal(rig_hear_head(fd), RIG_OPENED);
	close(fd);
	fd = rig_client(port);
	say_much(fd, 90);
	check_head(rig_hear_all(fd), 431, "invalid; host=-; rule=too_large; mode=auto");
	close(fd);
	do
		c = rig_next_end(&r);
	while (c->outcome == ALLOWED);
	check_report(c, slot, INVALID, "", 0, "too_large");
	close(on);
	rig_down(&r);
}

static void
test_modes(void **state)
{
	static const struct {
		enum koda_mode mode;
		const char *name;
	} modes[] = { { KODA_PLAN, "mode=plan" }, { KODA_SAFE, "mode=safe" },
		{ KODA_AUTO, "mode=auto" } };

	for (size_t i = 0; i < N_ELEMENTS(modes); i++) {
		struct rig_options opt = { .mode = modes[i].mode };
		unsigned port;
		struct rig r;
		int fd;

		rig_up(&r, &opt);
		rig_serve(&r, &port);
		fd = rig_client(port);
		rig_say(fd, connect_to("good.test:443"));
		check_head(rig_hear_all(fd), 403, modes[i].name);
		close(fd);
		rig_down(&r);
	}
}

/* ---- tunnels ---- */

static int listening = -1;

static int
listen_open(void **state)
{
	unsigned port = OPEN_PORT;

	listening = rig_listen("127.0.0.1", &port);
	return 0;
}

static int
listen_close(void **state)
{
	close(listening);
	return 0;
}

static void
test_tunnel(void **state)
{
	const struct rig_connection *c;
	unsigned port;
	uint64_t slot, id;
	struct rig r;
	char buf[16];
	int fd, server;

	rig_up(&r, &usual);
	slot = rig_serve(&r, &port);
	fd = rig_tunnel(port, "Good.Test.:7000");
	server = rig_accept(listening);
	rig_say(fd, "ping");
	rig_hear_bytes(server, buf, 4);
	assert_memory_equal(buf, "ping", 4);
	rig_say(server, "pong pong");
	rig_hear_bytes(fd, buf, 9);
	assert_memory_equal(buf, "pong pong", 9);
	rig_sync(&r);
	c = rig_next(&r);
	assert_true(c->open);
	id = c->id;
	check_report(c, slot, ALLOWED, "good.test", 7000, "good.test:7000");
	assert_int_equal(c->kind, CONNECT);
	/* Half-close, in each direction. */
	must(shutdown(fd, SHUT_WR) == 0);
	assert_string_equal(rig_hear_all(server), "");
	rig_say(server, "more");
	close(server);
	assert_string_equal(rig_hear_all(fd), "more");
	close(fd);
	c = rig_next_end(&r);
	check_report(c, slot, ALLOWED, "good.test", 7000, "good.test:7000");
	assert_int_equal(c->id, id);
	assert_int_equal(c->up, 4);
	assert_int_equal(c->down, 13);
	assert_true(c->duration_us > 0);
	rig_down(&r);
}

static void
test_half_close_of_server(void **state)
{
	unsigned port;
	struct rig r;
	char buf[8];
	int fd, server;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:7000");
	server = rig_accept(listening);
	rig_say(server, "bye");
	must(shutdown(server, SHUT_WR) == 0);
	assert_string_equal(rig_hear_all(fd), "bye");
	rig_say(fd, "and you");
	rig_hear_bytes(server, buf, 7);
	close(fd);
	assert_string_equal(rig_hear_all(server), "");
	close(server);
	rig_down(&r);
}

/* The client sends data without waiting for the answer. */
static void
test_bytes_behind_the_head(void **state)
{
	unsigned port;
	struct rig r;
	char buf[16];
	int fd, server;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_client(port);
	rig_say(fd, connect_to("good.test:7000") "at once");
	server = rig_accept(listening);
	rig_hear_bytes(server, buf, 7);
	assert_memory_equal(buf, "at once", 7);
	assert_string_equal(rig_hear_head(fd), RIG_OPENED);
	close(fd);
	close(server);
	rig_down(&r);
}

static void
test_end_behind_the_head(void **state)
{
	unsigned port;
	struct rig r;
	int fd, server;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_client(port);
	rig_say(fd, connect_to("good.test:7000") "all of it");
	must(shutdown(fd, SHUT_WR) == 0);
	server = rig_accept(listening);
	assert_string_equal(rig_hear_all(server), "all of it");
	rig_say(server, "answer");
	close(server);
	assert_string_equal(rig_hear_all(fd), RIG_OPENED "answer");
	assert_int_equal(rig_next_end(&r)->outcome, ALLOWED);
	close(fd);
	/* A client that sends nothing in the tunnel and leaves. */
	fd = rig_client(port);
	rig_say(fd, connect_to("good.test:7000"));
	close(fd);
	server = rig_accept(listening);
	assert_string_equal(rig_hear_all(server), "");
	close(server);
	assert_string_equal(rig_next_end(&r)->host, "good.test");
	rig_down(&r);
}

static void
test_server_speaks_first(void **state)
{
	unsigned port;
	struct rig r;
	char buf[16];
	int fd, server;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:7000");
	server = rig_accept(listening);
	rig_say(server, "220 welcome");
	rig_hear_bytes(fd, buf, 11);
	rig_say(fd, "HELO");
	rig_hear_bytes(server, buf, 4);
	close(fd);
	close(server);
	rig_down(&r);
}

static void
test_wildcard(void **state)
{
	unsigned port;
	struct rig r;
	int fd;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "a.wild.test:7000");
	close(rig_accept(listening));
	assert_string_equal(rig_next(&r)->rule, "*.wild.test:7000");
	close(fd);
	rig_down(&r);
}

/*
 * Every name is allowed but the denied ones; a name still leads to no address of this machine
 * unless a rule says so.
 */
static void
test_any_domain(void **state)
{
	static const char *const only[] = { "127.0.0.1:7000", NULL };
	const struct rig_options opt = { .allowed = only, .denied = denied, .any_domain = true };
	unsigned port;
	struct rig r;
	int fd;

	rig_up(&r, &opt);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "unnamed.test:7000");
	close(rig_accept(listening));
	assert_string_equal(rig_next(&r)->rule, "any_domain");
	close(fd);
	fd = say_connect(port, "private.test:7000");
	check_head(rig_hear_all(fd), 403, "rule=address;");
	close(fd);
	fd = say_connect(port, "unnamed.test:7001");
	check_head(rig_hear_all(fd), 403, "rule=address;");
	close(fd);
	fd = say_connect(port, "bad.test:7000");
	check_head(rig_hear_all(fd), 403, "rule=denied_domains;");
	close(fd);
	rig_down(&r);
}

/* An empty policy allows nothing. */
static void
test_empty_policy(void **state)
{
	const struct rig_options opt = { .mode = KODA_AUTO };
	unsigned port;
	struct rig r;
	int fd;

	rig_up(&r, &opt);
	rig_serve(&r, &port);
	fd = say_connect(port, "good.test:443");
	check_head(rig_hear_all(fd), 403, "rule=allowed_domains;");
	close(fd);
	rig_down(&r);
}

/* ---- SOCKS ---- */

#define greeting "\5\1\0"

static const struct {
	const char *label, *bytes;
	size_t n;
	const char *answer;
	size_t n_answer; /* number of bytes at its start */
	int outcome;
	const char *host;
	unsigned port;
	const char *rule; /* NULL: not checked */
} socks[] = {
#define bytes(s) s, sizeof(s) - 1
	{ "a name", bytes(greeting "\5\1\0\3\x9good.test\x1b\x58"), bytes("\5\0\5\0\0\1"), ALLOWED,
	    "good.test", 7000, "good.test:7000" },
	{ "an address that a rule names", bytes(greeting "\5\1\0\1\x7f\0\0\1\x1b\x58"),
	    bytes("\5\0\5\0\0\1"), ALLOWED, "127.0.0.1", 7000, "127.0.0.1:7000" },
	{ "two methods", bytes("\5\2\2\0\5\1\0\3\x9good.test\x1b\x58"), bytes("\5\0\5\0\0\1"),
	    ALLOWED, "good.test", 7000, "good.test:7000" },
	{ "no rule",
	    bytes(greeting "\5\1\0\3\xc"
			   "evil.example\1\xbb"),
	    bytes("\5\0\5\2\0\1"), DENIED, "evil.example", 443, "allowed_domains" },
	{ "an address", bytes(greeting "\5\1\0\1\x7f\0\0\2\1\xbb"), bytes("\5\0\5\2\0\1"), DENIED,
	    "127.0.0.2", 443, NULL },
	{ "::1", bytes(greeting "\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\1\xbb"),
	    bytes("\5\0\5\2\0\1"), DENIED, "[::1]", 443, NULL },
	{ "leads where it must not", bytes(greeting "\5\1\0\3\xcprivate.test\x1b\x58"),
	    bytes("\5\0\5\2\0\1"), DENIED, "private.test", 7000, "address" },
	{ "nobody listens", bytes(greeting "\5\1\0\3\x9good.test\x1b\x59"), bytes("\5\0\5\5\0\1"),
	    FAILED, "good.test", 7001, "refused" },
	{ "nobody knows it", bytes(greeting "\5\1\0\3\xcnowhere.test\x1b\x58"),
	    bytes("\5\0\5\1\0\1"), FAILED, "nowhere.test", 7000, "dns" },
	{ "BIND", bytes(greeting "\5\2\0\3\x9good.test\x1b\x58"), bytes("\5\0\5\7\0\1"), INVALID,
	    NULL, 0, NULL },
	{ "UDP", bytes(greeting "\5\3\0\3\x9good.test\x1b\x58"), bytes("\5\0\5\7\0\1"), INVALID,
	    NULL, 0, NULL },
	{ "an address type that is none", bytes(greeting "\5\1\0\5\x9good.test\x1b\x58"),
	    bytes("\5\0\5\x8\0\1"), INVALID, NULL, 0, NULL },
	{ "a NUL in the name", bytes(greeting "\5\1\0\3\xagood.test\0\x1b\x58"), bytes("\5\0\5"),
	    INVALID, NULL, 0, NULL },
	{ "decimal",
	    bytes(greeting "\5\1\0\3\xa"
			   "2130706433\x1b\x58"),
	    bytes("\5\0\5"), INVALID, NULL, 0, NULL },
	{ "only with a password", bytes("\5\1\2"), bytes("\5\xff"), INVALID, NULL, 0, NULL },
	{ "SOCKS4", bytes("\4\1\x1b\x58\x7f\0\0\1\0"), bytes("\0\x5b\0\0\0\0\0\0"), INVALID, NULL,
	    0, NULL },
	{ "SOCKS4a", bytes("\4\1\x1b\x58\0\0\0\1\0good.test\0"), bytes("\0\x5b\0\0\0\0\0\0"),
	    INVALID, NULL, 0, NULL },
	{ "TLS to the proxy", bytes("\x16\3\1\0\5\1\0\0\1\0"), bytes(""), INVALID, NULL, 0, NULL },
#undef bytes
};

static void
check_socks(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct rig_connection *c;
	unsigned port;
	uint64_t slot;
	struct rig r;
	char buf[32];
	int fd;

	rig_up(&r, &usual);
	slot = rig_serve(&r, &port);
	fd = rig_client(port);
	rig_say_bytes(fd, socks[i].bytes, socks[i].n);
	rig_hear_bytes(fd, buf, socks[i].n_answer);
	assert_memory_equal(buf, socks[i].answer, socks[i].n_answer);
	if (socks[i].outcome == ALLOWED) {
		int server = rig_accept(listening);

		rig_hear_bytes(fd, buf, 10 + 2 - socks[i].n_answer);
		rig_say(fd, "x");
		rig_hear_bytes(server, buf, 1);
		rig_say(server, "y");
		rig_hear_bytes(fd, buf, 1);
		assert_memory_equal(buf, "y", 1);
		close(server);
	}
	rig_hear_all(fd);
	close(fd);
	c = rig_next_end(&r);
	check_report(c, slot, socks[i].outcome, socks[i].host == NULL ? c->host : socks[i].host,
	    socks[i].host == NULL ? c->port : socks[i].port,
	    socks[i].rule == NULL ? c->rule : socks[i].rule);
	if (socks[i].bytes[0] != 0x16)
		assert_int_equal(c->kind, SOCKS);
	rig_down(&r);
}

/* Byte by byte, waiting for each answer before the next message. */
static void
test_socks_slowly(void **state)
{
	static const char request[] = "\5\1\0\3\x9good.test\x1b\x58";
	unsigned port;
	struct rig r;
	char buf[10];
	int fd, server;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_client(port);
	rig_say(fd, "\5");
	rig_say(fd, "\1");
	rig_say_bytes(fd, "", 1);
	rig_hear_bytes(fd, buf, 2);
	for (size_t i = 0; i < sizeof(request) - 1; i++)
		rig_say_bytes(fd, request + i, 1);
	rig_hear_bytes(fd, buf, 10);
	assert_memory_equal(buf, "\5\0\0\1", 4);
	server = rig_accept(listening);
	close(server);
	close(fd);
	rig_down(&r);
}

/* ---- TLS names ---- */

struct writer {
	unsigned char p[2048];
	size_t n;
};

static void
put(struct writer *w, const void *bytes, size_t n)
{
	must(w->n + n <= sizeof(w->p));
	memcpy(w->p + w->n, bytes, n);
	w->n += n;
}

static void
put16(struct writer *w, size_t v)
{
	put(w, (unsigned char[]){ (unsigned char)(v >> 8), (unsigned char)v }, 2);
}

/* Builds a ClientHello of TLS 1.2 or 1.3, as far as a proxy parses it. Returns its length. */
static size_t
make_hello(const char *name, bool ech, unsigned char ret[2048])
{
	static const unsigned char random[32] = { 1, 2, 3 };
	struct writer ext = { .n = 0 }, body = { .n = 0 }, w = { .n = 0 };

	if (name != NULL) {
		size_t len = strlen(name);

		put16(&ext, 0);
		put16(&ext, len + 5);
		put16(&ext, len + 3);
		put(&ext, "", 1);
		put16(&ext, len);
		put(&ext, name, len);
	}
	if (ech) {
		put16(&ext, 0xfe0d);
		put16(&ext, 10);
		put(&ext, "\0\0\1\0\1\7\0\0\0\0", 10);
	}
	put16(&ext, 0x002b);
	put16(&ext, 3);
	put(&ext, "\2\3\4", 3);
	put(&body, "\3\3", 2);
	put(&body, random, 32);
	put(&body, "", 1);
	put16(&body, 2);
	put(&body, "\x13\1", 2);
	put(&body, "\1\0", 2);
	put16(&body, ext.n);
	put(&body, ext.p, ext.n);
	put(&w, "\x16\3\1", 3);
	put16(&w, body.n + 4);
	put(&w, "\1\0", 2);
	put16(&w, body.n);
	put(&w, body.p, body.n);
	memcpy(ret, w.p, w.n);
	return w.n;
}

static const struct {
	const char *label, *target, *name;
	bool ech, plain, any_domain;
	const char *why; /* NULL: it goes through; else a part of the report to the host */
} hellos[] = {
	{ "the name", "good.test:443", "good.test", false, false, false, NULL },
	{ "in capitals", "good.test:443", "GOOD.test", false, false, false, NULL },
	{ "another name", "good.test:443", "other.test", false, false, false, "another host" },
	{ "a denied name", "good.test:443", "bad.test", false, false, false, "denies" },
	{ "a name below", "good.test:443", "x.good.test", false, false, false, "another host" },
	{ "no name", "good.test:443", NULL, false, false, false, "names no server" },
	{ "an encrypted name", "good.test:443", "good.test", true, false, false, "encrypted" },
	{ "no TLS", "good.test:443", NULL, false, true, false, "does not speak TLS" },
	{ "any-sni", "any.test:443", "front.example", false, false, false, NULL },
	{ "any-sni, a denied name", "any.test:443", "bad.test", false, false, false, "denies" },
	{ "any-sni without a name", "any.test:443", NULL, false, false, false, NULL },
	{ "any-sni, encrypted", "any.test:443", "front.example", true, false, false, NULL },
	{ "an address, no name", "127.0.0.1:443", NULL, false, false, false, NULL },
	{ "an address, a name", "127.0.0.1:443", "good.test", false, false, false, "another host" },
	{ "any domain, another name", "good.test:443", "front.example", false, false, true, NULL },
	{ "any domain, a denied name", "good.test:443", "bad.test", false, false, true, "denies" },
	{ "any domain, encrypted", "good.test:443", "good.test", true, false, true, "encrypted" },
	{ "any domain, no name", "good.test:443", NULL, false, false, true, "names no server" },
	{ "TLS on another port", "good.test:7000", "good.test", false, false, false, NULL },
	{ "another name on another port", "good.test:7000", "other.test", false, false, false,
	    "another host" },
	{ "TLS on port 80", "good.test:80", "good.test", false, false, false, NULL },
	{ "another name on port 80", "good.test:80", "other.test", false, false, false,
	    "another host" },
	{ "no TLS on another port", "good.test:7000", NULL, false, true, false, NULL },
};

static void
check_hello(void **state)
{
	static const unsigned char alert[] = { 21, 3, 3, 0, 2, 2, 112 };
	const size_t i = (uintptr_t)*state;
	struct rig_options opt = usual;
	const struct rig_connection *c;
	unsigned server_port = (unsigned)atoi(strrchr(hellos[i].target, ':') + 1), port;
	cleanup_close int on = rig_listen("127.0.0.1", &server_port);
	unsigned char hello[2048], buf[2048];
	size_t n = hellos[i].plain ? 7 : make_hello(hellos[i].name, hellos[i].ech, hello);
	uint64_t slot;
	struct rig r;
	int fd, server;

	if (hellos[i].plain)
		memcpy(hello, "SSH-2.0", n);
	opt.any_domain = hellos[i].any_domain;
	rig_up(&r, &opt);
	slot = rig_serve(&r, &port);
	fd = rig_tunnel(port, hellos[i].target);
	server = rig_accept(on);
	/* In two parts: nothing may pass before the proxy knows what it is. */
	rig_say_bytes(fd, hello, n / 2);
	if (hellos[i].why == NULL || !hellos[i].plain)
		rig_say_bytes(fd, hello + n / 2, n - n / 2);
	if (hellos[i].why == NULL) {
		rig_hear_bytes(server, buf, n);
		assert_memory_equal(buf, hello, n);
		close(fd);
		assert_string_equal(rig_hear_all(server), "");
		close(take_fd(&server));
		assert_int_equal(rig_next_end(&r)->outcome, ALLOWED);
	} else {
		rig_hear_bytes(fd, buf, sizeof(alert));
		assert_memory_equal(buf, alert, sizeof(alert));
		assert_string_equal(rig_hear_all(fd), "");
		assert_string_equal(rig_hear_all(server), "");
		c = rig_next_end(&r);
		check_report(c, slot, DENIED, c->host, server_port, "tls_name");
		assert_int_equal(strncmp(hellos[i].target, c->host, strlen(c->host)), 0);
		if (strstr(c->detail, hellos[i].why) == NULL)
			fail_msg("not '%s': %s", hellos[i].why, c->detail);
		close(fd);
	}
	if (server >= 0)
		close(server);
	rig_down(&r);
}

/* The same result wherever the hello is cut, and in records of one byte. */
static void
test_hello_split(void **state)
{
	unsigned char hello[2048], pieces[8192], buf[8192];
	unsigned server_port = 443, port;
	cleanup_close int on = rig_listen("127.0.0.1", &server_port);
	size_t n = make_hello("good.test", false, hello), len = 0;
	struct rig r;

	for (size_t i = 5; i < n; i++) {
		memcpy(pieces + len, (unsigned char[]){ 0x16, 3, 1, 0, 1, hello[i] }, 6);
		len += 6;
	}
	rig_up(&r, &usual);
	rig_serve(&r, &port);
	for (int variant = 0; variant < 2; variant++) {
		const unsigned char *p = variant == 0 ? hello : pieces;
		size_t all = variant == 0 ? n : len;
		int fd = rig_tunnel(port, "good.test:443"), server = rig_accept(on);

		must(setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){ 1 }, sizeof(int)) ==
		    0);
		for (size_t i = 0; i < all; i++)
			rig_say_bytes(fd, p + i, 1);
		rig_hear_bytes(server, buf, all);
		assert_memory_equal(buf, p, all);
		close(fd);
		close(server);
	}
	rig_down(&r);
}

/*
 * Builds a server's answer to a hello, as far as a proxy parses it. retry: it asks for another
 * hello. Returns its length.
 */
static size_t
make_answer(bool retry, unsigned char ret[128])
{
	static const unsigned char random[32] = { 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11,
		0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
		0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c };

	memset(ret, 0, 128);
	memcpy(ret, "\x16\3\3\0\x58\2\0\0\x54\3\3", 11);
	memcpy(ret + 11, random, sizeof(random));
	ret[42] ^= retry ? 0 : 1;
	return 5 + 0x58;
}

static const struct {
	const char *label;
	bool retry;
	const char *second;
	bool ahead;  /* sent before the server has answered */
	bool behind; /* after early data and a dummy ChangeCipherSpec */
	bool slowly; /* the server answers byte by byte */
	const char *why;
} seconds[] = {
	{ "another hello: the same name", true, "good.test", false, false, false, NULL },
	{ "another hello: another name", true, "other.test", false, false, false, "another host" },
	{ "another hello: no name", true, NULL, false, false, false, "names no server" },
	{ "another hello: behind early data", true, "good.test", false, true, false, NULL },
	{ "another hello: another name behind early data", true, "other.test", false, true, false,
	    "another host" },
	{ "another hello: ahead of time", true, "good.test", true, true, false, NULL },
	{ "another hello: another name ahead of time", true, "other.test", true, false, false,
	    "another host" },
	{ "another hello: asked for slowly", true, "other.test", true, true, true, "another host" },
	{ "no other hello: what is ahead of time goes on", false, "other.test", true, true, false,
	    NULL },
	{ "no other hello: slowly", false, "other.test", false, true, true, NULL },
};

static void
check_second_hello(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct rig_connection *c;
	unsigned char bytes[4096], buf[4096], answer[128];
	unsigned server_port = 443, port;
	cleanup_close int on = rig_listen("127.0.0.1", &server_port);
	size_t first = make_hello("good.test", false, bytes), n = first, len;
	struct rig r;
	int fd, server;

	if (seconds[i].behind) {
		memcpy(bytes + n, "\x14\3\3\0\1\1\x17\3\3\0\5early", 16);
		n += 16;
	}
	n += make_hello(seconds[i].second, false, bytes + n);
	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:443");
	server = rig_accept(on);
	rig_say_bytes(fd, bytes, seconds[i].ahead ? n : first);
	rig_hear_bytes(server, buf, first);
	assert_memory_equal(buf, bytes, first);
	len = make_answer(seconds[i].retry, answer);
	must(setsockopt(server, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){ 1 }, sizeof(int)) == 0);
	for (size_t k = 0; seconds[i].slowly && k < 43; k++)
		rig_say_bytes(server, answer + k, 1);
	if (seconds[i].slowly)
		rig_say_bytes(server, answer + 43, len - 43);
	else
		rig_say_bytes(server, answer, len);
	rig_hear_bytes(fd, buf, len);
	assert_memory_equal(buf, answer, len);
	if (!seconds[i].ahead)
		for (size_t k = first; k < n; k++)
			rig_say_bytes(fd, bytes + k, 1);
	if (seconds[i].why == NULL) {
		rig_hear_bytes(server, buf, n - first);
		assert_memory_equal(buf, bytes + first, n - first);
		rig_say_bytes(server, "more", 4);
		rig_hear_bytes(fd, buf, 4);
		close(fd);
		assert_string_equal(rig_hear_all(server), "");
		close(server);
		c = rig_next_end(&r);
		assert_int_equal(c->outcome, ALLOWED);
		assert_int_equal(c->up, n);
		assert_int_equal(c->down, len + 4);
	} else {
		rig_hear_bytes(fd, buf, 7);
		assert_memory_equal(buf, "\x15\3\3\0\2\2\x70", 7);
		assert_string_equal(rig_hear_all(server), "");
		c = rig_next_end(&r);
		check_report(c, c->slot, DENIED, "good.test", 443, "tls_name");
		assert_non_null(strstr(c->detail, seconds[i].why));
		close(fd);
		close(server);
	}
	rig_down(&r);
}

/* A tunnel to port 80 carries plain HTTP, and Host is compared with the target. */
static void
test_plain_in_a_tunnel(void **state)
{
	unsigned server_port = 80, port;
	cleanup_close int on = rig_listen("127.0.0.1", &server_port);
	const struct rig_connection *c;
	struct rig r;
	int fd, server;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:80");
	server = rig_accept(on);
	rig_say(fd, "GET /x HTTP/1.1\r\nHost: good.test\r\n\r\n");
	must(strncmp(rig_hear_head(server), "GET /x HTTP/1.1\r\n", 17) == 0);
	rig_say(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	must(strncmp(rig_hear_head(fd), "HTTP/1.1 200 OK\r\n", 17) == 0);
	rig_hear_bytes(fd, (char[2]){ 0 }, 2);
	rig_say(fd, "GET /x HTTP/1.1\r\nHost: other.test\r\n\r\n");
	check_head(rig_hear_head(fd), 403, "rule=host");
	close(fd);
	do
		c = rig_next_end(&r);
	while (c->outcome == ALLOWED);
	assert_int_equal(c->outcome, DENIED);
	assert_string_equal(rig_hear_all(server), "");
	close(server);
	rig_down(&r);
}

/* ---- questions ---- */

static const struct rig_options asking = { .allowed =
					       (const char *const[]){ "127.0.0.1:7000", NULL },
	.denied = (const char *const[]){ "bad.test", NULL },
	.mode = KODA_SAFE,
	.ask = true };

static void
test_ask_once(void **state)
{
	const struct rig_ask *a;
	unsigned port;
	uint64_t slot;
	struct rig r;
	int fd, second;

	rig_up(&r, &asking);
	slot = rig_serve(&r, &port);
	/* Two clients that want the same host cause one question. */
	fd = say_connect(port, "asked.test:7000");
	a = rig_next_ask(&r);
	assert_string_equal(a->host, "asked.test");
	assert_int_equal(a->port, 7000);
	assert_int_equal(a->slot, slot);
	second = say_connect(port, "Asked.test:7000");
	rig_say(second, "early");
	rig_sync(&r);
	assert_true(rig_is_silent(fd));
	/* The proxy has accepted and handled the second client when it answers this later one. */
	close(say_connect(port, "bad.test:443"));
	assert_string_equal(rig_next(&r)->rule, "denied_domains");
	assert_int_equal(r.n_asks, 1);
	rig_answer(&r, a, KODA__EGRESS_CONSENT__EGRESS_CONSENT_ONCE);
	assert_string_equal(rig_hear_head(fd), RIG_OPENED);
	assert_string_equal(rig_hear_head(second), RIG_OPENED);
	assert_string_equal(rig_next(&r)->rule, "approved");
	close(rig_accept(listening));
	close(rig_accept(listening));
	close(fd);
	close(second);
	/* An answer for once is valid once. */
	fd = say_connect(port, "asked.test:7000");
	a = rig_next_ask(&r);
	rig_answer(&r, a, KODA__EGRESS_CONSENT__EGRESS_CONSENT_NO);
	check_head(rig_hear_all(fd), 403,
	    "deny; host=asked.test:7000; rule=allowed_domains; mode=safe");
	close(fd);
	/* A refusal is valid for a while: there is no new question at once. */
	fd = say_connect(port, "asked.test:7000");
	check_head(rig_hear_all(fd), 403, "mode=safe");
	close(fd);
	rig_sync(&r);
	assert_int_equal(r.n_asks, 2);
	rig_down(&r);
}

static void
test_ask_session(void **state)
{
	const struct rig_ask *a;
	unsigned port, other_port;
	struct rig r;
	int fd, other;

	rig_up(&r, &asking);
	rig_serve(&r, &port);
	rig_serve(&r, &other_port);
	fd = say_connect(port, "asked.test:7000");
	a = rig_next_ask(&r);
	/* Each slot has its own question, but one answer for the session is valid for both. */
	other = say_connect(other_port, "asked.test:7000");
	rig_next_ask(&r);
	rig_answer(&r, a, KODA__EGRESS_CONSENT__EGRESS_CONSENT_SESSION);
	assert_string_equal(rig_hear_head(fd), RIG_OPENED);
	assert_string_equal(rig_hear_head(other), RIG_OPENED);
	rig_sync(&r);
	assert_true(r.ask[1].withdrawn);
	close(fd);
	close(other);
	fd = rig_tunnel(port, "asked.test:7000");
	close(fd);
	/* Another port is another question. */
	fd = say_connect(port, "asked.test:443");
	rig_next_ask(&r);
	close(fd);
	for (int i = 0; i < 3; i++)
		close(rig_accept(listening));
	rig_down(&r);
}

static void
test_granted_before(void **state)
{
	struct rig_options opt = asking;
	unsigned port;
	struct rig r;
	int fd;

	opt.grant_host = "asked.test";
	opt.grant_port = 7000;
	opt.ask = false;
	rig_up(&r, &opt);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "asked.test:7000");
	close(rig_accept(listening));
	close(fd);
	rig_down(&r);
}

/* ---- slots where each host needs the user's consent ---- */

#define EACH  KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_EACH
#define GIVEN KODA__EGRESS_CONSENT_FOR__EGRESS_CONSENT_FOR_EACH_GIVEN

static const struct rig_options each = { .allowed = allowed, .denied = denied, .mode = KODA_SAFE };

/* Hosts that a rule allows, by name and by address; another slot of the same policy asks nothing. */
static void
test_each_asked(void **state)
{
	static const char *const targets[] = { "good.test:7000", "127.0.0.1:7000" };
	unsigned port, other_port;
	uint64_t slot;
	struct rig r;

	rig_up(&r, &each);
	slot = rig_serve_asking(&r, EACH, &port);
	rig_serve(&r, &other_port);
	for (size_t i = 0; i < N_ELEMENTS(targets); i++) {
		const struct rig_ask *a;
		int fd = rig_tunnel(other_port, targets[i]);

		close(rig_accept(listening));
		close(fd);
		assert_int_equal(r.n_asks, 2 * i);
		fd = say_connect(port, targets[i]);
		a = rig_next_ask(&r);
		assert_int_equal(a->slot, slot);
		assert_int_equal(a->port, 7000);
		assert_int_equal(strncmp(a->host, targets[i], strlen(a->host)), 0);
		rig_sync(&r);
		assert_true(rig_is_silent(fd));
		rig_answer(&r, a, KODA__EGRESS_CONSENT__EGRESS_CONSENT_ONCE);
		assert_string_equal(rig_hear_head(fd), RIG_OPENED);
		close(rig_accept(listening));
		close(fd);
		fd = say_connect(port, targets[i]);
		rig_answer(&r, rig_next_ask(&r), KODA__EGRESS_CONSENT__EGRESS_CONSENT_NO);
		check_head(rig_hear_all(fd), 403, "rule=not_approved; mode=safe");
		close(fd);
	}
	rig_down(&r);
}

static void
test_each_session(void **state)
{
	unsigned port, other_port;
	struct rig r;
	int fd;

	rig_up(&r, &each);
	rig_serve_asking(&r, EACH, &port);
	rig_serve_asking(&r, GIVEN, &other_port);
	fd = say_connect(other_port, "good.test:7000");
	check_head(rig_hear_all(fd), 403, "rule=nobody_to_ask; mode=safe");
	close(fd);
	fd = say_connect(port, "good.test:7000");
	rig_answer(&r, rig_next_ask(&r), KODA__EGRESS_CONSENT__EGRESS_CONSENT_SESSION);
	assert_string_equal(rig_hear_head(fd), RIG_OPENED);
	close(rig_accept(listening));
	close(fd);
	for (int i = 0; i < 2; i++) {
		fd = rig_tunnel(i == 0 ? port : other_port, "good.test:7000");
		close(rig_accept(listening));
		close(fd);
	}
	rig_sync(&r);
	assert_int_equal(r.n_asks, 1);
	rig_down(&r);
}

/* The user approves one name: a rule's permission for other TLS names does not count. */
static void
test_each_name(void **state)
{
	static const unsigned char alert[] = { 21, 3, 3, 0, 2, 2, 112 };
	unsigned char hello[2048], buf[sizeof(alert)];
	const size_t n = make_hello("front.example", false, hello);
	unsigned server_port = 443, port, other_port;
	cleanup_close int on = rig_listen("127.0.0.1", &server_port);
	struct rig r;
	int fd, server;

	rig_up(&r, &each);
	rig_serve_asking(&r, EACH, &port);
	rig_serve(&r, &other_port);
	fd = rig_tunnel(other_port, "any.test:443");
	server = rig_accept(on);
	rig_say_bytes(fd, hello, n);
	rig_hear_bytes(server, buf, sizeof(buf));
	close(server);
	close(fd);
	fd = say_connect(port, "any.test:443");
	rig_answer(&r, rig_next_ask(&r), KODA__EGRESS_CONSENT__EGRESS_CONSENT_ONCE);
	assert_string_equal(rig_hear_head(fd), RIG_OPENED);
	server = rig_accept(on);
	rig_say_bytes(fd, hello, n);
	rig_hear_bytes(fd, buf, sizeof(alert));
	assert_memory_equal(buf, alert, sizeof(alert));
	assert_string_equal(rig_hear_all(server), "");
	close(server);
	close(fd);
	rig_down(&r);
}

/* What a rule denies, and what no rule names while nobody is asked about that, is no question. */
static void
test_each_denied(void **state)
{
	static const struct {
		const char *target, *rule;
	} rows[] = {
		{ "bad.test:7000", "rule=denied_domains;" },
		{ "unnamed.test:7000", "rule=allowed_domains;" },
		{ "[::1]:443", "rule=allowed_domains;" },
	};
	unsigned port;
	struct rig r;

	rig_up(&r, &each);
	rig_serve_asking(&r, EACH, &port);
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		int fd = say_connect(port, rows[i].target);

		check_head(rig_hear_all(fd), 403, rows[i].rule);
		close(fd);
	}
	rig_sync(&r);
	assert_int_equal(r.n_asks, 0);
	rig_down(&r);
}

/* When the asking client goes away, its question is withdrawn; the same when the slot goes. */
static void
test_ask_withdrawn(void **state)
{
	uint64_t until = rig_ms() + PATIENCE_MS, slot;
	unsigned port;
	struct rig r;
	int fd;

	rig_up(&r, &asking);
	slot = rig_serve(&r, &port);
	fd = say_connect(port, "asked.test:443");
	rig_next_ask(&r);
	close(fd);
	while (!r.ask[0].withdrawn)
		rig_turn(&r, until);
	fd = say_connect(port, "asked.test:443");
	rig_next_ask(&r);
	rig_drop(&r, slot);
	while (!r.ask[1].withdrawn)
		rig_turn(&r, until);
	assert_string_equal(rig_hear_all(fd), "");
	close(fd);
	/* An answer that comes too late has no effect. */
	rig_answer(&r, &r.ask[0], KODA__EGRESS_CONSENT__EGRESS_CONSENT_SESSION);
	rig_sync(&r);
	rig_down(&r);
}

static void
test_ask_not(void **state)
{
	static const char *const targets[] = { "bad.test:443", "127.0.0.2:443", "[::1]:443" };
	unsigned port;
	struct rig r;

	rig_up(&r, &asking);
	rig_serve(&r, &port);
	for (size_t i = 0; i < N_ELEMENTS(targets); i++) {
		int fd = say_connect(port, targets[i]);

		check_head(rig_hear_all(fd), 403, "deny;");
		close(fd);
	}
	rig_sync(&r);
	assert_int_equal(r.n_asks, 0);
	rig_down(&r);
}

static void
test_ask_flood(void **state)
{
	unsigned port;
	struct rig r;
	int fd[17];

	rig_up(&r, &asking);
	rig_serve(&r, &port);
	for (unsigned i = 0; i < 17; i++) {
		char target[64];

		snprintf(target, sizeof(target), "host%u.test:443", i);
		fd[i] = say_connect(port, target);
		if (i < 16)
			rig_next_ask(&r);
	}
	check_head(rig_hear_all(fd[16]), 403, "host=host16.test:443;");
	rig_sync(&r);
	assert_int_equal(r.n_asks, 16);
	for (unsigned i = 0; i < 17; i++)
		close(fd[i]);
	rig_down(&r);
}

/* ---- slots ---- */

static void
test_drop(void **state)
{
	unsigned port[2];
	uint64_t slot[2];
	struct rig r;
	char byte;
	int fd[2], server[2];

	rig_up(&r, &usual);
	for (int i = 0; i < 2; i++) {
		slot[i] = rig_serve(&r, &port[i]);
		fd[i] = rig_tunnel(port[i], "good.test:7000");
		server[i] = rig_accept(listening);
		rig_say(fd[i], "x");
		rig_hear_bytes(server[i], &byte, 1);
	}
	rig_drop(&r, slot[0]);
	rig_hear_all(fd[0]);
	rig_hear_all(server[0]);
	rig_sync(&r);
	/* The other slot goes on. */
	rig_say(fd[1], "y");
	rig_hear_bytes(server[1], &byte, 1);
	rig_say(server[1], "z");
	rig_hear_bytes(fd[1], &byte, 1);
	close(rig_tunnel(port[1], "good.test:7000"));
	/*
	 * Open connections are reported, each for its slot; nothing is reported for the dropped
	 * slot.
	 */
	r.n_got = r.taken = 0;
	rig_sync_slot(&r, slot[1]);
	rig_sync_slot(&r, slot[0]);
	for (size_t i = 0; i < r.n_got; i++)
		assert_int_equal(r.got[i].slot, slot[1]);
	assert_true(r.n_got >= 1);
	for (int i = 0; i < 2; i++) {
		close(fd[i]);
		close(server[i]);
	}
	close(rig_accept(listening));
	rig_down(&r);
}

static void
test_sync(void **state)
{
	unsigned port;
	struct rig r;
	uint64_t slot;
	char buf[8];
	int fd, server, open = 0;

	rig_up(&r, &usual);
	slot = rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:7000");
	server = rig_accept(listening);
	rig_say(fd, "12345");
	rig_hear_bytes(server, buf, 5);
	rig_say(server, "123");
	rig_hear_bytes(fd, buf, 3);
	rig_sync(&r);
	r.n_got = 0;
	rig_sync_slot(&r, slot);
	for (size_t i = 0; i < r.n_got; i++)
		if (r.got[i].open) {
			open++;
			assert_int_equal(r.got[i].up, 5);
			assert_int_equal(r.got[i].down, 3);
		}
	assert_int_equal(open, 1);
	close(fd);
	close(server);
	rig_down(&r);
}

/*
 * A sync of one slot does not report the connections of all: so many reports would exceed what is
 * held back for the host.
 */
static void
test_sync_of_one_slot(void **state)
{
	enum { SLOTS = 3, TUNNELS = 4 };
	unsigned port[SLOTS];
	uint64_t slot[SLOTS];
	int fd[SLOTS * TUNNELS];
	struct rig r;

	rig_up(&r, &usual);
	for (int i = 0; i < SLOTS; i++)
		slot[i] = rig_serve(&r, &port[i]);
	for (int i = 0; i < SLOTS * TUNNELS; i++)
		fd[i] = rig_tunnel(port[i % SLOTS], "good.test:7000");
	rig_sync(&r); /* reports of their opening */
	for (int i = 0; i < SLOTS; i++) {
		r.n_got = r.taken = 0;
		rig_sync_slot(&r, slot[i]);
		assert_int_equal(r.n_got, TUNNELS);
		for (size_t k = 0; k < r.n_got; k++) {
			assert_true(r.got[k].open);
			assert_int_equal(r.got[k].slot, slot[i]);
		}
	}
	r.n_got = r.taken = 0;
	rig_sync_slot(&r, slot[SLOTS - 1] + 1); /* an unknown slot */
	rig_sync(&r);
	assert_int_equal(r.n_got, 0);
	for (int i = 0; i < SLOTS * TUNNELS; i++)
		close(fd[i]);
	for (int i = 0; i < SLOTS * TUNNELS; i++)
		close(rig_accept(listening));
	rig_down(&r);
}

/* ---- many ---- */

static void
test_silent_clients(void **state)
{
	unsigned port;
	struct rig r;
	int fd[1000], served;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	for (size_t i = 0; i < N_ELEMENTS(fd); i++) {
		fd[i] = rig_client(port);
		if (i % 2 == 0)
			rig_say(fd[i], "CONNECT good.te");
	}
	served = rig_tunnel(port, "good.test:7000");
	close(rig_accept(listening));
	close(served);
	for (size_t i = 0; i < N_ELEMENTS(fd); i++)
		close(fd[i]);
	rig_down(&r);
}

static size_t
resident(const struct rig *r)
{
	char path[64], text[256];
	unsigned long all, pages = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)r->child.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	must(n > 0);
	close(fd);
	text[n] = '\0';
	must(sscanf(text, "%lu %lu", &all, &pages) == 2);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#define IDLE       1000
#define IDLE_BYTES (24u << 10) /* per tunnel */

/* Raises our limit of descriptors: both ends are ours, and a login often gets only 1,024. */
static void
may_open(rlim_t n)
{
	struct rlimit rl;

	must(getrlimit(RLIMIT_NOFILE, &rl) == 0);
	if (rl.rlim_cur < n)
		rl.rlim_cur = n;
	must(setrlimit(RLIMIT_NOFILE, &rl) == 0);
}

static void
test_idle_tunnels(void **state)
{
	static int fd[IDLE], server[IDLE];
	char buf[4096] = { 0 };
	size_t before, after;
	unsigned port;
	struct rig r;

	may_open(2 * IDLE + 64);
	rig_up(&r, &usual);
	rig_serve(&r, &port);
	before = resident(&r);
	for (size_t i = 0; i < IDLE; i++) {
		fd[i] = rig_tunnel(port, "good.test:7000");
		server[i] = rig_accept(listening);
		rig_say_bytes(fd[i], buf, sizeof(buf));
		rig_hear_bytes(server[i], buf, sizeof(buf));
		rig_say_bytes(server[i], buf, sizeof(buf));
		rig_hear_bytes(fd[i], buf, sizeof(buf));
	}
	rig_sync(&r);
	after = resident(&r);
	print_message("# %zu bytes for each idle tunnel\n", (after - before) / IDLE);
	if (!SANITIZED)
		assert_true((after - before) / IDLE <= IDLE_BYTES);
	for (size_t i = 0; i < IDLE; i++) {
		close(fd[i]);
		close(server[i]);
	}
	rig_down(&r);
}

/*
 * Returns false if a client was accepted, and got an error, because its server connection had no
 * descriptor under this limit.
 */
static bool
wait_for_descriptors(rlim_t limit)
{
	const struct rlimit few = { limit, limit };
	size_t opened = 0, i;
	bool ok = true;
	unsigned port;
	struct rig r;
	int fd[64];

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	rig_sync(&r);
	must(prlimit(r.child.pid, RLIMIT_NOFILE, &few, NULL) == 0);
	for (i = 0; i < N_ELEMENTS(fd); i++)
		fd[i] = say_connect(port, "127.0.0.1:7000");
	/* The first clients are served; not all of them can be. */
	for (i = 0; i < 4; i++)
		assert_string_equal(rig_hear_head(fd[i]), RIG_OPENED);
	rig_sync(&r);
	r.n_got = r.taken = 0;
	rig_sync(&r); /* reports the open ones, once each */
	for (i = 0; i < r.n_got; i++)
		opened += r.got[i].open;
	assert_true(opened < few.rlim_cur / 2);
	/* Each connection that ends makes room for the next one: all are served in the end. */
	for (i = 4; i < N_ELEMENTS(fd) && ok; i++) {
		close(fd[i - 4]);
		close(rig_accept(listening));
		ok = strcmp(rig_hear_head(fd[i]), RIG_OPENED) == 0;
	}
	for (i -= 4; i < N_ELEMENTS(fd); i++)
		close(fd[i]);
	rig_down(&r);
	return ok;
}

/*
 * Without a spare descriptor the proxy waits, and goes on when there is one. Each connection needs
 * two: of the two limits, one leaves an even number.
 */
static void
test_descriptors_run_out(void **state)
{
	if (wait_for_descriptors(24))
		return;
	listen_close(state); /* drops what is left in its queue */
	listen_open(state);
	assert_true(wait_for_descriptors(25));
}

/* A signal takes effect later: wait until the proxy has stopped. */
static void
stop(const struct rig *r)
{
	siginfo_t info;

	must(kill(r->child.pid, SIGSTOP) == 0);
	must(waitid(P_PID, (id_t)r->child.pid, &info, WSTOPPED | WNOWAIT) == 0);
}

static void
go_on(const struct rig *r)
{
	must(kill(r->child.pid, SIGCONT) == 0);
}

#define LOOKS 20

/*
 * The host does not read, and its socket is soon full: no client is refused before the host can
 * know of it, and no report is lost.
 */
static void
test_host_that_does_not_read(void **state)
{
	static int fd[1000];
	struct rig_options opt = usual;
	unsigned port;
	struct rig r;

	opt.send_buffer = 1; /* the smallest possible */
	rig_up(&r, &opt);
	rig_serve(&r, &port);
	for (size_t i = 0; i < N_ELEMENTS(fd); i++)
		fd[i] = say_connect(port, "evil.example:443");
	for (int look = 0; look < LOOKS; look++) {
		const uint64_t until = rig_ms() + PATIENCE_MS;
		const size_t before = r.n_got;
		size_t answered = 0;

		while (r.n_got == before)
			rig_turn(&r, until);
		stop(&r);
		for (size_t i = 0; i < N_ELEMENTS(fd); i++)
			answered += !rig_is_silent(fd[i]);
		rig_take_all(&r);
		go_on(&r); /* before a failure leaves it stopped */
		if (answered > r.n_got)
			fail_msg("%zu answered, and the host can know of %zu", answered, r.n_got);
	}
	while (r.n_got < N_ELEMENTS(fd))
		rig_turn(&r, rig_ms() + PATIENCE_MS);
	for (size_t i = 0; i < N_ELEMENTS(fd); i++) {
		check_head(rig_hear_all(fd[i]), 403, "deny;");
		close(fd[i]);
	}
	rig_sync(&r);
	assert_int_equal(r.n_got, N_ELEMENTS(fd));
	rig_down(&r);
}

/* ---- the host's side ---- */

static void
test_confined(void **state)
{
	char path[64], text[4096];
	struct rig r;
	ssize_t n;
	int fd;

	rig_up(&r, &usual);
	assert_int_equal(r.landlock_abi, lockdown_landlock_abi());
	snprintf(path, sizeof(path), "/proc/%d/status", (int)r.child.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	must(n > 0);
	close(fd);
	text[n] = '\0';
	assert_non_null(strstr(text, "\nNoNewPrivs:\t1\n"));
	assert_non_null(strstr(text, "\nSeccomp:\t2\n"));
	assert_non_null(strstr(text, "\nCapPrm:\t0000000000000000\n"));
	assert_non_null(strstr(text, "\nThreads:\t1\n"));
	rig_down(&r);
}

static void
order_raw(struct rig *r)
{
	rig_say_bytes(r->fs.fd, "\0\0\0\3xyz", 7);
}

static void
order_too_long(struct rig *r)
{
	rig_say_bytes(r->fs.fd, "\0\x20\0\0", 4);
}

static void
order_none(struct rig *r)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	uint8_t *p = frame_reserve(&r->fs, 2, NULL);

	(void)o;
	memcpy(p, "\x7a\0", 2); /* field 15 */
	must(frame_flush(&r->fs, true, NULL) == 1);
}

static void
order_second_start(struct rig *r)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressStart start = KODA__EGRESS_START__INIT;
	Koda__EgressUpstream up = KODA__EGRESS_UPSTREAM__INIT;

	start.protocol = KODA_PROTOCOL_VERSION;
	start.mode = KODA__MODE__MODE_AUTO;
	start.upstream = &up;
	o.order_case = KODA__EGRESS_ORDER__ORDER_START;
	o.start = &start;
	rig_send(r, &o, -1);
}

static void
serve_with(struct rig *r, int fd)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressServe serve = KODA__EGRESS_SERVE__INIT;

	serve.slot = 77;
	o.order_case = KODA__EGRESS_ORDER__ORDER_SERVE;
	o.serve = &serve;
	rig_send(r, &o, fd);
	if (fd >= 0)
		close(fd);
}

static void
order_serve_nothing(struct rig *r)
{
	serve_with(r, -1);
}

static void
order_serve_file(struct rig *r)
{
	serve_with(r, open("/dev/null", O_RDWR | O_CLOEXEC));
}

static void
order_serve_unbound(struct rig *r)
{
	serve_with(r, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static void
order_serve_twice(struct rig *r)
{
	unsigned port;

	rig_serve(r, &port);
	r->next_slot--;
	rig_serve(r, &port);
}

static void
order_drop_unknown(struct rig *r)
{
	rig_drop(r, 77);
}

static void
order_with_descriptor(struct rig *r)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressSync sync = KODA__EGRESS_SYNC__INIT;
	cleanup_close int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	o.order_case = KODA__EGRESS_ORDER__ORDER_SYNC;
	o.sync = &sync;
	rig_send(r, &o, fd);
}

static void
order_half(struct rig *r)
{
	rig_say_bytes(r->fs.fd, "\0\0\0\x9xyz", 7);
	shutdown(r->fs.fd, SHUT_WR);
}

static const struct {
	const char *label;
	void (*say)(struct rig *r);
} hostile[] = {
	{ "bytes that are no message", order_raw },
	{ "a frame that is too long", order_too_long },
	{ "an order that there is none of", order_none },
	{ "a second start", order_second_start },
	{ "a slot without a socket", order_serve_nothing },
	{ "a slot with a file", order_serve_file },
	{ "a slot with a socket that does not listen", order_serve_unbound },
	{ "a slot twice", order_serve_twice },
	{ "a slot that is not there dropped", order_drop_unknown },
	{ "a descriptor too many", order_with_descriptor },
	{ "half a frame", order_half },
};

static void
check_hostile(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct rig r;

	rig_up(&r, &usual);
	hostile[i].say(&r);
	assert_string_equal(rig_gone(&r), "exited with 1");
	r.deaf = true;
	rig_down(&r);
}

/* Instead of a good start: the proxy reports why, and ends. */
static void
start_with(struct rig *r, unsigned protocol, const char *policy, size_t policy_len,
    const char *https_proxy, const char *grant_host)
{
	Koda__EgressOrder o = KODA__EGRESS_ORDER__INIT;
	Koda__EgressStart start = KODA__EGRESS_START__INIT;
	Koda__EgressUpstream up = KODA__EGRESS_UPSTREAM__INIT;
	Koda__EgressGrant grant = KODA__EGRESS_GRANT__INIT, *grants[] = { &grant };
	uint64_t until = rig_ms() + PATIENCE_MS;

	start.protocol = protocol;
	start.policy = (ProtobufCBinaryData){ policy_len, (uint8_t *)(uintptr_t)policy };
	start.mode = KODA__MODE__MODE_AUTO;
	start.upstream = &up;
	if (https_proxy != NULL) {
		up.has_https_proxy = true;
		up.https_proxy = rig_bytes(https_proxy);
	}
	if (grant_host != NULL) {
		grant.host = rig_bytes(grant_host);
		grant.port = 443;
		start.grant = grants;
		start.n_grant = 1;
	}
	o.order_case = KODA__EGRESS_ORDER__ORDER_START;
	o.start = &start;
	rig_send(r, &o, -1);
	while (r->failed[0] == '\0')
		rig_turn(r, until);
}

static const struct {
	const char *label;
	unsigned protocol;
	const char *policy;
	size_t policy_len;
	const char *https_proxy, *grant_host, *why;
} starts[] = {
	{ "another version", KODA_PROTOCOL_VERSION + 1, "", 0, NULL, NULL,
	    "not installed together" },
	{ "no policy", KODA_PROTOCOL_VERSION, "\x7a\x01x", 3, NULL, NULL, "olicy" },
	{ "a proxy that cannot be used", KODA_PROTOCOL_VERSION, "", 0, "ftp://secret:word@x:1",
	    NULL, "https_proxy" },
	{ "a grant for no host", KODA_PROTOCOL_VERSION, "", 0, NULL, "0x7f.1", "grant" },
	{ "a grant that is not canonical", KODA_PROTOCOL_VERSION, "", 0, NULL, "Good.Test",
	    "grant" },
};

static void
check_start(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct rig r;

	rig_spawn(&r, KODA_TEST_PROXY);
	start_with(&r, starts[i].protocol, starts[i].policy, starts[i].policy_len,
	    starts[i].https_proxy, starts[i].grant_host);
	if (strcasestr(r.failed, starts[i].why) == NULL)
		fail_msg("not '%s': %s", starts[i].why, r.failed);
	assert_null(strstr(r.failed, "word"));
	assert_string_equal(rig_gone(&r), "exited with 1");
	rig_down(&r);
}

static void
test_end_before_start(void **state)
{
	struct rig r;

	rig_spawn(&r, KODA_TEST_PROXY);
	frame_done(&r.fs);
	rig_gone(&r);
	r.deaf = true;
	rig_down(&r);
}

/* The proxy's connections end with it. */
static void
test_end(void **state)
{
	unsigned port;
	struct rig r;
	int fd, server;

	rig_up(&r, &usual);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:7000");
	server = rig_accept(listening);
	rig_down(&r);
	rig_hear_all(fd);
	rig_hear_all(server);
	close(fd);
	close(server);
}

/* ---- times and limits: a proxy for which a second is long ---- */

static const struct rig_options hasty = { .program =
					      KODA_TEST_VARIANT_DIR "/koda-egress-proxy-hasty",
	.allowed = allowed,
	.denied = denied };

static void
test_slow_head(void **state)
{
	const struct rig_connection *c;
	unsigned port;
	uint64_t slot;
	struct rig r;
	char buf[12];
	int fd, silent, socks5;

	rig_up(&r, &hasty);
	slot = rig_serve(&r, &port);
	silent = rig_client(port);
	fd = rig_client(port);
	rig_say(fd, "CONNECT good.test:443 HT");
	check_head(rig_hear_all(fd), 408, "invalid; host=-; rule=too_slow;");
	c = rig_next(&r);
	check_report(c, slot, INVALID, "", 0, "too_slow");
	/* A client that has sent nothing gets no answer. */
	assert_string_equal(rig_hear_all(silent), "");
	socks5 = rig_client(port);
	rig_say_bytes(socks5, "\5\1\0\5\1", 5);
	rig_hear_bytes(socks5, buf, 12);
	assert_memory_equal(buf, "\5\0\5\1\0\1", 6);
	assert_int_equal(rig_next(&r)->outcome, INVALID);
	close(fd);
	close(silent);
	close(socks5);
	rig_down(&r);
}

static void
test_slow_hello(void **state)
{
	unsigned server_port = 443, port;
	cleanup_close int on = rig_listen("127.0.0.1", &server_port);
	const struct rig_connection *c;
	uint64_t slot;
	struct rig r;
	int fd, server;

	rig_up(&r, &hasty);
	slot = rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:443");
	server = rig_accept(on);
	rig_say_bytes(fd, "\x16\3\1", 3);
	assert_string_equal(rig_hear_all(fd), "");
	assert_string_equal(rig_hear_all(server), "");
	c = rig_next_end(&r);
	check_report(c, slot, INVALID, "good.test", 443, "time");
	close(fd);
	close(server);
	rig_down(&r);
}

static void
test_idle(void **state)
{
	unsigned port;
	struct rig r;
	char byte;
	int fd, server;

	rig_up(&r, &hasty);
	rig_serve(&r, &port);
	fd = rig_tunnel(port, "good.test:7000");
	server = rig_accept(listening);
	rig_say(fd, "x");
	rig_hear_bytes(server, &byte, 1);
	rig_hear_all(fd);
	rig_hear_all(server);
	assert_int_equal(rig_next_end(&r)->outcome, ALLOWED);
	close(fd);
	close(server);
	/* A tunnel in which neither side has sent anything. */
	fd = rig_tunnel(port, "good.test:7000");
	server = rig_accept(listening);
	assert_string_equal(rig_hear_all(fd), "");
	close(fd);
	close(server);
	rig_down(&r);
}

static void
test_ask_in_vain(void **state)
{
	struct rig_options opt = asking;
	unsigned port;
	struct rig r;
	int fd;

	opt.program = hasty.program;
	rig_up(&r, &opt);
	rig_serve(&r, &port);
	fd = say_connect(port, "asked.test:443");
	rig_next_ask(&r);
	check_head(rig_hear_all(fd), 403, "host=asked.test:443;");
	rig_sync(&r);
	assert_true(r.ask[0].withdrawn);
	close(fd);
	rig_down(&r);
}

#define HASTY_CONNS 16 /* tests/variants */

static void
test_too_many(void **state)
{
	const struct rig_connection *c;
	unsigned port;
	uint64_t slot;
	struct rig r;
	int fd[HASTY_CONNS], more;

	rig_up(&r, &hasty);
	slot = rig_serve(&r, &port);
	for (int i = 0; i < HASTY_CONNS; i++)
		fd[i] = rig_tunnel(port, "good.test:7000");
	more = rig_client(port);
	check_head(rig_hear_all(more), 503, "fail; host=-; rule=connections;");
	close(more);
	rig_sync(&r);
	while ((c = rig_next(&r))->open)
		;
	check_report(c, slot, INVALID, "", 0, "connections");
	/* A connection whose client does not wait for the answer is reported, too. */
	close(rig_client(port));
	check_report(rig_next_end(&r), slot, INVALID, "", 0, "connections");
	/* Another slot has its own limit. */
	rig_serve(&r, &port);
	close(rig_tunnel(port, "good.test:7000"));
	for (int i = 0; i < HASTY_CONNS; i++)
		close(fd[i]);
	for (int i = 0; i < HASTY_CONNS + 1; i++)
		close(rig_accept(listening));
	rig_down(&r);
}

/* A client above the limit gets the error in its own protocol. */
static const struct {
	const char *label, *bytes;
	size_t n;
	const char *answer;
	size_t n_answer; /* the whole answer; for HTTP the number of bytes at its start */
	int kind;
} surplus[] = {
#define bytes(s) s, sizeof(s) - 1
	{ "one too many: CONNECT", bytes(connect_to("good.test:7000")), bytes("HTTP/1.1 503 "),
	    HTTP },
	{ "one too many: a request",
	    bytes("GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n"),
	    bytes("HTTP/1.1 503 "), HTTP },
	{ "one too many: SOCKS5", bytes(greeting), bytes("\5\0\5\1\0\1\0\0\0\0\0\0"), SOCKS },
	{ "one too many: SOCKS5, all at once", bytes(greeting "\5\1\0\3\x9good.test\x1b\x58"),
	    bytes("\5\0\5\1\0\1\0\0\0\0\0\0"), SOCKS },
	{ "one too many: SOCKS5 with a login", bytes("\5\1\2"), bytes("\5\xff"), SOCKS },
	{ "one too many: half a greeting", bytes("\5\2\0"), bytes("\5\xff"), SOCKS },
	{ "one too many: SOCKS4", bytes("\4\1\x1b\x58\x7f\0\0\1\0"), bytes("\0\x5b\0\0\0\0\0\0"),
	    SOCKS },
	{ "one too many: TLS", bytes("\x16\3\1\0\5hello"), bytes(""), CONNECT },
#undef bytes
};

static void
check_surplus(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct rig_connection *c;
	unsigned port;
	uint64_t slot;
	struct rig r;
	int fd[HASTY_CONNS], more;
	char buf[32];

	rig_up(&r, &hasty);
	slot = rig_serve(&r, &port);
	for (int k = 0; k < HASTY_CONNS; k++)
		fd[k] = rig_tunnel(port, "good.test:7000");
	/* Stopped, so that the proxy finds the connection and its bytes together. */
	must(kill(r.child.pid, SIGSTOP) == 0);
	more = rig_client(port);
	rig_say_bytes(more, surplus[i].bytes, surplus[i].n);
	must(kill(r.child.pid, SIGCONT) == 0);
	rig_hear_bytes(more, buf, surplus[i].n_answer);
	assert_memory_equal(buf, surplus[i].answer, surplus[i].n_answer);
	if (surplus[i].kind != HTTP)
		assert_int_equal(recv(more, buf, 1, 0) > 0, false);
	close(more);
	rig_sync(&r);
	c = rig_next_end(&r);
	check_report(c, slot, INVALID, "", 0, "connections");
	assert_int_equal(c->kind, surplus[i].kind);
	for (int k = 0; k < HASTY_CONNS; k++)
		close(fd[k]);
	for (int k = 0; k < HASTY_CONNS; k++)
		close(rig_accept(listening));
	rig_down(&r);
}

#define tunnels(f) cmocka_unit_test_setup_teardown(f, listen_open, listen_close)

int
main(void)
{
	static const struct CMUnitTest plain[] = {
		cmocka_unit_test(test_split_head),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_modes),
		tunnels(test_tunnel),
		tunnels(test_half_close_of_server),
		tunnels(test_bytes_behind_the_head),
		tunnels(test_end_behind_the_head),
		tunnels(test_server_speaks_first),
		tunnels(test_wildcard),
		tunnels(test_any_domain),
		cmocka_unit_test(test_empty_policy),
		tunnels(test_socks_slowly),
		cmocka_unit_test(test_hello_split),
		cmocka_unit_test(test_plain_in_a_tunnel),
		tunnels(test_ask_once),
		tunnels(test_ask_session),
		tunnels(test_granted_before),
		tunnels(test_each_asked),
		tunnels(test_each_session),
		cmocka_unit_test(test_each_denied),
		cmocka_unit_test(test_each_name),
		cmocka_unit_test(test_ask_withdrawn),
		cmocka_unit_test(test_ask_not),
		cmocka_unit_test(test_ask_flood),
		tunnels(test_drop),
		tunnels(test_sync),
		tunnels(test_sync_of_one_slot),
		tunnels(test_silent_clients),
		tunnels(test_idle_tunnels),
		tunnels(test_descriptors_run_out),
		cmocka_unit_test(test_host_that_does_not_read),
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_end_before_start),
		tunnels(test_end),
		cmocka_unit_test(test_slow_head),
		cmocka_unit_test(test_slow_hello),
		tunnels(test_idle),
		cmocka_unit_test(test_ask_in_vain),
		tunnels(test_too_many),
	};
	static struct CMUnitTest tests[N_ELEMENTS(plain) + N_ELEMENTS(answers) + N_ELEMENTS(socks) +
	    N_ELEMENTS(surplus) + N_ELEMENTS(hellos) + N_ELEMENTS(seconds) + N_ELEMENTS(hostile) +
	    N_ELEMENTS(starts)];
	size_t n = 0;

#define table(cases, check, setup, teardown)                                                       \
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)                                             \
	tests[n++] = (struct CMUnitTest){ (cases)[i].label, check, setup, teardown, (void *)i }
	table(answers, check_answer, NULL, NULL);
	memcpy(tests + n, plain, sizeof(plain));
	n += N_ELEMENTS(plain);
	table(socks, check_socks, listen_open, listen_close);
	table(surplus, check_surplus, listen_open, listen_close);
	table(hellos, check_hello, NULL, NULL);
	table(seconds, check_second_hello, NULL, NULL);
	table(hostile, check_hostile, NULL, NULL);
	table(starts, check_start, NULL, NULL);
	rig_enter(hosts);
	return cmocka_run_group_tests_name("proxy", tests, NULL, NULL);
}
