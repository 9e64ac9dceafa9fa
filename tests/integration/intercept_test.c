/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS interception by the proxy, between a client that trusts the proxy's authority and an origin
 * with an authority of its own. Client and origin both belong to this test.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "tests/kit/cases.h"
#include "tests/kit/script.h"

#define LARGE      (64u << 20)
#define MANY_HOSTS 300

/* ---- certificates ---- */

static EVP_PKEY *key, *ca_key;
static X509 *ca, *stranger;

static X509 *
certificate(X509 *issuer, EVP_PKEY *issuer_key, const char *names, long until)
{
	X509 *x = X509_new();
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	static long serial = 1;

	must(X509_set_version(x, X509_VERSION_3) == 1);
	ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(x), -2L * 24 * 60 * 60);
	X509_gmtime_adj(X509_getm_notAfter(x), until);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
	    (const unsigned char *)(issuer == NULL ? "an authority" : "an origin"), -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(issuer == NULL ? x : issuer));
	X509_set_pubkey(x, issuer == NULL ? issuer_key : key);
	X509V3_set_ctx(&ctx, issuer == NULL ? x : issuer, x, NULL, NULL, 0);
	e = issuer == NULL
	    ? X509V3_EXT_conf_nid(NULL, &ctx, NID_basic_constraints, "critical,CA:TRUE")
	    : X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, names);
	must(e != NULL && X509_add_ext(x, e, -1) == 1);
	X509_EXTENSION_free(e);
	must(X509_sign(x, issuer_key, EVP_sha256()) > 0);
	return x;
}

/* ---- origins ---- */

enum origin_kind {
	GOOD,
	STRANGERS, /* signed by an untrusted authority */
	OTHERS,    /* for another name */
	EXPIRED,
	NO_TLS,
	N_ORIGINS,
};

static const unsigned origin_port[N_ORIGINS] = { 443, 8443, 8444, 8445, 8446 };

static struct rig proxy;
static unsigned port;
static char bundle[PATH_MAX];
static pid_t children[N_ORIGINS];
static int seen = -1; /* reports from the good origin: server names, then request heads */

/* Writes all n bytes; false if the peer has gone. */
static bool
tls_says(SSL *ssl, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n > 0) {
		int r = SSL_write(ssl, p, n > 65536 ? 65536 : (int)n);

		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

static size_t
tls_hears(SSL *ssl, void *buf, size_t n)
{
	size_t got = 0;

	while (got < n) {
		int r = SSL_read(ssl, (char *)buf + got, n - got > 65536 ? 65536 : (int)(n - got));

		if (r <= 0)
			break;
		got += (size_t)r;
	}
	return got;
}

static bool
tls_hears_head(SSL *ssl, char *buf, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && (n < 4 || memcmp(buf + n - 4, "\r\n\r\n", 4) != 0)) {
		if (tls_hears(ssl, buf + n, 1) != 1)
			return false;
		n++;
	}
	buf[n] = '\0';
	return true;
}

/* Answers one request. Returns whether the connection goes on. */
static bool
origin_answers(SSL *ssl, const char *head, int tell)
{
	static char block[65536];
	size_t n;

	if (strstr(head, " /until-the-end ") != NULL) {
		tls_says(ssl, "HTTP/1.1 200 OK\r\n\r\nall of it", 28);
		SSL_shutdown(ssl);
		return false;
	}
	if (strstr(head, " /cut ") != NULL) {
		tls_says(ssl, "HTTP/1.1 200 OK\r\n\r\nall of it", 28);
		return false;
	}
	if (strstr(head, " /large ") != NULL) {
		for (n = 0; n < LARGE; n += sizeof(block)) {
			if (tls_hears(ssl, block, sizeof(block)) != sizeof(block))
				return false;
		}
		tls_says(ssl, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n", 45);
		for (n = 0; n < LARGE; n += sizeof(block)) {
			if (!tls_says(ssl, block, sizeof(block)))
				return false;
		}
		return true;
	}
	if (strstr(head, " /chat ") != NULL) {
		static const char answer[] =
		    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
		    "Upgrade: websocket\r\n\r\nfirst";
		int r;

		tls_says(ssl, answer, sizeof(answer) - 1);
		while ((r = SSL_read(ssl, block, sizeof(block))) > 0) {
			if (!tls_says(ssl, block, (size_t)r))
				return false;
		}
		tls_says(ssl, "last", 4);
		SSL_shutdown(ssl);
		return false;
	}
	return tls_says(ssl, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 40);
}

static void
origin_serves(SSL_CTX *ctx, int fd, int tell)
{
	char head[8192], line[8400];
	SSL *ssl = SSL_new(ctx);

	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1) {
		while (tls_hears_head(ssl, head, sizeof(head))) {
			const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

			/* Names and heads come from this test and are shorter. */
			snprintf(line, sizeof(line), "%.100s\n%s", name != NULL ? name : "-", head);
			must(write(tell, line, strlen(line) + 1) == (ssize_t)strlen(line) + 1);
			if (!origin_answers(ssl, head, tell))
				break;
		}
	}
	SSL_free(ssl);
	close(fd);
}

static void
origin_runs(enum origin_kind kind, int listener, int tell)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	X509 *x = kind == STRANGERS ? certificate(stranger, key, "DNS:good.test", 86400)
	    : kind == OTHERS        ? certificate(ca, ca_key, "DNS:other.test", 86400)
	    : kind == EXPIRED
	    ? certificate(ca, ca_key, "DNS:good.test", -86400)
	    : certificate(ca, ca_key, "DNS:good.test,DNS:*.test,IP:127.0.0.1", 86400);

	SSL_CTX_use_certificate(ctx, x);
	SSL_CTX_use_PrivateKey(ctx, key);
	/* The proxy may close the connection while the origin writes to it. */
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			_exit(0);
		if (kind == NO_TLS) {
			char hello[5];

			/*
			 * A TLS server does not speak first, and the tunnel would notice: read the
			 * hello before.
			 */
			(void)!hears(fd, hello, sizeof(hello));
			says(fd, "500 a mail server\r\n");
			close(fd);
		} else {
			origin_serves(ctx, fd, tell);
		}
	}
}

static void
write_bundle(const char *path, X509 *x)
{
	FILE *f = fopen(path, "we");

	must(f != NULL && PEM_write_X509(f, x) == 1 && fclose(f) == 0);
}

static int
setup(void **state)
{
	static const char *const rules[] = { "good.test:443", "good.test:8443", "good.test:8444",
		"good.test:8445", "good.test:8446", "*.many.test:443", "127.0.0.1:443",
		"127.0.0.1:8443", "127.0.0.1:8444", "127.0.0.1:8445", "127.0.0.1:8446", NULL };
	const struct rig_options options = { .allowed = rules,
		.intercept = true,
		.ca_bundle = bundle };
	const char *tmp = getenv("TMPDIR");
	int tell[2];

	ca_key = EVP_EC_gen("P-256");
	key = EVP_EC_gen("P-256");
	ca = certificate(NULL, ca_key, NULL, 86400);
	stranger = certificate(NULL, key, NULL, 86400);
	snprintf(bundle, sizeof(bundle), "%s/bundle.pem", tmp != NULL ? tmp : "/tmp");
	write_bundle(bundle, ca);
	must(pipe2(tell, O_CLOEXEC) == 0);
	for (size_t i = 0; i < N_ORIGINS; i++) {
		unsigned p = origin_port[i];
		int listener = rig_listen("127.0.0.1", &p);

		children[i] = fork();
		must(children[i] >= 0);
		if (children[i] == 0)
			origin_runs(i, listener, tell[1]);
		close(listener);
	}
	close(tell[1]);
	seen = tell[0];
	rig_up(&proxy, &options);
	rig_serve(&proxy, &port);
	must(proxy.ca != NULL);
	return 0;
}

static int
teardown(void **state)
{
	rig_down(&proxy);
	for (size_t i = 0; i < N_ORIGINS; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	close(seen);
	unlink(bundle);
	X509_free(ca);
	X509_free(stranger);
	EVP_PKEY_free(ca_key);
	EVP_PKEY_free(key);
	return 0;
}

/* Returns the server name and the head of the next request that the good origin received. */
static const char *
origin_saw(void)
{
	static char text[8400];
	size_t n = 0;

	do {
		must(comes(seen, PATIENCE_MS) && n < sizeof(text) && read(seen, text + n, 1) == 1);
	} while (text[n++] != '\0');
	return text;
}

static void
origin_saw_nothing(void)
{
	assert_false(comes(seen, 0));
}

/* ---- clients ---- */

struct client {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
};

/* Opens the tunnel, but does not start TLS. trusts: trust the proxy's authority. */
static void
client_init(struct client *c, const char *host, unsigned to, bool trusts, const char *protocols)
{
	char target[300];

	snprintf(target, sizeof(target), "%s:%u", host, to);
	c->fd = rig_tunnel(port, target);
	c->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
	if (trusts) {
		BIO *bio = BIO_new_mem_buf(proxy.ca, -1);
		X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);

		must(x != NULL && X509_STORE_add_cert(SSL_CTX_get_cert_store(c->ctx), x) == 1);
		X509_free(x);
		BIO_free(bio);
	}
	/* Verify as strictly as the strictest clients do (Python 3.13). */
	X509_STORE_set_flags(SSL_CTX_get_cert_store(c->ctx), X509_V_FLAG_X509_STRICT);
	if (protocols != NULL)
		SSL_CTX_set_alpn_protos(c->ctx, (const unsigned char *)protocols,
		    (unsigned)strlen(protocols));
	c->ssl = SSL_new(c->ctx);
	if (host[0] >= '0' && host[0] <= '9') {
		X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(c->ssl), host);
	} else {
		SSL_set_tlsext_host_name(c->ssl, host);
		SSL_set1_host(c->ssl, host);
	}
	SSL_set_fd(c->ssl, c->fd);
}

static void
client_open(struct client *c, const char *host, unsigned to)
{
	client_init(c, host, to, true, "\x02h2\x08http/1.1");
	if (SSL_connect(c->ssl) != 1)
		fail_msg("%s: TLS: %s, %s", host, ERR_reason_error_string(ERR_peek_last_error()),
		    X509_verify_cert_error_string(SSL_get_verify_result(c->ssl)));
}

static void
client_close(struct client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	close(c->fd);
	ERR_clear_error();
}

static void
client_says(struct client *c, const char *text)
{
	must(tls_says(c->ssl, text, strlen(text)));
}

static void
client_sees(struct client *c, const char *want)
{
	size_t n = strlen(want), got;
	char *text = calloc(1, n + 1);

	got = tls_hears(c->ssl, text, n);
	if (got != n || strcmp(text, want) != 0)
		fail_msg("the client saw '%s' and not '%s'", text, want);
	free(text);
}

/* Expects a proper end, with a close_notify. */
static void
client_sees_end(struct client *c)
{
	char byte;
	int r = SSL_read(c->ssl, &byte, 1);

	assert_int_equal(r, 0);
	assert_int_equal(SSL_get_error(c->ssl, r), SSL_ERROR_ZERO_RETURN);
}

static void
client_sees_refusal(struct client *c, int status, const char *rule)
{
	char head[4096], want[64], text[1024];
	const char *length;
	size_t n;

	assert_true(tls_hears_head(c->ssl, head, sizeof(head)));
	snprintf(want, sizeof(want), "HTTP/1.1 %d ", status);
	assert_memory_equal(head, want, strlen(want));
	snprintf(want, sizeof(want), "; rule=%s;", rule);
	if (strstr(head, want) == NULL)
		fail_msg("no %s in '%s'", want, head);
	assert_non_null(length = strstr(head, "\r\nContent-Length: "));
	n = strtoul(length + strlen("\r\nContent-Length: "), NULL, 10);
	assert_in_range(n, 1, sizeof(text));
	assert_int_equal(tls_hears(c->ssl, text, n), n);
}

/* Drops reports that belong to earlier tests. */
static void
forget(void)
{
	rig_sync(&proxy);
	proxy.taken = proxy.n_got;
}

/* Returns the next connection that did not end well. */
static const struct rig_connection *
next_failure(void)
{
	const struct rig_connection *r;

	do {
		r = rig_next_end(&proxy);
	} while (r->outcome == KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED);
	return r;
}

/* ---- what is served ---- */

#define GET "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"
#define OK  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static void
serves(void **state)
{
	const unsigned char *protocol;
	struct client c;
	unsigned n;

	client_open(&c, "good.test", 443);
	SSL_get0_alpn_selected(c.ssl, &protocol, &n);
	assert_int_equal(n, 8);
	assert_memory_equal(protocol, "http/1.1", 8);
	for (int i = 0; i < 3; i++) {
		client_says(&c, GET);
		client_sees(&c, OK);
		assert_string_equal(origin_saw(), "good.test\n" GET);
	}
	client_close(&c);
}

/* The hello in single bytes. */
static void
hello_in_pieces(void **state)
{
	struct client c;
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	char buf[8192];
	int n;

	client_init(&c, "good.test", 443, true, NULL);
	SSL_set_bio(c.ssl, in, out);
	SSL_set_connect_state(c.ssl);
	while (SSL_do_handshake(c.ssl) != 1) {
		while ((n = BIO_read(out, buf, sizeof(buf))) > 0) {
			for (int i = 0; i < n; i++)
				says_bytes(c.fd, buf + i, 1);
		}
		must(comes(c.fd, PATIENCE_MS));
		n = (int)recv(c.fd, buf, sizeof(buf), 0);
		if (n <= 0)
			fail_msg("the handshake ends");
		BIO_write(in, buf, n);
	}
	client_close(&c);
}

static void
by_address(void **state)
{
	struct client c;

	client_open(&c, "127.0.0.1", 443);
	client_says(&c, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
	client_sees(&c, OK);
	assert_string_equal(origin_saw(), "-\nGET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
	client_close(&c);
}

static void
until_the_end(void **state)
{
	struct client c;

	client_open(&c, "good.test", 443);
	client_says(&c, "GET /until-the-end HTTP/1.1\r\nHost: good.test\r\n\r\n");
	client_sees(&c,
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	    "9\r\nall of it\r\n0\r\n\r\n");
	client_sees_end(&c);
	client_close(&c);
	origin_saw();
}

/* Anybody between the proxy and the server can end a TCP connection. */
static void
cut_off(void **state)
{
	char got[4096];
	struct client c;
	size_t n;

	client_open(&c, "good.test", 443);
	client_says(&c, "GET /cut HTTP/1.1\r\nHost: good.test\r\n\r\n");
	n = tls_hears(c.ssl, got, sizeof(got));
	assert_null(memmem(got, n, "0\r\n\r\n", 5));
	assert_int_equal(SSL_get_shutdown(c.ssl) & SSL_RECEIVED_SHUTDOWN, 0);
	client_close(&c);
	origin_saw();
}

static void
websocket(void **state)
{
	static char out[200000], in[sizeof(out)];
	struct client c;

	client_open(&c, "good.test", 443);
	client_says(&c,
	    "GET /chat HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly");
	client_sees(&c,
	    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst");
	client_sees(&c, "early");
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 13 + (i >> 9));
	/* The origin echoes, so send pieces that fit into the buffers of both sides. */
	for (size_t at = 0; at < sizeof(out); at += 20000) {
		must(tls_says(c.ssl, out + at, 20000));
		assert_int_equal(tls_hears(c.ssl, in + at, 20000), 20000);
	}
	assert_memory_equal(in, out, sizeof(out));
	/* Half-close. */
	SSL_shutdown(c.ssl);
	client_sees(&c, "last");
	client_sees_end(&c);
	client_close(&c);
	origin_saw();
}

static void
large_bodies(void **state)
{
	static char block[65536];
	uint64_t before = resident(&proxy), most = 0;
	struct client c;

	client_open(&c, "good.test", 443);
	client_says(&c,
	    "POST /large HTTP/1.1\r\nHost: good.test\r\nContent-Length: 67108864\r\n\r\n");
	for (size_t n = 0; n < LARGE; n += sizeof(block)) {
		must(tls_says(c.ssl, block, sizeof(block)));
		if (n % (8u << 20) == 0 && resident(&proxy) > most)
			most = resident(&proxy);
	}
	client_sees(&c, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
	for (size_t n = 0; n < LARGE; n += sizeof(block)) {
		assert_int_equal(tls_hears(c.ssl, block, sizeof(block)), sizeof(block));
		if (n % (8u << 20) == 0 && resident(&proxy) > most)
			most = resident(&proxy);
	}
	assert_true(most < before + (4u << 20));
	client_says(&c, GET);
	client_sees(&c, OK);
	client_close(&c);
	origin_saw();
	origin_saw();
}

/*
 * More hosts than the proxy keeps leaf certificates for: each gets a correct one, and so does the
 * first host when it is used again.
 */
static void
many_hosts(void **state)
{
	uint64_t before = resident(&proxy);

	forget();
	for (unsigned i = 0; i <= MANY_HOSTS; i++) {
		char host[64], text[256], want[256];
		struct client c;

		snprintf(host, sizeof(host), "h%u.many.test", i % MANY_HOSTS);
		client_init(&c, host, 443, true, NULL);
		if (SSL_connect(c.ssl) != 1)
			fail_msg("%s: %s", host,
			    X509_verify_cert_error_string(SSL_get_verify_result(c.ssl)));
		/*
		 * The origin's certificate is not for this host; the report names the right host.
		 */
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
		client_says(&c, text);
		client_sees_refusal(&c, 502, "certificate");
		client_close(&c);
		snprintf(want, sizeof(want), "%s", host);
		assert_string_equal(next_failure()->host, want);
	}
	assert_true(resident(&proxy) < before + (4u << 20));
	origin_saw_nothing();
}

/* ---- what is not ---- */

static void
another_host(void **state)
{
	const struct rig_connection *r;
	struct client c;

	forget();
	client_open(&c, "good.test", 443);
	client_says(&c, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
	client_sees_refusal(&c, 403, "host");
	r = next_failure();
	assert_int_equal(r->outcome, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED);
	assert_int_equal(r->kind, KODA__EGRESS_KIND__EGRESS_KIND_INTERCEPT);
	assert_string_equal(r->host, "good.test");
	assert_string_equal(r->rule, "host");
	client_says(&c, GET);
	client_sees(&c, OK);
	assert_string_equal(origin_saw(), "good.test\n" GET);
	client_close(&c);
}

static void
not_http(void **state)
{
	struct client c;

	client_open(&c, "good.test", 443);
	client_says(&c, "SSH-2.0-OpenSSH_9.2\r\n");
	client_sees_refusal(&c, 400, "malformed");
	client_sees_end(&c);
	client_close(&c);
	origin_saw_nothing();
}

static const struct wrong {
	const char *label;
	enum origin_kind kind;
	const char *rule, *says;
} wrongs[] = {
	{ "an authority that nobody trusts", STRANGERS, "certificate", "not valid" },
	{ "another name", OTHERS, "certificate", "mismatch" },
	{ "expired", EXPIRED, "certificate", "expired" },
	{ "no TLS", NO_TLS, "tls", "TLS with the server failed" },
};

static void
server_is_wrong(void **state)
{
	const struct wrong *w = *state;
	const struct rig_connection *r;
	struct client c;

	forget();
	client_open(&c, "good.test", origin_port[w->kind]);
	client_says(&c,
	    "POST /secret HTTP/1.1\r\nHost: good.test\r\nContent-Length: 6\r\n\r\nsecret");
	client_sees_refusal(&c, 502, w->rule);
	client_close(&c);
	r = next_failure();
	assert_int_equal(r->outcome, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED);
	assert_string_equal(r->rule, w->rule);
	assert_int_equal(r->port, origin_port[w->kind]);
	if (strstr(r->detail, w->says) == NULL)
		fail_msg("'%s' does not say '%s'", r->detail, w->says);
	origin_saw_nothing();
}

static void
client_does_not_trust(void **state)
{
	const struct rig_connection *r;
	struct client c;

	forget();
	client_init(&c, "good.test", 443, false, NULL);
	assert_int_not_equal(SSL_connect(c.ssl), 1);
	client_close(&c);
	r = next_failure();
	assert_int_equal(r->outcome, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED);
	assert_string_equal(r->rule, "tls");
	origin_saw_nothing();
}

static void
http2_alone(void **state)
{
	struct client c;

	forget();
	client_init(&c, "good.test", 443, true, "\x02h2");
	assert_int_not_equal(SSL_connect(c.ssl), 1);
	assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()),
	    SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
	client_close(&c);
	assert_string_equal(next_failure()->rule, "tls");
}

static void
bundle_is_none(void **state)
{
	static const char *const rules[] = { "good.test:443", NULL };
	const char *path = proof_path("%s.none", bundle);
	const struct rig_options options = { .allowed = rules,
		.intercept = true,
		.ca_bundle = path,
		.refuse = true };
	struct rig r;

	rig_write(path, "nothing of the kind\n");
	rig_up(&r, &options);
	assert_non_null(strstr(r.failed, path));
	rig_down(&r);
	unlink(path);
}

/* The slot is dropped while its clients are connected. */
static void
dropped(void **state)
{
	struct client c;
	unsigned kept = port;
	uint64_t slot = rig_serve(&proxy, &port);
	char byte;

	client_open(&c, "good.test", 443);
	client_says(&c,
	    "POST /large HTTP/1.1\r\nHost: good.test\r\nContent-Length: 67108864\r\n\r\nsome");
	origin_saw();
	rig_drop(&proxy, slot);
	assert_true(SSL_read(c.ssl, &byte, 1) <= 0);
	client_close(&c);
	/* In the middle of the handshake. */
	slot = rig_serve(&proxy, &port);
	client_init(&c, "good.test", 443, true, NULL);
	says_bytes(c.fd, "\x16\x03\x01", 3);
	rig_drop(&proxy, slot);
	while (recv(c.fd, &byte, 1, 0) > 0)
		;
	client_close(&c);
	port = kept;
	serves(NULL);
}

int
main(void)
{
	static struct CMUnitTest tests[N_ELEMENTS(wrongs) + 32];
	static char hosts[16384];
	const struct CMUnitTest singles[] = {
		cmocka_unit_test(serves),
		cmocka_unit_test(hello_in_pieces),
		cmocka_unit_test(by_address),
		cmocka_unit_test(until_the_end),
		cmocka_unit_test(cut_off),
		cmocka_unit_test(websocket),
		cmocka_unit_test(large_bodies),
		cmocka_unit_test(many_hosts),
		cmocka_unit_test(another_host),
		cmocka_unit_test(not_http),
		cmocka_unit_test(client_does_not_trust),
		cmocka_unit_test(http2_alone),
		cmocka_unit_test(bundle_is_none),
		cmocka_unit_test(dropped),
	};
	size_t n = 0, at;

	OTHERS(singles);
	for (size_t i = 0; i < N_ELEMENTS(wrongs); i++)
		tests[n++] = (struct CMUnitTest){ wrongs[i].label, server_is_wrong, NULL, NULL,
			(void *)(uintptr_t)&wrongs[i] };
	at = (size_t)snprintf(hosts, sizeof(hosts), "127.0.0.1 localhost good.test\n");
	for (unsigned i = 0; i < MANY_HOSTS; i++)
		at += (size_t)snprintf(hosts + at, sizeof(hosts) - at, "127.0.0.1 h%u.many.test\n",
		    i);
	rig_enter(hosts);
	return _cmocka_run_group_tests("intercept", tests, n, setup, teardown);
}
