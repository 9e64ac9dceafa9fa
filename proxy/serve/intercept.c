#include "proxy/serve/intercept.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "proxy/accept/hello.h"
#include "shared/base/cleanup.h"

#define DAY (24L * 60 * 60)
/* The key disappears with the process, so the CA is useless afterwards. */
#define CA_DAYS   365
#define LEAF_DAYS 7
/* A leaf with less time left is made again. */
#define LEAF_LEFT (DAY)
/* All certificates begin this much earlier, for a client whose clock is a little behind (a test
 * with a fixed date). */
#define BEFORE DAY
/* For the two private keys; a power of two, a few pages, within the default RLIMIT_MEMLOCK. */
#define SECRETS_BYTES 16384
#define SECRETS_LEAST 16

struct leaf {
	struct leaf *prev, *next; /* in order of use, the latest first */
	X509 *certificate;
	time_t until;
	char host[DOMAIN_HOST_MAX + 1];
};

struct intercept {
	EVP_PKEY *ca_key, *leaf_key; /* one key for all leaves: all belong to this process */
	X509 *ca;
	char *ca_pem;
	SSL_CTX *to_clients, *to_servers;
	struct leaf *first, *last;
	size_t n_leaves;
};

enum meeting {
	MEET_SERVER,
	MEET_CLIENT,
	SERVED,
};

struct interception {
	struct listener *l;
	struct target target;
	struct account *account;
	struct stream client, server;
	enum meeting meeting;
	struct refusal why_not; /* status 0: the server was verified */
	ev_io io;
	ev_timer timer;
	struct forward *forward;
	intercept_fn *fn;
	void *data;
};

/* ---- certificates ---- */

/* Return OpenSSL's reason, or `otherwise`. */
static const char *
ssl_reason(const char *otherwise)
{
	unsigned long e = ERR_peek_last_error();
	const char *reason = e != 0 ? ERR_reason_error_string(e) : NULL;

	return reason != NULL ? reason : otherwise;
}

static int
ssl_failed(struct koda_error *err, const char *what)
{
	return err_set(err, KODA_IO, 0, "%s: %s", what, ssl_reason("no memory"));
}

static bool
add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *e;
	X509V3_CTX ctx;
	bool ok;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509V3_set_ctx_nodb(&ctx);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e != NULL && X509_add_ext(x, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

/* Add the name without OpenSSL's text syntax: a host is data. */
static bool
add_name(X509 *x, const struct target *t)
{
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *text = t->kind == DOMAIN_NAME ? ASN1_IA5STRING_new() : ASN1_OCTET_STRING_new();
	struct sockaddr_storage ss;
	socklen_t len;
	bool ok = false;

	if (names == NULL || name == NULL || text == NULL)
		goto out;
	if (t->kind == DOMAIN_NAME) {
		if (ASN1_STRING_set(text, t->host, -1) != 1)
			goto out;
		GENERAL_NAME_set0_value(name, GEN_DNS, text);
	} else {
		if (!address_parse(t->host, t->port, &ss, &len))
			goto out;
		if (ss.ss_family == AF_INET
			? ASN1_STRING_set(text, &((struct sockaddr_in *)&ss)->sin_addr, 4) != 1
			: ASN1_STRING_set(text, &((struct sockaddr_in6 *)&ss)->sin6_addr, 16) != 1)
			goto out;
		GENERAL_NAME_set0_value(name, GEN_IPADD, text);
	}
	text = NULL;
	if (sk_GENERAL_NAME_push(names, name) <= 0)
		goto out;
	name = NULL;
	ok = X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
out:
	ASN1_STRING_free(text);
	GENERAL_NAME_free(name);
	GENERAL_NAMES_free(names);
	return ok;
}

/* Make a certificate for t; NULL: the self-signed CA. */
static X509 *
make_certificate(const struct intercept *ic, const struct target *t, EVP_PKEY *key, long days)
{
	X509 *x = X509_new(), *issuer = t == NULL ? x : ic->ca;
	ASN1_INTEGER *serial;
	BIGNUM *number = BN_new();
	X509_NAME *subject;
	bool ok;

	if (x == NULL || number == NULL)
		goto failed;
	serial = X509_get_serialNumber(x);
	subject = X509_get_subject_name(x);
	ok = X509_set_version(x, X509_VERSION_3) == 1 &&
	    BN_rand(number, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
	    BN_to_ASN1_INTEGER(number, serial) != NULL &&
	    X509_gmtime_adj(X509_getm_notBefore(x), -BEFORE) != NULL &&
	    X509_gmtime_adj(X509_getm_notAfter(x), days * DAY) != NULL &&
	    X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC,
		(const unsigned char *)"koda-sandbox", -1, -1, 0) == 1 &&
	    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
		(const unsigned char *)(t == NULL ? "koda-sandbox: this session"
						  : "koda-sandbox: a server"),
		-1, -1, 0) == 1 &&
	    X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
	    X509_set_pubkey(x, key) == 1 &&
	    add_extension(x, issuer, NID_subject_key_identifier, "hash");
	if (!ok)
		goto failed;
	if (t == NULL)
		ok = add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
		    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign");
	else
		ok = add_extension(x, issuer, NID_authority_key_identifier, "keyid:always") &&
		    add_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
		    add_extension(x, issuer, NID_key_usage, "critical,digitalSignature") &&
		    add_extension(x, issuer, NID_ext_key_usage, "serverAuth") && add_name(x, t);
	if (!ok || X509_sign(x, ic->ca_key, EVP_sha256()) <= 0)
		goto failed;
	BN_free(number);
	return x;
failed:
	BN_free(number);
	X509_free(x);
	return NULL;
}

static void
leaf_unlink(struct intercept *ic, struct leaf *leaf)
{
	*(leaf->prev != NULL ? &leaf->prev->next : &ic->first) = leaf->next;
	*(leaf->next != NULL ? &leaf->next->prev : &ic->last) = leaf->prev;
	ic->n_leaves--;
}

static void
leaf_first(struct intercept *ic, struct leaf *leaf)
{
	leaf->prev = NULL;
	leaf->next = ic->first;
	*(ic->first != NULL ? &ic->first->prev : &ic->last) = leaf;
	ic->first = leaf;
	ic->n_leaves++;
}

static void
leaf_free(struct leaf *leaf)
{
	X509_free(leaf->certificate);
	free(leaf);
}

/* Return a leaf, which intercept keeps. NULL: no memory. */
static X509 *
leaf_for(struct intercept *ic, const struct target *t)
{
	time_t now = time(NULL);
	struct leaf *leaf = ic->first;

	while (leaf != NULL && strcmp(leaf->host, t->host) != 0)
		leaf = leaf->next;
	if (leaf != NULL) {
		leaf_unlink(ic, leaf);
		if (leaf->until - now > LEAF_LEFT) {
			leaf_first(ic, leaf);
			return leaf->certificate;
		}
		leaf_free(leaf);
	}
	if ((leaf = calloc(1, sizeof(*leaf))) == NULL)
		return NULL;
	if ((leaf->certificate = make_certificate(ic, t, ic->leaf_key, LEAF_DAYS)) == NULL) {
		free(leaf);
		return NULL;
	}
	leaf->until = now + LEAF_DAYS * DAY;
	snprintf(leaf->host, sizeof(leaf->host), "%s", t->host);
	if (ic->n_leaves == INTERCEPT_LEAVES_MAX) {
		struct leaf *oldest = ic->last;

		leaf_unlink(ic, oldest);
		leaf_free(oldest);
	}
	leaf_first(ic, leaf);
	return leaf->certificate;
}

/* ---- setting up ---- */

/* Select HTTP/1.1, or fail: a client that offers a list without it would speak another protocol. */
static int
choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
    const unsigned char *in, unsigned int n, void *data)
{
	for (unsigned int i = 0; i < n && i + 1 + in[i] <= n; i += 1u + in[i]) {
		if (in[i] == 8 && memcmp(in + i + 1, "http/1.1", 8) == 0) {
			*ret = in + i + 1;
			*ret_len = 8;
			return SSL_TLSEXT_ERR_OK;
		}
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* The systems keep their certificates in one file each. */
static int
load_trusted(SSL_CTX *ctx, const char *ca_bundle, struct koda_error *err)
{
	static const char *const files[] = {
		"/etc/ssl/certs/ca-certificates.crt",                    /* Debian, Arch, Gentoo */
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",     /* Fedora */
		"/etc/ssl/ca-bundle.pem",                                /* openSUSE */
		"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", /* Alpine */
	};

	if (ca_bundle != NULL) {
		if (SSL_CTX_load_verify_file(ctx, ca_bundle) == 1)
			return 0;
		return err_set(err, KODA_INVALID, 0, "mitm.ca_bundle '%s': %s", ca_bundle,
		    ssl_reason("no certificate in it"));
	}
	for (size_t i = 0; i < N_ELEMENTS(files); i++) {
		if (SSL_CTX_load_verify_file(ctx, files[i]) == 1)
			return 0;
	}
	return err_set(err, KODA_UNSUPPORTED, 0,
	    "TLS cannot be intercepted: this system has no file of trusted certificates, and the policy "
	    "names none (mitm.ca_bundle)");
}

static SSL_CTX *
new_context(const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (ctx == NULL)
		return NULL;
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx,
	    SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return ctx;
}

static int
make_ca(struct intercept *ic, struct koda_error *err)
{
	BIO *bio;
	char *text;
	long n;

	/* OpenSSL's secure heap keeps the keys from being swapped and dumped; without locked
	 * memory they are in ordinary memory. */
	if (!CRYPTO_secure_malloc_initialized())
		CRYPTO_secure_malloc_init(SECRETS_BYTES, SECRETS_LEAST);
	ic->ca_key = EVP_EC_gen("P-256");
	ic->leaf_key = EVP_EC_gen("P-256");
	if (ic->ca_key == NULL || ic->leaf_key == NULL)
		return ssl_failed(err, "make a key");
	if ((ic->ca = make_certificate(ic, NULL, ic->ca_key, CA_DAYS)) == NULL)
		return ssl_failed(err, "make a certificate");
	if ((bio = BIO_new(BIO_s_mem())) == NULL)
		return ssl_failed(err, "write a certificate");
	if (PEM_write_bio_X509(bio, ic->ca) == 1 && (n = BIO_get_mem_data(bio, &text)) > 0)
		ic->ca_pem = strndup(text, (size_t)n);
	BIO_free(bio);
	return ic->ca_pem != NULL ? 0 : ssl_failed(err, "write a certificate");
}

static int
make_contexts(struct intercept *ic, const char *ca_bundle, struct koda_error *err)
{
	static const unsigned char http[] = "\x08http/1.1";

	ic->to_clients = new_context(TLS_server_method());
	ic->to_servers = new_context(TLS_client_method());
	if (ic->to_clients == NULL || ic->to_servers == NULL)
		return ssl_failed(err, "set up TLS");
	SSL_CTX_set_alpn_select_cb(ic->to_clients, choose_protocol, NULL);
	SSL_CTX_set_num_tickets(ic->to_clients, 0);
	SSL_CTX_set_verify(ic->to_servers, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_set_alpn_protos(ic->to_servers, http, sizeof(http) - 1) != 0)
		return ssl_failed(err, "set up TLS");
	return load_trusted(ic->to_servers, ca_bundle, err);
}

struct intercept *
intercept_new(const char *ca_bundle, struct koda_error *err)
{
	struct intercept *ic = calloc(1, sizeof(*ic));

	if (ic == NULL) {
		err_set(err, KODA_IO, ENOMEM, "intercept");
		return NULL;
	}
	ERR_clear_error();
	if (make_ca(ic, err) < 0 || make_contexts(ic, ca_bundle, err) < 0) {
		intercept_free(ic);
		return NULL;
	}
	return ic;
}

void
intercept_free(struct intercept *ic)
{
	if (ic == NULL)
		return;
	while (ic->first != NULL) {
		struct leaf *leaf = ic->first;

		leaf_unlink(ic, leaf);
		leaf_free(leaf);
	}
	SSL_CTX_free(ic->to_clients);
	SSL_CTX_free(ic->to_servers);
	X509_free(ic->ca);
	EVP_PKEY_free(ic->ca_key);
	EVP_PKEY_free(ic->leaf_key);
	free(ic->ca_pem);
	free(ic);
}

const char *
intercept_ca(const struct intercept *ic)
{
	return ic->ca_pem;
}

/* ---- two handshakes, then HTTP ---- */

static void
release(struct interception *x)
{
	ev_io_stop(x->l->proxy->loop, &x->io);
	ev_timer_stop(x->l->proxy->loop, &x->timer);
	if (x->forward != NULL)
		forward_cancel(x->forward);
	stream_done(&x->client);
	stream_done(&x->server);
	account_end(x->account, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, "client",
	    "the client did not wait");
	free(x);
}

static void
over(struct interception *x)
{
	intercept_fn *fn = x->fn;
	void *data = x->data;

	release(x);
	fn(data);
}

static void
on_forwarded(void *data)
{
	struct interception *x = data;

	x->forward = NULL;
	over(x);
}

/* The server could not be verified or reached: the client gets our refusal, inside TLS. */
static void
server_is_wrong(struct interception *x, const char *rule, const char *why)
{
	struct refusal *r = &x->why_not;

	r->status = strcmp(rule, "timeout") == 0 ? 504 : 502;
	r->socks = 1;
	snprintf(r->rule, sizeof(r->rule), "%s", rule);
	snprintf(r->host, sizeof(r->host), "%s:%u", x->target.host, x->target.port);
	snprintf(r->sentence, sizeof(r->sentence), "%s: %s", r->host, why);
	account_end(take_ptr(&x->account), KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, rule,
	    r->sentence);
	stream_done(&x->server);
}

static void
serve(struct interception *x)
{
	bool good = x->why_not.status == 0;

	ev_io_stop(x->l->proxy->loop, &x->io);
	ev_timer_stop(x->l->proxy->loop, &x->timer);
	x->meeting = SERVED;
	x->forward = forward_start(x->l, FORWARD_FIXED, &x->client, NULL, 0, &x->target,
	    good ? &x->server : NULL, x->account, on_forwarded, x);
	if (x->forward == NULL) {
		over(x);
		return;
	}
	if (!good)
		forward_deny(x->forward, &x->why_not);
	stream_init(&x->client, -1, NULL);
	stream_init(&x->server, -1, NULL);
	x->account = NULL;
}

static void
client_is_wrong(struct interception *x)
{
	char why[EGRESS_SENTENCE_MAX];

	/* If the server has failed, too, the account has already ended with that. */
	snprintf(why, sizeof(why),
	    "%s:%u: the client did not accept the certificate of this session, or speaks no HTTP/1.1: %s",
	    x->target.host, x->target.port, ssl_reason("it closed the connection"));
	account_end(take_ptr(&x->account), KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, "tls", why);
	over(x);
}

static void
judge_server(struct interception *x)
{
	long verdict = SSL_get_verify_result(x->server.ssl);
	char why[EGRESS_SENTENCE_MAX];

	if (verdict != X509_V_OK) {
		snprintf(why, sizeof(why), "the server's certificate is not good: %s",
		    X509_verify_cert_error_string(verdict));
		server_is_wrong(x, "certificate", why);
	} else {
		snprintf(why, sizeof(why), "TLS with the server failed: %s",
		    ssl_reason("it closed the connection"));
		server_is_wrong(x, "tls", why);
	}
}

static void step(struct interception *x);

static void
wait_for(struct interception *x, const struct stream *s, int events)
{
	struct ev_loop *loop = x->l->proxy->loop;

	ev_io_stop(loop, &x->io);
	ev_io_set(&x->io, s->fd, events);
	ev_io_start(loop, &x->io);
}

static void
meet_client(struct interception *x)
{
	x->meeting = MEET_CLIENT;
	ev_timer_stop(x->l->proxy->loop, &x->timer);
	ev_timer_set(&x->timer, PROXY_HEAD_SECS, 0.);
	ev_timer_start(x->l->proxy->loop, &x->timer);
}

static void
step(struct interception *x)
{
	struct stream *s;
	int r, error;

	while (x->meeting != SERVED) {
		s = x->meeting == MEET_SERVER ? &x->server : &x->client;
		ERR_clear_error();
		r = SSL_do_handshake(s->ssl);
		error = r == 1 ? SSL_ERROR_NONE : SSL_get_error(s->ssl, r);
		if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
			wait_for(x, s, error == SSL_ERROR_WANT_READ ? EV_READ : EV_WRITE);
			return;
		}
		if (x->meeting == MEET_SERVER) {
			if (r != 1)
				judge_server(x);
			meet_client(x);
		} else if (r == 1) {
			serve(x);
			return;
		} else {
			client_is_wrong(x);
			return;
		}
	}
}

static void
on_io(struct ev_loop *loop, ev_io *w, int events)
{
	step(w->data);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct interception *x = w->data;

	ERR_clear_error();
	if (x->meeting == MEET_CLIENT) {
		client_is_wrong(x);
		return;
	}
	server_is_wrong(x, "timeout", "the server did not finish its TLS handshake in time");
	meet_client(x);
	step(x);
}

/* Set whose certificate the server has to present. */
static bool
expect_server(SSL *ssl, const struct target *t)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	char address[DOMAIN_HOST_MAX + 1];
	size_t n;

	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (t->kind == DOMAIN_NAME)
		return SSL_set_tlsext_host_name(ssl, t->host) == 1 &&
		    SSL_set1_host(ssl, t->host) == 1;
	n = strlen(t->host);
	if (t->kind == DOMAIN_IPV6)
		snprintf(address, sizeof(address), "%.*s", (int)(n - 2), t->host + 1);
	else
		snprintf(address, sizeof(address), "%s", t->host);
	return X509_VERIFY_PARAM_set1_ip_asc(param, address) == 1;
}

struct interception *
intercept_start(struct listener *l, const struct target *target, int client, const void *bytes,
    size_t n, int server, struct account *account, intercept_fn *fn, void *data)
{
	struct intercept *ic = l->proxy->intercept;
	struct interception *x = calloc(1, sizeof(*x));
	SSL *to_client = stream_tls(ic->to_clients, client, bytes, n);
	SSL *to_server = stream_tls(ic->to_servers, server, NULL, 0);
	struct tls_hello hello;
	const char *why;
	X509 *leaf;

	if (x == NULL || to_client == NULL || to_server == NULL)
		goto failed;
	x->target = *target;
	/* The tunnel has judged the hello's name, also where the rule lets it differ from the
	 * target: the client expects a certificate for that name. */
	if (hello_parse(bytes, n, &hello, &why) == HELLO_OK && hello.has_name) {
		snprintf(x->target.host, sizeof(x->target.host), "%s", hello.name);
		x->target.kind = DOMAIN_NAME;
	}
	if ((leaf = leaf_for(ic, &x->target)) == NULL ||
	    SSL_use_certificate(to_client, leaf) != 1 ||
	    SSL_use_PrivateKey(to_client, ic->leaf_key) != 1 ||
	    !expect_server(to_server, &x->target))
		goto failed;
	SSL_set_accept_state(to_client);
	SSL_set_connect_state(to_server);
	x->l = l;
	x->account = account;
	x->fn = fn;
	x->data = data;
	stream_init(&x->client, client, to_client);
	stream_init(&x->server, server, to_server);
	ev_init(&x->io, on_io);
	ev_timer_init(&x->timer, on_timer, PROXY_HEAD_SECS, 0.);
	x->io.data = x->timer.data = x;
	ev_timer_start(l->proxy->loop, &x->timer);
	/* Start from the loop: the caller does not have the pointer yet. */
	ev_feed_event(l->proxy->loop, &x->io, EV_CUSTOM);
	return x;
failed:
	SSL_free(to_client);
	SSL_free(to_server);
	free(x);
	return NULL;
}

void
intercept_cancel(struct interception *x)
{
	if (x != NULL)
		release(x);
}
