/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/intercept.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "proxy/accept/hello.h"
#include "proxy/serve/certificates.h"
#include "proxy/serve/tls_error.h"
#include "shared/base/cleanup.h"

struct intercept {
	struct certificates *certificates;
	SSL_CTX *to_clients, *to_servers;
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
		    tls_reason("no certificate in it"));
	}
	for (size_t i = 0; i < N_ELEMENTS(files); i++) {
		if (SSL_CTX_load_verify_file(ctx, files[i]) == 1)
			return 0;
	}
	return err_set(err, KODA_UNSUPPORTED, 0,
	    "TLS cannot be intercepted: this system has no file of trusted certificates, and "
	    "the policy does not name one (mitm.ca_bundle)");
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
make_contexts(struct intercept *ic, const char *ca_bundle, struct koda_error *err)
{
	static const unsigned char http[] = "\x08http/1.1";

	ic->to_clients = new_context(TLS_server_method());
	ic->to_servers = new_context(TLS_client_method());
	if (ic->to_clients == NULL || ic->to_servers == NULL)
		return tls_failed(err, "set up TLS");
	SSL_CTX_set_alpn_select_cb(ic->to_clients, choose_protocol, NULL);
	SSL_CTX_set_num_tickets(ic->to_clients, 0);
	SSL_CTX_set_verify(ic->to_servers, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_set_alpn_protos(ic->to_servers, http, sizeof(http) - 1) != 0)
		return tls_failed(err, "set up TLS");
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
	ic->certificates = certificates_new(err);
	if (ic->certificates == NULL || make_contexts(ic, ca_bundle, err) < 0) {
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
	SSL_CTX_free(ic->to_clients);
	SSL_CTX_free(ic->to_servers);
	certificates_free(ic->certificates);
	free(ic);
}

const char *
intercept_ca(const struct intercept *ic)
{
	return certificates_ca(ic->certificates);
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
	    "%s:%u: the client did not accept the certificate of this session, or does not speak "
	    "HTTP/1.1: %s",
	    x->target.host, x->target.port, tls_reason("it closed the connection"));
	account_end(take_ptr(&x->account), KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, "tls", why);
	over(x);
}

static void
judge_server(struct interception *x)
{
	long verdict = SSL_get_verify_result(x->server.ssl);
	char why[EGRESS_SENTENCE_MAX];

	if (verdict != X509_V_OK) {
		snprintf(why, sizeof(why), "the server's certificate is not valid: %s",
		    X509_verify_cert_error_string(verdict));
		server_is_wrong(x, "certificate", why);
	} else {
		snprintf(why, sizeof(why), "TLS with the server failed: %s",
		    tls_reason("it closed the connection"));
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
	if ((leaf = certificates_leaf(ic->certificates, &x->target)) == NULL ||
	    SSL_use_certificate(to_client, leaf) != 1 ||
	    SSL_use_PrivateKey(to_client, certificates_key(ic->certificates)) != 1 ||
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
