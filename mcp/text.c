/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/memory.h"
#include "shared/base/hex.h"
#include "shared/base/utf8.h"
#include "show/visible.h"

static char *
room(struct text *t, size_t len)
{
	if (t->size - t->len < len) {
		t->size = 2 * t->size > t->len + len ? 2 * t->size : t->len + len;
		t->p = memory_resize(t->p, t->size);
	}
	return t->p + t->len;
}

void
text_add(struct text *t, const void *data, size_t len)
{
	if (len == 0)
		return;
	memcpy(room(t, len), data, len);
	t->len += len;
}

void
text_printf(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n <= 0)
		return;
	va_start(ap, fmt);
	vsnprintf(room(t, (size_t)n + 1), (size_t)n + 1, fmt, ap);
	va_end(ap);
	t->len += (size_t)n;
}

void
text_show(struct text *t, const void *data, size_t len, bool tabs)
{
	visible_show(data, len, tabs, text_put, t);
}

void
text_put(void *to, const void *data, size_t len)
{
	text_add(to, data, len);
}

void
text_show_string(struct text *t, const char *s)
{
	text_show(t, s, strlen(s), false);
}

void
text_done(struct text *t)
{
	free(t->p);
	*t = (struct text){ 0 };
}

json_t *
text_json(struct text *t)
{
	json_t *ret = text_json_bytes(t->p, t->len);

	text_done(t);
	return ret;
}

json_t *
text_json_bytes(const void *data, size_t len)
{
	struct text clean = { 0 };
	char *p;
	json_t *ret;

	if (len == 0)
		return json_string_nocheck("");
	if (utf8_is_valid(data, len))
		return json_stringn_nocheck(data, len);
	p = room(&clean, VISIBLE_LOSSY_SIZE(len));
	ret = json_stringn_nocheck(p, visible_lossy(data, len, len, p));
	text_done(&clean);
	return ret;
}

json_t *
text_json_string(const char *s)
{
	return text_json_bytes(s, strlen(s));
}

json_t *
text_json_base64(const void *data, size_t len)
{
	struct text t = { 0 };
	size_t n = VISIBLE_BASE64_LEN(len);
	json_t *ret;

	if (len == 0)
		return json_string_nocheck("");
	visible_base64(data, len, room(&t, n));
	ret = json_stringn_nocheck(t.p, n);
	text_done(&t);
	return ret;
}

void
text_digest(char out[TEXT_DIGEST_SIZE], const uint8_t digest[KODA_DIGEST_BYTES])
{
	hex_put(out, digest, KODA_DIGEST_BYTES);
}

bool
text_parse_digest(const char *s, uint8_t ret[KODA_DIGEST_BYTES])
{
	return hex_parse(ret, KODA_DIGEST_BYTES, s) && s[2 * KODA_DIGEST_BYTES] == '\0';
}

const char *
text_file_type(enum koda_file_type type)
{
	static const char *const names[] = {
		[KODA_FILE_NONE] = "none",
		[KODA_FILE_REGULAR] = "regular",
		[KODA_FILE_DIRECTORY] = "directory",
		[KODA_FILE_SYMLINK] = "symlink",
		[KODA_FILE_OTHER] = "other",
	};

	return names[type <= KODA_FILE_OTHER ? type : KODA_FILE_OTHER];
}

const char *
text_mode(enum koda_mode mode)
{
	static const char *const names[] = {
		[KODA_PLAN] = "plan",
		[KODA_SAFE] = "safe",
		[KODA_AUTO] = "auto",
	};

	return names[mode];
}
