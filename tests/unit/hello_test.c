/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/accept/hello.c: the name in the first message of a TLS client, whatever pieces it comes
 * in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/accept/hello.h"
#include "shared/base/cleanup.h"

#define T(text) (text), sizeof(text) - 1

struct bytes {
	unsigned char *p;
	size_t n;
};

static void
free_bytes(struct bytes *b)
{
	free(b->p);
}
#define cleanup_bytes cleanup(free_bytes)

/* Exactly as long, so that a read past the end is found. */
static struct bytes
exact(const void *p, size_t n)
{
	struct bytes b = { malloc(n + (n == 0)), n };

	assert_non_null(b.p);
	memcpy(b.p, p, n);
	return b;
}

static struct bytes
from_hex(const char *hex)
{
	struct bytes b = { malloc(strlen(hex) / 2), strlen(hex) / 2 };

	assert_non_null(b.p);
	for (size_t i = 0; i < b.n; i++) {
		unsigned v;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
		b.p[i] = (unsigned char)v;
	}
	return b;
}

static void
put(struct bytes *b, const void *p, size_t n)
{
	b->p = realloc(b->p, b->n + n + 1);
	assert_non_null(b->p);
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static void
put_number(struct bytes *b, unsigned size, size_t v)
{
	while (size-- > 0) {
		unsigned char c = (unsigned char)(v >> (8 * size));

		put(b, &c, 1);
	}
}

/* Returns the message in records of `size` bytes, the first one of `first` bytes. */
static struct bytes
in_records(const void *message, size_t n, size_t first, size_t size)
{
	const unsigned char *p = message;
	struct bytes b = { NULL, 0 };

	for (size_t at = 0, len = first; at < n; at += len, len = size) {
		if (len > n - at)
			len = n - at;
		put(&b, "\x16\x03\x01", 3);
		put_number(&b, 2, len);
		put(&b, p + at, len);
	}
	return b;
}

/* A hello with these extensions, without a record around it. */
static struct bytes
message_of(const void *extensions, size_t n)
{
	struct bytes body = { NULL, 0 }, b = { NULL, 0 };

	put(&body, "\x03\x03", 2);
	for (unsigned i = 0; i < 32; i++)
		put_number(&body, 1, i);
	put(&body, T("\x04sess"));
	put(&body, T("\0\x02\x13\x01"));
	put(&body, T("\x01\0"));
	put_number(&body, 2, n);
	put(&body, extensions, n);
	put(&b, "\x01", 1);
	put_number(&b, 3, body.n);
	put(&b, body.p, body.n);
	free(body.p);
	return b;
}

static struct bytes
server_name(const void *name, size_t n)
{
	struct bytes b = { NULL, 0 };

	put_number(&b, 2, 0);
	put_number(&b, 2, n + 5);
	put_number(&b, 2, n + 3);
	put_number(&b, 1, 0);
	put_number(&b, 2, n);
	put(&b, name, n);
	return b;
}

static const struct {
	const char *text;
	size_t len;
} tails[] = {
	{ T("") },
	{ T("\x14\x03\x03\x00\x01\x01") },
	{ T("\x17\x03\x03\x00\x02xx") },
	{ T("\x16\x03\x01\x00\x04\x01\0\0\0") },
	{ T("GET / HTTP/1.1\r\n\r\n") },
};

static enum hello_result
parse(const void *p, size_t n, struct tls_hello *ret, const char **why)
{
	cleanup_bytes struct bytes b = exact(p, n);

	*why = "";
	return hello_parse(b.p, n, ret, why);
}

/* The result is the same whatever follows, in any records; and no byte of the hello may be
 * missing. */
static void
understands(const struct bytes *in, const char *want, bool encrypted)
{
	struct tls_hello h;
	const char *why;

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_bytes struct bytes b = exact(in->p, in->n);

		put(&b, tails[k].text, tails[k].len);
		memset(&h, 0xa5, sizeof(h));
		if (parse(b.p, b.n, &h, &why) != HELLO_OK)
			fail_msg("with tail %zu: %s", k, why);
		assert_int_equal(h.has_name, want[0] != '-');
		assert_string_equal(h.name, want[0] != '-' ? want : "");
		assert_int_equal(h.encrypted, encrypted);
	}
	for (size_t n = 0; n < in->n; n++) {
		if (parse(in->p, n, &h, &why) != HELLO_INCOMPLETE)
			fail_msg("its first %zu bytes are not incomplete: %s", n, why);
	}
}

static void
understands_in_any_records(const unsigned char *message, size_t n, const char *want, bool encrypted)
{
	struct tls_hello h;
	const char *why;

	for (size_t first = 1; first <= n; first++) {
		cleanup_bytes struct bytes b = in_records(message, n, first, n);

		if (parse(b.p, b.n, &h, &why) != HELLO_OK ||
		    strcmp(h.name, want[0] != '-' ? want : "") != 0)
			fail_msg("split behind %zu: %s", first, why);
		if (parse(b.p, b.n - 1, &h, &why) != HELLO_INCOMPLETE)
			fail_msg("split behind %zu, without its last byte: %s", first, why);
	}
	for (size_t size = 1; size <= 3; size++) {
		cleanup_bytes struct bytes b = in_records(message, n, size, size);

		understands(&b, want, encrypted);
	}
}

/* As clients sent them. */
static const struct {
	const char *label, *want, *hex;
} real[] = {
	/* clang-format off */
	{ "openssl, TLS 1.0", "www.example.test",
	    "160301007c010000780301315682a6e306006b11748e48d1e211965f2454d117cfc0f55ff79ac5cfbc71c1000012c00ac0140039c009c01300330035002f00ff0100003d00000015001300"
	    "00107777772e6578616d706c652e74657374000b000403000102000a000c000a001d0017001e00190018002300000016000000170000" },
	{ "openssl, TLS 1.1", "www.example.test",
	    "160301007c0100007803026bac54227b542b80b4224e14cdf0eb7588985d3c4af820b36047d4a153d29bf8000012c00ac0140039c009c01300330035002f00ff0100003d00000015001300"
	    "00107777772e6578616d706c652e74657374000b000403000102000a000c000a001d0017001e00190018002300000016000000170000" },
	{ "openssl, TLS 1.2", "www.example.test",
	    "16030100d0010000cc0303e69f47e4e488cc292335c5b550467dd5a51f3be2ae647899f39766fb1be7e9d9000038c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c02700"
	    "67c00ac0140039c009c0130033009d009c003d003c0035002f00ff0100006b0000001500130000107777772e6578616d706c652e74657374000b000403000102000a000c000a001d001700"
	    "1e00190018002300000016000000170000000d002a0028040305030603080708080809080a080b080408050806040105010601030303010302040205020602" },
	{ "openssl, TLS 1.3", "www.example.test",
	    "16030100f5010000f10303059dc758108ee6baaf6db01d4b864d836ebf00a68c9f7064faad6ce5574dd02f2008c567866c48837bbe076641b31130c31ed9ce47ab38a540db263fb481c2ef"
	    "54000813021303130100ff010000a00000001500130000107777772e6578616d706c652e74657374000b000403000102000a00160014001d0017001e001900180100010101020103010400"
	    "2300000016000000170000000d001e001c040305030603080708080809080a080b080408050806040105010601002b0003020304002d00020101003300260024001d0020c9bda2f3197fcd"
	    "3a1084927734131229639230f024988ad6dc7c797fb857982a" },
	{ "curl, with padding", "www.example.test",
	    "1603010200010001fc0303c7c6cde390f88dd2d256f5da65be0ed41038dbf38481e4e019780d1c37da9610204ec69c2430c2116c9ddf6cbe091c7dad4f0b957c0065ab79818677775ecff0"
	    "55003e130213031301c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f00ff01000175000000150013"
	    "0000107777772e6578616d706c652e74657374000b000403000102000a00160014001d0017001e00190018010001010102010301040010000e000c02683208687474702f312e3100160000"
	    "0017000000310000000d002a0028040305030603080708080809080a080b080408050806040105010601030303010302040205020602002b0009080304030303020301002d000201010033"
	    "00260024001d0020be5f29376e051ece48262fa7123bb52cbc098eecf84d94516034682e05d84b3c001500ad00000000000000000000000000000000000000000000000000000000000000"
	    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000" },
	{ "node", "www.example.test",
	    "16030101710100016d0303566bbaa078efcc5201e7a8f9ba9d6d3d280415d4d388819f0a8ae73287c5e6152042cc85ed5dedcd15fdef265447b94e0f80243381feda92bac584422d311cd0"
	    "5f0076130213031301c02fc02bc030c02c009ec0270067c028006b00a3009fcca9cca8ccaac0afc0adc0a3c09fc05dc061c057c05300a2c0aec0acc0a2c09ec05cc060c056c052c024006a"
	    "c0230040c00ac01400390038c009c01300330032009dc0a1c09dc051009cc0a0c09cc050003d003c0035002f00ff010000ae0000001500130000107777772e6578616d706c652e74657374"
	    "000b000403000102000a00160014001d0017001e0019001801000101010201030104002300000016000000170000000d002a0028040305030603080708080809080a080b08040805080604"
	    "0105010601030303010302040205020602002b00050403040303002d00020101003300260024001d0020712fc57de33ea02bfa861ace3725c5a0e8a0eece7a4e2e0f45b949311591a059" },
	{ "openssl, no name", "-",
	    "1603010124010001200303c114acc93ac4dd4d5cf5dde9dae74d1614793ebff388118737b82e448f9a4bdf2041c880b0fa531a92ba8921b5613dc53bdbddf8bff233a5dcdda27c79392b29"
	    "cd003e130213031301c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f00ff01000099000b00040300"
	    "0102000a00160014001d0017001e0019001801000101010201030104002300000016000000170000000d002a0028040305030603080708080809080a080b08040805080604010501060103"
	    "0303010302040205020602002b0009080304030303020301002d00020101003300260024001d0020220fcd9f0ca9fc39c45608ce5d58f11c7756cbb04a842cc7b28752312308717f" },
	{ "openssl, TLS 1.0, no name", "-",
	    "16030100390100003503013c063d82006de6163c23fc44f3a6474c99e0dcd1815e0effd9851e0607b4822e000004002f00ff010000080016000000170000" },
	/* clang-format on */
};

static void
real_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup_bytes struct bytes b = from_hex(real[i].hex);

	understands(&b, real[i].want, false);
	understands_in_any_records(b.p + 5, b.n - 5, real[i].want, false);
}

static const struct {
	const char *label, *name;
	size_t len;
	const char *want; /* NULL: bad */
} names[] = {
	/* clang-format off */
	{ "a name", T("a.test"), "a.test" },
	{ "capitals", T("A.TEST"), "a.test" },
	{ "a trailing dot", T("a.test."), "a.test" },
	{ "punycode", T("xn--nxasmq6b.test"), "xn--nxasmq6b.test" },
	{ "one label", T("localhost"), "localhost" },
	{ "IPv4", T("192.0.2.1"), "192.0.2.1" },
	{ "IPv6", T("2001:DB8::1"), "[2001:db8::1]" },
	{ "NUL", T("a.test\0.b.test"), NULL },
	{ "NUL at the end", T("a.test\0"), NULL },
	{ "empty", T(""), NULL },
	{ "a dot", T("."), NULL },
	{ "an empty label", T("a..test"), NULL },
	{ "a port", T("a.test:443"), NULL },
	{ "a space", T("a.test "), NULL },
	{ "a wildcard", T("*.test"), NULL },
	{ "not ASCII", T("\xc3\xbc.test"), NULL },
	{ "decimal", T("2130706433"), NULL },
	{ "a label of 64", T("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test"), NULL },
	/* clang-format on */
};

static void
name_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup_bytes struct bytes ext = server_name(names[i].name, names[i].len);
	cleanup_bytes struct bytes m = message_of(ext.p, ext.n);
	cleanup_bytes struct bytes one = in_records(m.p, m.n, m.n, m.n);
	cleanup_bytes struct bytes many = in_records(m.p, m.n, 1, 1);
	struct tls_hello h = { .encrypted = true };
	const char *why;

	if (names[i].want != NULL) {
		understands(&one, names[i].want, false);
		understands_in_any_records(m.p, m.n, names[i].want, false);
		return;
	}
	assert_int_equal(parse(one.p, one.n, &h, &why), HELLO_BAD);
	assert_string_not_equal(why, "");
	assert_int_equal(parse(many.p, many.n, &h, &why), HELLO_BAD);
	assert_true(h.encrypted); /* untouched */
}

#define SNI                                                                                        \
	"\0\0\0\x0b\0\x09\0\0\x06"                                                                 \
	"a.test"

static const struct {
	const char *label, *extensions;
	size_t len;
	const char *want; /* name or "-", and " encrypted"; or "!" and the error */
} extensions[] = {
	/* clang-format off */
	{ "none, and says so", T(""), "-" },
	{ "unknown ones around it", T("\x7a\x7a\0\0" SNI "\x0a\x0a\0\x01x"), "a.test" },
	{ "encrypted_client_hello", T(SNI "\xfe\x0d\0\x01\0"), "a.test encrypted" },
	{ "encrypted_client_hello, first", T("\xfe\x0d\0\0" SNI), "a.test encrypted" },
	{ "encrypted_client_hello, no name", T("\xfe\x0d\0\0"), "- encrypted" },
	{ "encrypted_client_hello, a draft", T(SNI "\xfe\x08\0\0"), "a.test encrypted" },
	{ "encrypted_server_name", T("\xff\xce\0\x02xx"), "- encrypted" },
	{ "what is near it", T(SNI "\xfe\x07\0\0\xfe\x0e\0\0\xff\xcd\0\0\xff\xcf\0\0\xff\x01\0\x01\0"), "a.test" },
	{ "two names", T("\0\0\0\x14\0\x12\0\0\x06" "a.test\0\0\x06" "b.test"), "!more than one" },
	{ "the same name twice", T("\0\0\0\x14\0\x12\0\0\x06" "a.test\0\0\x06" "a.test"), "!more than one" },
	{ "a byte behind the name", T("\0\0\0\x0c\0\x0a\0\0\x06" "a.testx"), "!more than one" },
	{ "two extensions", T(SNI SNI), "!two server_name" },
	{ "two extensions, something between", T(SNI "\x0a\x0a\0\0\0\0\0\x0b\0\x09\0\0\x06" "b.test"), "!two server_name" },
	{ "an empty list", T("\0\0\0\x02\0\0"), "!not a host's" },
	{ "no list (a server's)", T("\0\0\0\0"), "!length is wrong" },
	{ "half a list length", T("\0\0\0\x01\0"), "!length is wrong" },
	{ "another type of name", T("\0\0\0\x0b\0\x09\x01\0\x06" "a.test"), "!not a host's" },
	{ "another type first", T("\0\0\0\x14\0\x12\x01\0\x06" "a.test\0\0\x06" "b.test"), "!not a host's" },
	{ "list too short for it", T("\0\0\0\x0b\0\x08\0\0\x06" "a.test"), "!length is wrong" },
	{ "list longer than the extension", T("\0\0\0\x0b\0\x0a\0\0\x06" "a.test"), "!length is wrong" },
	{ "name longer than the list", T("\0\0\0\x0b\0\x09\0\0\x07" "a.test"), "!not a host's" },
	{ "name shorter than the list", T("\0\0\0\x0b\0\x09\0\0\x05" "a.test"), "!more than one" },
	{ "extension longer than all", T("\0\0\0\x0c\0\x09\0\0\x06" "a.test"), "!longer than its hello" },
	{ "extension of 65535", T(SNI "\x0a\x0a\xff\xff"), "!longer than its hello" },
	{ "half an extension's header", T(SNI "\x0a\x0a\0"), "!longer than its hello" },
	{ "a byte alone", T(SNI "\0"), "!longer than its hello" },
	/* clang-format on */
};

static void
extension_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup_bytes struct bytes m = message_of(extensions[i].extensions, extensions[i].len);
	cleanup_bytes struct bytes one = in_records(m.p, m.n, m.n, m.n);
	cleanup_bytes struct bytes many = in_records(m.p, m.n, 1, 1);
	const char *want = extensions[i].want;
	char name[64] = "";
	struct tls_hello h;
	const char *why;

	if (want[0] != '!') {
		bool encrypted = strstr(want, " encrypted") != NULL;

		memcpy(name, want, strcspn(want, " "));
		understands(&one, name, encrypted);
		understands_in_any_records(m.p, m.n, name, encrypted);
		return;
	}
	assert_int_equal(parse(one.p, one.n, &h, &why), HELLO_BAD);
	if (strstr(why, want + 1) == NULL)
		fail_msg("refused as: %s", why);
	assert_int_equal(parse(many.p, many.n, &h, &why), HELLO_BAD);
}

/* Input that is not TLS or has false lengths, fed from its first byte on. */
static const struct {
	const char *label, *text;
	size_t len;
	enum hello_result want;
	size_t from; /* `want` is the result from this many bytes on */
} raw[] = {
	/* clang-format off */
	{ "HTTP", T("GET / HTTP/1.1\r\n\r\n"), HELLO_NOT_TLS, 1 },
	{ "HTTP/2", T("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), HELLO_NOT_TLS, 1 },
	{ "SSH", T("SSH-2.0-OpenSSH_9.2\r\n"), HELLO_NOT_TLS, 1 },
	{ "zeros", T("\0\0\0\0\0\0\0\0"), HELLO_NOT_TLS, 1 },
	{ "SSLv2", T("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10"), HELLO_NOT_TLS, 1 },
	{ "an alert", T("\x15\x03\x01\0\x02\x02\x28"), HELLO_NOT_TLS, 1 },
	{ "application data", T("\x17\x03\x01\0\x02xx"), HELLO_NOT_TLS, 1 },
	{ "a record of version 2", T("\x16\x02\x00\0\x04\x01\0\0\0"), HELLO_BAD, 2 },
	{ "a record of version 4", T("\x16\x04\x00\0\x04\x01\0\0\0"), HELLO_BAD, 2 },
	{ "DTLS", T("\x16\xfe\xfd\0\0\0\0\0\0\0\0\0\x30"), HELLO_BAD, 2 },
	{ "an empty record", T("\x16\x03\x01\0\0"), HELLO_BAD, 5 },
	{ "a record that is too long", T("\x16\x03\x01\x40\x01\x01"), HELLO_BAD, 5 },
	{ "a server's hello", T("\x16\x03\x01\0\x04\x02\0\0\0"), HELLO_BAD, 6 },
	{ "a hello request", T("\x16\x03\x01\0\x04\0\0\0\0"), HELLO_BAD, 6 },
	{ "a message of 16 MiB", T("\x16\x03\x01\0\x04\x01\xff\xff\xff"), HELLO_BAD, 9 },
	{ "a message that cannot come within the bound", T("\x16\x03\x01\0\x04\x01\0\x7f\xf8"), HELLO_BAD, 9 },
	{ "an empty hello", T("\x16\x03\x01\0\x04\x01\0\0\0"), HELLO_BAD, 9 },
	{ "a hello of two bytes", T("\x16\x03\x01\0\x06\x01\0\0\x02\x03\x03"), HELLO_BAD, 11 },
	{ "something between its records", T("\x16\x03\x01\0\x01\x01\x14\x03\x03\0\x01\x01"), HELLO_BAD, 7 },
	{ "an empty record between", T("\x16\x03\x01\0\x01\x01\x16\x03\x03\0\0"), HELLO_BAD, 11 },
	{ "another version between", T("\x16\x03\x01\0\x01\x01\x16\x02"), HELLO_BAD, 8 },
	/* clang-format on */
};

static void
raw_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct tls_hello h;
	const char *why;

	for (size_t n = 0; n <= raw[i].len; n++) {
		enum hello_result want = n < raw[i].from ? HELLO_INCOMPLETE : raw[i].want;

		if (parse(raw[i].text, n, &h, &why) != want)
			fail_msg("after %zu bytes: %s", n, why);
		assert_true(want == HELLO_INCOMPLETE || why[0] != '\0');
	}
}

/* Bytes of the hello before the extensions are changed: parsing never reads past the end, and
 * false lengths are found. */
static void
lengths_that_lie(void **state)
{
	static const struct {
		size_t at;
		unsigned char to;
	} lies[] = {
		/* clang-format off */
		{ 3, 0x00 }, { 3, 0xff },   /* the message is shorter, longer (then: incomplete) */
		{ 4, 0x02 },                /* version */
		{ 38, 0x00 }, { 38, 0x05 }, { 38, 0x21 }, { 38, 0xff }, /* session id */
		{ 43, 0xff }, { 44, 0x00 }, { 44, 0x01 }, { 44, 0x04 }, { 44, 0x03 }, /* cipher suites */
		{ 47, 0x00 }, { 47, 0x02 }, { 47, 0xff }, /* compression */
		{ 49, 0x01 }, { 50, 0x00 }, { 50, 0x0e }, { 50, 0x10 }, /* extensions */
		/* clang-format on */
	};
	cleanup_bytes struct bytes m = message_of(T(SNI));
	struct tls_hello h;
	const char *why;

	assert_int_equal(m.n, 51 + sizeof(SNI) - 1);
	for (size_t i = 0; i < N_ELEMENTS(lies); i++) {
		unsigned char was = m.p[lies[i].at];
		cleanup_bytes struct bytes b = { NULL, 0 };
		enum hello_result r;

		assert_int_not_equal(was, lies[i].to);
		m.p[lies[i].at] = lies[i].to;
		b = in_records(m.p, m.n, m.n, m.n);
		r = parse(b.p, b.n, &h, &why);
		if (r != (lies[i].at == 3 && lies[i].to == 0xff ? HELLO_INCOMPLETE : HELLO_BAD))
			fail_msg("byte %zu as %#x: %d", lies[i].at, lies[i].to, r);
		m.p[lies[i].at] = was;
	}
}

/* Every length matches its content; some are not allowed. */
static const struct {
	const char *label, *body;
	size_t len;
	enum hello_result want;
} shapes[] = {
/* clang-format off */
#define RANDOM "0123456789abcdef0123456789abcdef"
	{ "no extensions", T("\3\3" RANDOM "\0" "\0\2\x13\1" "\1\0"), HELLO_OK },
	{ "SSLv3", T("\3\0" RANDOM "\0" "\0\2\x13\1" "\1\0"), HELLO_OK },
	{ "extensions, empty", T("\3\3" RANDOM "\0" "\0\2\x13\1" "\1\0" "\0\0"), HELLO_OK },
	{ "a session id of 32", T("\3\3" RANDOM "\x20" RANDOM "\0\2\x13\1" "\1\0"), HELLO_OK },
	{ "a session id of 33", T("\3\3" RANDOM "\x21" RANDOM "x" "\0\2\x13\1" "\1\0"), HELLO_BAD },
	{ "no cipher suites", T("\3\3" RANDOM "\0" "\0\0" "\1\0"), HELLO_BAD },
	{ "half a cipher suite", T("\3\3" RANDOM "\0" "\0\3\x13\1\x13" "\1\0"), HELLO_BAD },
	{ "no compression methods", T("\3\3" RANDOM "\0" "\0\2\x13\1" "\0"), HELLO_BAD },
	{ "two compression methods", T("\3\3" RANDOM "\0" "\0\2\x13\1" "\2\0\1"), HELLO_OK },
	{ "version 2", T("\2\0" RANDOM "\0" "\0\2\x13\1" "\1\0"), HELLO_BAD },
	{ "half the length of extensions", T("\3\3" RANDOM "\0" "\0\2\x13\1" "\1\0" "\0"), HELLO_BAD },
	{ "something behind the extensions", T("\3\3" RANDOM "\0" "\0\2\x13\1" "\1\0" "\0\0x"), HELLO_BAD },
	/* clang-format on */
};

static void
shape_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup_bytes struct bytes m = { NULL, 0 };
	cleanup_bytes struct bytes one = { NULL, 0 };
	struct tls_hello h;
	const char *why;

	put_number(&m, 1, 1);
	put_number(&m, 3, shapes[i].len);
	put(&m, shapes[i].body, shapes[i].len);
	one = in_records(m.p, m.n, m.n, m.n);
	assert_int_equal(parse(one.p, one.n, &h, &why), shapes[i].want);
	if (shapes[i].want == HELLO_OK)
		understands_in_any_records(m.p, m.n, "-", false);
}

static struct bytes
large(size_t record)
{
	cleanup_bytes struct bytes ext = { NULL, 0 };
	cleanup_bytes struct bytes m = { NULL, 0 };
	struct bytes zeros = { calloc(1, 20000), 20000 };
	size_t n = record == 1 ? 5000 : 20000;

	assert_non_null(zeros.p);
	put(&ext, "\0\x15", 2);
	put_number(&ext, 2, n);
	put(&ext, zeros.p, n);
	put(&ext, T(SNI));
	free(zeros.p);
	m = message_of(ext.p, ext.n);
	return in_records(m.p, m.n, record, record);
}

static void
a_large_hello(void **state)
{
	cleanup_bytes struct bytes b = large(16384);
	cleanup_bytes struct bytes small = large(1);
	struct tls_hello h;
	const char *why;

	assert_int_equal(parse(b.p, b.n, &h, &why), HELLO_OK);
	assert_string_equal(h.name, "a.test");
	assert_int_equal(parse(b.p, b.n - 1, &h, &why), HELLO_INCOMPLETE);
	/* An extension of 5000 bytes still fits in records of one byte. */
	assert_true(small.n < HELLO_MAX);
	assert_int_equal(parse(small.p, small.n, &h, &why), HELLO_OK);
	assert_string_equal(h.name, "a.test");
}

static void
a_hello_that_is_too_large(void **state)
{
	/* The message is within the bound, but the headers of its records are not. */
	cleanup_bytes struct bytes b = large(2);
	struct tls_hello h;
	const char *why;

	assert_true(b.n > HELLO_MAX);
	assert_int_equal(parse(b.p, HELLO_MAX - 1, &h, &why), HELLO_INCOMPLETE);
	assert_int_equal(parse(b.p, HELLO_MAX, &h, &why), HELLO_BAD);
	assert_string_equal(why, "a hello that is too large");
	assert_int_equal(parse(b.p, b.n, &h, &why), HELLO_BAD);
}

/* It might be another hello, which a server that asks for one would find there. */
static void
something_behind_it(void **state)
{
	for (size_t record = 1; record < 200; record++) {
		cleanup_bytes struct bytes m = message_of(T(SNI));
		const size_t hello = m.n;
		cleanup_bytes struct bytes alone = in_records(m.p, m.n, record, record);
		cleanup_bytes struct bytes both = { NULL, 0 };
		struct tls_hello h;
		const char *why;

		assert_int_equal(parse(alone.p, alone.n, &h, &why), HELLO_OK);
		assert_int_equal(h.len, alone.n);
		put(&m, "\1\0\0\x02\3\3", 6);
		both = in_records(m.p, m.n, record, record);
		if (hello % record == 0) {
			/* In a record of its own, the code that reads on checks it. */
			assert_int_equal(parse(both.p, both.n, &h, &why), HELLO_OK);
			assert_int_equal(h.len, alone.n);
			continue;
		}
		assert_int_equal(parse(both.p, both.n, &h, &why), HELLO_BAD);
		assert_string_equal(why, "something after the hello in its record");
	}
}

static void
the_answer(void **state)
{
	static const unsigned char retry[] = { 22, 3, 3, 0, 0x58, 2, 0, 0, 0x54, 3, 3, 0xcf, 0x21,
		0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
		0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8,
		0x33, 0x9c, 0x20 };
	static const size_t lengths[] = { 2, 3, 4, 6, 7, 8 };

	for (size_t n = 0; n <= sizeof(retry); n++) {
		cleanup_bytes struct bytes b = exact(retry, n);

		assert_int_equal(hello_answer_parse(b.p, b.n),
		    n < HELLO_ANSWER_LEN ? HELLO_ANSWER_INCOMPLETE : HELLO_ANSWER_RETRY);
	}
	for (size_t i = 0; i < HELLO_ANSWER_LEN; i++) {
		cleanup_bytes struct bytes b = exact(retry, sizeof(retry));
		bool may_differ = false;

		for (size_t k = 0; k < N_ELEMENTS(lengths); k++)
			may_differ |= lengths[k] == i;
		b.p[i] ^= 1;
		assert_int_equal(hello_answer_parse(b.p, b.n),
		    may_differ ? HELLO_ANSWER_RETRY : HELLO_ANSWER_OTHER);
		assert_int_equal(hello_answer_parse(b.p, i + 1),
		    !may_differ                    ? HELLO_ANSWER_OTHER
			: i + 1 < HELLO_ANSWER_LEN ? HELLO_ANSWER_INCOMPLETE
						   : HELLO_ANSWER_RETRY);
	}
}

static void
the_alert(void **state)
{
	static const unsigned char want[] = { 21, 3, 3, 0, 2, 2, 112 };

	assert_memory_equal(hello_alert, want, sizeof(want));
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(real) + N_ELEMENTS(names) + N_ELEMENTS(extensions) +
	    N_ELEMENTS(raw) + N_ELEMENTS(shapes) + 6];
	size_t n = 0;

#define ADD(cases, run)                                                                            \
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)                                             \
	tests[n++] = (struct CMUnitTest){ cases[i].label, run, NULL, NULL, (void *)i }
	ADD(real, real_case);
	ADD(names, name_case);
	ADD(extensions, extension_case);
	ADD(raw, raw_case);
	ADD(shapes, shape_case);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(lengths_that_lie);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_large_hello);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_hello_that_is_too_large);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(something_behind_it);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_answer);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_alert);
	return cmocka_run_group_tests_name("hello", tests, NULL, NULL);
}
