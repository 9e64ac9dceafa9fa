/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/content.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64u << 10)

/* Reads up to len bytes at `from`. Returns 0 at the end, -1 with *err set on failure. */
static ssize_t
read_at(const struct koda_result *result, uint64_t from, char *buf, size_t len,
    struct koda_error *err)
{
	ssize_t n;

	if (result->fd < 0) {
		if (from >= result->len)
			return 0;
		len = len < result->len - from ? len : (size_t)(result->len - from);
		memcpy(buf, result->data + from, len);
		return (ssize_t)len;
	}
	do {
		n = pread(result->fd, buf, len, (off_t)from);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		*err = (struct koda_error){ .code = KODA_IO, .errnum = errno };
		snprintf(err->message, sizeof(err->message), "read the content: %s",
		    strerror(err->errnum));
	}
	return n;
}

int
content_read(const struct koda_result *result, uint64_t from, size_t max, struct text *t,
    struct koda_error *err)
{
	char buf[CHUNK];

	while (max > 0) {
		ssize_t n = read_at(result, from, buf, max < CHUNK ? max : CHUNK, err);

		if (n <= 0)
			return (int)n;
		text_add(t, buf, (size_t)n);
		from += (uint64_t)n;
		max -= (size_t)n;
	}
	return 0;
}

/* Drops the incomplete line at the end, unless there is no other. */
static void
drop_partial(struct content_lines *ret)
{
	const char *newline = memrchr(ret->text.p, '\n', ret->text.len);

	if (newline == NULL)
		return;
	ret->text.len = (size_t)(newline + 1 - ret->text.p);
	ret->n--;
	ret->cut = false;
}

/* Takes the wanted lines from one piece of the file. Returns false if no more is needed. */
static bool
take_lines(struct content_lines *ret, const char *p, size_t len, uint64_t *line, uint64_t first,
    uint64_t n, size_t max)
{
	const char *end = p + len;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t k = (size_t)((newline != NULL ? newline + 1 : end) - p);
		bool begins = ret->text.len == 0 || ret->text.p[ret->text.len - 1] == '\n';

		if (*line >= first && *line - first >= n) {
			ret->more = true;
			return false;
		}
		if (*line >= first) {
			if (begins && ret->text.len > 0 && k > max - ret->text.len) {
				ret->more = true; /* only whole lines, if at least one fits */
				return false;
			}
			ret->n += begins;
			if (k > max - ret->text.len) {
				text_add(&ret->text, p, max - ret->text.len);
				ret->more = ret->cut = true;
				drop_partial(ret);
				return false;
			}
			text_add(&ret->text, p, k);
		}
		*line += newline != NULL;
		p += k;
	}
	return true;
}

int
content_lines(const struct koda_result *result, uint64_t first, uint64_t n, size_t max,
    struct content_lines *ret, struct koda_error *err)
{
	uint64_t at = 0, line = 1;
	char buf[CHUNK];
	ssize_t k;

	while ((k = read_at(result, at, buf, sizeof(buf), err)) > 0) {
		if (!take_lines(ret, buf, (size_t)k, &line, first, n, max))
			break;
		at += (uint64_t)k;
		if (at >= CONTENT_SEARCH_MAX && ret->text.len == 0) {
			*err = (struct koda_error){ .code = KODA_TOO_LARGE };
			snprintf(err->message, sizeof(err->message),
			    "line %llu begins after the first %u bytes: read it with unit \"bytes\"",
			    (unsigned long long)first, CONTENT_SEARCH_MAX);
			return -1;
		}
	}
	if (k < 0)
		return -1;
	ret->has_nul = ret->text.len > 0 && memchr(ret->text.p, '\0', ret->text.len) != NULL;
	return 0;
}

const char *
content_image_type(const void *data, size_t len)
{
	/* clang-format off */
	static const struct {
		const char *type, *magic;
		size_t len;
	} types[] = {
		{ "image/png",  "\x89PNG\r\n\x1a\n", 8 },
		{ "image/jpeg", "\xff\xd8\xff",      3 },
		{ "image/gif",  "GIF87a",            6 },
		{ "image/gif",  "GIF89a",            6 },
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (len >= types[i].len && memcmp(data, types[i].magic, types[i].len) == 0)
			return types[i].type;
	}
	if (len >= 12 && memcmp(data, "RIFF", 4) == 0 &&
	    memcmp((const char *)data + 8, "WEBP", 4) == 0)
		return "image/webp";
	return NULL;
}
