/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/body.h"

#include "shared/base/hex.h"

enum {
	CONTENT, /* first: the state at the start of a body of known length */
	SIZE,
	SIZE_LF,
	CONTENT_CR,
	CONTENT_LF,
	TRAILER, /* at the beginning of a line */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	LAST_LF,
	OVER,
};

#define DIGITS_MAX 16

void
body_init(struct body *b, const struct http_head *head)
{
	*b = (struct body){ .kind = head->body, .left = head->length, .state = CONTENT };
	if (b->kind == HTTP_BODY_CHUNKED)
		b->state = SIZE;
	else if (b->kind == HTTP_BODY_NONE || (b->kind == HTTP_BODY_LENGTH && b->left == 0))
		b->state = OVER;
}

bool
body_over(const struct body *b)
{
	return b->state == OVER;
}

bool
body_end(struct body *b)
{
	if (b->kind == HTTP_BODY_CLOSE)
		b->state = OVER;
	return b->state == OVER;
}

static bool
is_name(unsigned char c)
{
	return c > ' ' && c < 0x7f && c != ':';
}

/* Consume one byte of chunked framing. Returns NULL, or what is wrong. */
static const char *
take_framing(struct body *b, unsigned char c)
{
	int digit;

	if (b->state >= TRAILER && ++b->trailer > BODY_TRAILER_MAX)
		return "trailers that are too long";
	switch (b->state) {
	case SIZE:
		digit = hex_digit(c);
		if (digit >= 0) {
			/* Other parsers use signed numbers, which have to hold the same size. */
			if (b->digits == DIGITS_MAX || b->left > INT64_MAX >> 4)
				return "a chunk size that is too large";
			b->digits++;
			b->left = b->left << 4 | (uint64_t)digit;
			return NULL;
		}
		if (b->digits > 0 && c == ';')
			return "a chunk extension";
		if (b->digits == 0 || c != '\r')
			return "a chunk size that is not a plain number";
		b->state = SIZE_LF;
		return NULL;
	case SIZE_LF:
		b->state = b->left > 0 ? CONTENT : TRAILER;
		b->digits = 0;
		break;
	case CONTENT_CR:
		b->state = CONTENT_LF;
		return c == '\r' ? NULL : "a chunk that does not end where its size says";
	case CONTENT_LF:
		b->state = SIZE;
		break;
	case TRAILER:
		b->state = c == '\r' ? LAST_LF : TRAILER_NAME;
		return c == '\r' || is_name(c) ? NULL : "a trailer without a name";
	case TRAILER_NAME:
		if (c == ':')
			b->state = TRAILER_VALUE;
		return c == ':' || is_name(c) ? NULL : "a trailer without ':'";
	case TRAILER_VALUE:
		if (c == '\r')
			b->state = TRAILER_LF;
		return c == '\r' || c == '\t' || (c >= ' ' && c != 0x7f)
		    ? NULL
		    : "a control character in a trailer";
	case TRAILER_LF:
		b->state = TRAILER;
		break;
	default: /* LAST_LF */
		b->state = OVER;
		break;
	}
	return c == '\n' ? NULL : "a CR without LF in chunked framing";
}

enum http_result
body_take(struct body *b, const void *bytes, size_t n, size_t *ret_taken, const char **ret_content,
    size_t *ret_len, const char **why)
{
	const char *p = bytes;
	size_t i = 0, run;

	*ret_taken = *ret_len = 0;
	*ret_content = p;
	while (i < n && b->state != CONTENT && b->state != OVER) {
		*why = take_framing(b, (unsigned char)p[i]);
		if (*why != NULL)
			return HTTP_BAD;
		i++;
	}
	if (i < n && b->state == CONTENT) {
		run = n - i;
		if (b->kind != HTTP_BODY_CLOSE) {
			if (run > b->left)
				run = (size_t)b->left;
			b->left -= run;
			if (b->left == 0)
				b->state = b->kind == HTTP_BODY_CHUNKED ? CONTENT_CR : OVER;
		}
		*ret_content = p + i;
		*ret_len = run;
		i += run;
	}
	*ret_taken = i;
	return i < n || b->state == OVER ? HTTP_OK : HTTP_INCOMPLETE;
}
