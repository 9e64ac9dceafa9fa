/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/accept/hello.h"

#include <string.h>

#define RECORD_HEADER    5
#define RECORD_HANDSHAKE 22
#define RECORD_MAX       (1u << 14) /* of plaintext: RFC 8446, 5.1 */
#define MESSAGE_HEADER   4
#define CLIENT_HELLO     1

/* unrecognized_name, fatal */
const unsigned char hello_alert[HELLO_ALERT_LEN] = { 21, 3, 3, 0, 2, 2, 112 };

/* The unparsed rest of an element. */
struct hello_part {
	const unsigned char *p;
	size_t n;
};

/* Take a number of that many bytes. False: there are fewer. */
static bool
take_number(struct hello_part *from, unsigned bytes, size_t *ret)
{
	size_t v = 0;

	if (from->n < bytes)
		return false;
	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | from->p[i];
	from->p += bytes;
	from->n -= bytes;
	*ret = v;
	return true;
}

static bool
take_part(struct hello_part *from, size_t n, struct hello_part *ret)
{
	if (from->n < n)
		return false;
	*ret = (struct hello_part){ from->p, n };
	from->p += n;
	from->n -= n;
	return true;
}

/* Takes a vector: its length, which is `bytes` bytes long, then its content. */
static bool
take_vector(struct hello_part *from, unsigned bytes, struct hello_part *ret)
{
	size_t n;

	return take_number(from, bytes, &n) && take_part(from, n, ret);
}

/* RFC 6066: a list with one name of each type; the only type ever defined is host_name. */
static const char *
parse_server_name(struct hello_part data, struct tls_hello *ret)
{
	struct hello_part list, name;
	enum domain_kind kind;
	size_t type;

	if (ret->has_name)
		return "two server_name extensions";
	if (!take_vector(&data, 2, &list) || data.n > 0)
		return "a server_name list whose length is wrong";
	if (!take_number(&list, 1, &type) || type != 0 || !take_vector(&list, 2, &name))
		return "a server_name that is not a host's";
	if (list.n > 0)
		return "more than one server_name";
	ret->has_name = true;
	return domain_host_parse(name.p, name.n, false, ret->name, &kind);
}

static const char *
parse_extensions(struct hello_part all, struct tls_hello *ret)
{
	const char *why;

	while (all.n > 0) {
		struct hello_part data;
		size_t type;

		if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &data))
			return "an extension that is longer than its hello";
		if (type == 0) {
			why = parse_server_name(data, ret);
			if (why != NULL)
				return why;
		} else if (type == 0xffce || (type >= 0xfe08 && type <= 0xfe0d)) {
			/* encrypted_server_name; encrypted_client_hello and its drafts. A fake
			 * one (GREASE) cannot be told from a real one. */
			ret->encrypted = true;
		}
	}
	return NULL;
}

/* Parse the complete message, without its header. */
static const char *
parse_message(struct hello_part m, struct tls_hello *ret)
{
	struct hello_part skipped, extensions;
	size_t version;

	if (!take_number(&m, 2, &version) || version >> 8 != 3)
		return "a hello of an unknown version";
	if (!take_part(&m, 32, &skipped) || !take_vector(&m, 1, &skipped) || skipped.n > 32)
		return "a hello whose session id is wrong";
	if (!take_vector(&m, 2, &skipped) || skipped.n == 0 || skipped.n % 2 != 0)
		return "a hello whose cipher suites are wrong";
	if (!take_vector(&m, 1, &skipped) || skipped.n == 0)
		return "a hello whose compression methods are wrong";
	if (m.n == 0)
		return NULL; /* an old client: no extensions */
	if (!take_vector(&m, 2, &extensions) || m.n > 0)
		return "a hello whose extensions are not as long as it says";
	return parse_extensions(extensions, ret);
}

/* Find the content of the next record at *at, as far as it has arrived. */
static enum hello_result
next_record(struct hello_part in, size_t *at, struct hello_part *ret, bool *ret_whole,
    const char **why)
{
	const unsigned char *p = in.p + *at;
	size_t have = in.n - *at, len;

	if (have > 0 && p[0] != RECORD_HANDSHAKE) {
		*why = "a record inside a hello is not a handshake record";
		return *at == 0 ? HELLO_NOT_TLS : HELLO_BAD;
	}
	/* The minor version is to be ignored (RFC 8446, 5.1). With another major version some
	 * servers would still go on. */
	if (have > 1 && p[1] != 3) {
		*why = "a record of an unknown version";
		return HELLO_BAD;
	}
	if (have < RECORD_HEADER)
		return HELLO_INCOMPLETE;
	len = (size_t)p[3] << 8 | p[4];
	if (len == 0 || len > RECORD_MAX) {
		*why = "a record whose length is wrong";
		return HELLO_BAD;
	}
	have -= RECORD_HEADER;
	*ret_whole = have >= len;
	if (have > len)
		have = len;
	*ret = (struct hello_part){ p + RECORD_HEADER, have };
	*at += RECORD_HEADER + have;
	return HELLO_OK;
}

/* Find the length of the message with its header; 0: not yet known. Returns NULL, or what is
 * wrong. */
static const char *
message_len(struct hello_part m, size_t *ret)
{
	*ret = 0;
	if (m.n > 0 && m.p[0] != CLIENT_HELLO)
		return "a handshake that does not begin with a client's hello";
	if (m.n < MESSAGE_HEADER)
		return NULL;
	*ret = MESSAGE_HEADER + ((size_t)m.p[1] << 16 | (size_t)m.p[2] << 8 | m.p[3]);
	return *ret > HELLO_MAX - RECORD_HEADER ? "a hello that is too large" : NULL;
}

/* Parse m, which has the complete message. whole: m ends at the end of a record. */
static enum hello_result
parse_whole(struct hello_part m, size_t len, bool whole, struct tls_hello *ret, const char **why)
{
	if (m.n > len || !whole)
		*why = "something after the hello in its record";
	else
		*why =
		    parse_message((struct hello_part){ m.p + MESSAGE_HEADER, len - MESSAGE_HEADER },
			ret);
	return *why == NULL ? HELLO_OK : HELLO_BAD;
}

/* Parse a message in several records: they are joined first. */
static enum hello_result
parse_split(struct hello_part in, struct tls_hello *ret, const char **why)
{
	unsigned char joined[HELLO_MAX];
	struct hello_part m = { joined, 0 };
	size_t at = 0, len;

	for (;;) {
		struct hello_part record = { NULL, 0 };
		bool whole = false;
		enum hello_result r = next_record(in, &at, &record, &whole, why);

		if (r != HELLO_OK)
			return r;
		/* Fits: at most HELLO_MAX bytes arrived. */
		memcpy(joined + m.n, record.p, record.n);
		m.n += record.n;
		*why = message_len(m, &len);
		if (*why != NULL)
			return HELLO_BAD;
		if (len > 0 && m.n >= len) {
			ret->len = at;
			return parse_whole(m, len, whole, ret, why);
		}
		if (!whole)
			return HELLO_INCOMPLETE;
	}
}

enum hello_result
hello_parse(const void *bytes, size_t n, struct tls_hello *ret, const char **why)
{
	struct hello_part in = { bytes, n < HELLO_MAX ? n : HELLO_MAX }, record = { NULL, 0 };
	struct tls_hello h = { 0 };
	size_t at = 0, len = 0;
	bool whole = false;
	enum hello_result r = next_record(in, &at, &record, &whole, why);

	if (r == HELLO_OK) {
		*why = message_len(record, &len);
		if (*why != NULL)
			return HELLO_BAD;
		h.len = at;
		if (len > 0 && record.n >= len)
			r = parse_whole(record, len, whole, &h, why);
		else
			r = whole ? parse_split(in, &h, why) : HELLO_INCOMPLETE;
	}
	if (r == HELLO_INCOMPLETE && in.n == HELLO_MAX) {
		*why = "a hello that is too large";
		return HELLO_BAD;
	}
	if (r == HELLO_OK)
		*ret = h;
	return r;
}

enum hello_answer
hello_answer_parse(const void *bytes, size_t n)
{
	/* A handshake, 3.x, of any length (0); a ServerHello of any length, 3.3, with the random
	 * value that marks a retry. */
	static const unsigned char retry[HELLO_ANSWER_LEN] = { RECORD_HANDSHAKE, 3, 0, 0, 0, 2, 0,
		0, 0, 3, 3, 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02,
		0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e,
		0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c };
	const unsigned char *p = bytes;

	for (size_t i = 0; i < n && i < sizeof(retry); i++) {
		bool any = (i >= 2 && i <= 4) || (i >= 6 && i <= 8);

		if (!any && p[i] != retry[i])
			return HELLO_ANSWER_OTHER;
	}
	return n < sizeof(retry) ? HELLO_ANSWER_INCOMPLETE : HELLO_ANSWER_RETRY;
}
