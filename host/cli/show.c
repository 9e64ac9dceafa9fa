#include "host/cli/show.h"

#include <stdlib.h>
#include <string.h>

#include "host/cli/output.h"

/* The character at p: how many bytes it has, 0 if it is not UTF-8 (over-long forms and surrogates
 * are not). */
static size_t
utf8_next(const uint8_t *p, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0];
	size_t n;

	if (c < 0x80) {
		*ret = c;
		return 1;
	}
	if (c >= 0xc2 && c <= 0xdf)
		n = 2;
	else if (c >= 0xe0 && c <= 0xef)
		n = 3;
	else if (c >= 0xf0 && c <= 0xf4)
		n = 4;
	else
		return 0;
	if (n > len)
		return 0;
	c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

/* What moves the cursor, reorders the line, breaks it or cannot be seen. */
static bool
is_deceptive(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f },       /* C0 */
		{ 0x7f, 0x9f },       /* DEL, C1 */
		{ 0xad, 0xad },       /* soft hyphen */
		{ 0x61c, 0x61c },     /* Arabic letter mark */
		{ 0x115f, 0x1160 },   /* Hangul fillers: letters without ink */
		{ 0x180b, 0x180f },   /* Mongolian selectors and separator */
		{ 0x200b, 0x200f },   /* zero widths and marks */
		{ 0x2028, 0x202e },   /* line separators, bidi embeddings and overrides */
		{ 0x2060, 0x206f },   /* joiners, bidi isolates */
		{ 0x3164, 0x3164 },   /* Hangul filler */
		{ 0xfe00, 0xfe0f },   /* variation selectors */
		{ 0xfeff, 0xfeff },   /* byte order mark */
		{ 0xffa0, 0xffa0 },   /* half-width filler */
		{ 0xfff0, 0xfffb },   /* interlinear annotation */
		{ 0xe0000, 0xe0fff }, /* tags, more selectors */
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	}
	return false;
}

void
show(FILE *f, const void *data, size_t len, unsigned flags)
{
	const uint8_t *p = data, *end = p + len;

	while (p < end) {
		uint32_t c = 0;
		size_t n = utf8_next(p, (size_t)(end - p), &c);

		if (n == 0) {
			fprintf(f, "\\x%02x", *p);
			n = 1;
		} else if (!is_deceptive(c) || (c == '\t' && flags & SHOW_TABS)) {
			fwrite(p, 1, n, f);
		} else if (c < 0x80) {
			fprintf(f, "\\x%02x", c);
		} else {
			fprintf(f, "\\u{%x}", c);
		}
		p += n;
	}
}

void
show_string(FILE *f, const char *s)
{
	show(f, s, strlen(s), 0);
}

bool
show_is_utf8(const void *data, size_t len)
{
	const uint8_t *p = data, *end = p + len;

	while (p < end) {
		uint32_t c;
		size_t n = utf8_next(p, (size_t)(end - p), &c);

		if (n == 0)
			return false;
		p += n;
	}
	return true;
}

json_t *
show_json_lossy(const void *data, size_t len)
{
	const uint8_t *p = data, *end = p + len;
	char *text = output_alloc(3 * len + 1); /* U+FFFD has three bytes */
	size_t n = 0;
	json_t *ret;

	while (p < end) {
		uint32_t c;
		size_t step = utf8_next(p, (size_t)(end - p), &c);

		if (step == 0) {
			memcpy(text + n, "\xef\xbf\xbd", 3);
			n += 3;
			p++;
		} else {
			memcpy(text + n, p, step);
			n += step;
			p += step;
		}
	}
	ret = json_stringn(text, n);
	free(text);
	return ret;
}

json_t *
show_json_base64(const void *data, size_t len)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = data;
	size_t n = 0;
	char *text = output_alloc((len + 2) / 3 * 4 + 1);
	json_t *ret;

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t three = (uint32_t)p[i] << 16;

		if (left > 1)
			three |= (uint32_t)p[i + 1] << 8;
		if (left > 2)
			three |= p[i + 2];
		text[n++] = digits[three >> 18];
		text[n++] = digits[three >> 12 & 63];
		text[n++] = left > 1 ? digits[three >> 6 & 63] : '=';
		text[n++] = left > 2 ? digits[three & 63] : '=';
	}
	ret = json_stringn_nocheck(text, n);
	free(text);
	return ret;
}

void
show_json_path(json_t *object, const char *key, const char *path)
{
	size_t len = strlen(path);
	char other[64];

	json_object_set_new(object, key, show_json_lossy(path, len));
	if (show_is_utf8(path, len))
		return;
	snprintf(other, sizeof(other), "%s_base64", key);
	json_object_set_new(object, other, show_json_base64(path, len));
}

void
show_json_content(json_t *object, const void *data, size_t len)
{
	/* U+0000 is JSON, and yet many a reader cuts or refuses it. */
	bool text = show_is_utf8(data, len) && (len == 0 || memchr(data, '\0', len) == NULL);

	json_object_set_new(object, "encoding", json_string(text ? "utf-8" : "base64"));
	json_object_set_new(object, "content",
	    text ? json_stringn_nocheck(data, len) : show_json_base64(data, len));
}

void
show_digest(char buf[SHOW_DIGEST_SIZE], const uint8_t digest[KODA_DIGEST_BYTES])
{
	for (size_t i = 0; i < KODA_DIGEST_BYTES; i++)
		snprintf(buf + 2 * i, 3, "%02x", digest[i]);
}

const char *
show_type(enum koda_file_type type)
{
	switch (type) {
	case KODA_FILE_NONE:
		return "none";
	case KODA_FILE_REGULAR:
		return "regular";
	case KODA_FILE_DIRECTORY:
		return "directory";
	case KODA_FILE_SYMLINK:
		return "symlink";
	case KODA_FILE_OTHER:
		return "other";
	}
	return "other";
}
