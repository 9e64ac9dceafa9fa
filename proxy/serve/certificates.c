/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/certificates.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "proxy/serve/tls_error.h"
#include "shared/rules/address.h"

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

struct certificates {
	EVP_PKEY *ca_key, *leaf_key; /* one key for all leaves: all belong to this process */
	X509 *ca;
	char *pem;
	struct leaf *first, *last;
	size_t n_leaves;
};

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
make_certificate(const struct certificates *c, const struct target *t, EVP_PKEY *key, long days)
{
	X509 *x = X509_new(), *issuer = t == NULL ? x : c->ca;
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
	if (!ok || X509_sign(x, c->ca_key, EVP_sha256()) <= 0)
		goto failed;
	BN_free(number);
	return x;
failed:
	BN_free(number);
	X509_free(x);
	return NULL;
}

static void
leaf_unlink(struct certificates *c, struct leaf *leaf)
{
	*(leaf->prev != NULL ? &leaf->prev->next : &c->first) = leaf->next;
	*(leaf->next != NULL ? &leaf->next->prev : &c->last) = leaf->prev;
	c->n_leaves--;
}

static void
leaf_first(struct certificates *c, struct leaf *leaf)
{
	leaf->prev = NULL;
	leaf->next = c->first;
	*(c->first != NULL ? &c->first->prev : &c->last) = leaf;
	c->first = leaf;
	c->n_leaves++;
}

static void
leaf_free(struct leaf *leaf)
{
	X509_free(leaf->certificate);
	free(leaf);
}

X509 *
certificates_leaf(struct certificates *c, const struct target *t)
{
	time_t now = time(NULL);
	struct leaf *leaf = c->first;

	while (leaf != NULL && strcmp(leaf->host, t->host) != 0)
		leaf = leaf->next;
	if (leaf != NULL) {
		leaf_unlink(c, leaf);
		if (leaf->until - now > LEAF_LEFT) {
			leaf_first(c, leaf);
			return leaf->certificate;
		}
		leaf_free(leaf);
	}
	if ((leaf = calloc(1, sizeof(*leaf))) == NULL)
		return NULL;
	if ((leaf->certificate = make_certificate(c, t, c->leaf_key, LEAF_DAYS)) == NULL) {
		free(leaf);
		return NULL;
	}
	leaf->until = now + LEAF_DAYS * DAY;
	snprintf(leaf->host, sizeof(leaf->host), "%s", t->host);
	if (c->n_leaves == CERTIFICATES_LEAVES_MAX) {
		struct leaf *oldest = c->last;

		leaf_unlink(c, oldest);
		leaf_free(oldest);
	}
	leaf_first(c, leaf);
	return leaf->certificate;
}

static int
make_ca(struct certificates *c, struct koda_error *err)
{
	BIO *bio;
	char *text;
	long n;

	/* OpenSSL's secure heap keeps the keys from being swapped and dumped; without locked
	 * memory they are in ordinary memory. */
	if (!CRYPTO_secure_malloc_initialized())
		CRYPTO_secure_malloc_init(SECRETS_BYTES, SECRETS_LEAST);
	c->ca_key = EVP_EC_gen("P-256");
	c->leaf_key = EVP_EC_gen("P-256");
	if (c->ca_key == NULL || c->leaf_key == NULL)
		return tls_failed(err, "make a key");
	if ((c->ca = make_certificate(c, NULL, c->ca_key, CA_DAYS)) == NULL)
		return tls_failed(err, "make a certificate");
	if ((bio = BIO_new(BIO_s_mem())) == NULL)
		return tls_failed(err, "write a certificate");
	if (PEM_write_bio_X509(bio, c->ca) == 1 && (n = BIO_get_mem_data(bio, &text)) > 0)
		c->pem = strndup(text, (size_t)n);
	BIO_free(bio);
	return c->pem != NULL ? 0 : tls_failed(err, "write a certificate");
}

struct certificates *
certificates_new(struct koda_error *err)
{
	struct certificates *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		err_set(err, KODA_IO, ENOMEM, "intercept");
		return NULL;
	}
	if (make_ca(c, err) < 0) {
		certificates_free(c);
		return NULL;
	}
	return c;
}

void
certificates_free(struct certificates *c)
{
	if (c == NULL)
		return;
	while (c->first != NULL) {
		struct leaf *leaf = c->first;

		leaf_unlink(c, leaf);
		leaf_free(leaf);
	}
	X509_free(c->ca);
	EVP_PKEY_free(c->ca_key);
	EVP_PKEY_free(c->leaf_key);
	free(c->pem);
	free(c);
}

const char *
certificates_ca(const struct certificates *c)
{
	return c->pem;
}

EVP_PKEY *
certificates_key(const struct certificates *c)
{
	return c->leaf_key;
}
