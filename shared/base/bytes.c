/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/bytes.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/deceptive.h"
#include "shared/base/utf8.h"

int
path_check(const uint8_t *path, size_t len, struct koda_error *err)
{
	size_t start = 0;

	if (len == 0)
		return err_set(err, KODA_INVALID, 0, "the path is empty");
	if (memchr(path, '\0', len) != NULL)
		return err_set(err, KODA_INVALID, 0, "the path has a NUL byte in it");
	if (len > PATH_LEN_MAX)
		return err_set(err, KODA_INVALID, 0, "the path has %zu bytes, more than %d", len,
		    PATH_LEN_MAX);
	for (size_t i = 0; i <= len; i++) {
		if (i < len && path[i] != '/')
			continue;
		if (i - start > NAME_LEN_MAX)
			return err_set(err, KODA_INVALID, 0,
			    "a name in the path has %zu bytes, more than %d", i - start,
			    NAME_LEN_MAX);
		start = i + 1;
	}
	return 0;
}

bool
path_is_relative(const void *path, size_t len)
{
	const char *p = path;

	if (len == 0 || len > PATH_LEN_MAX || memchr(p, '\0', len) != NULL)
		return false;
	for (size_t at = 0; at <= len;) {
		const char *slash = memchr(p + at, '/', len - at);
		size_t name = slash == NULL ? len - at : (size_t)(slash - p) - at;

		if (name == 0 || name > NAME_LEN_MAX || (name == 1 && p[at] == '.') ||
		    (name == 2 && p[at] == '.' && p[at + 1] == '.'))
			return false;
		at += name + 1;
	}
	return true;
}

bool
path_is_canonical(const void *path, size_t len)
{
	const char *p = path;

	return len > 0 && len <= PATH_LEN_MAX && p[0] == '/' &&
	    (len == 1 || path_is_relative(p + 1, len - 1));
}

bool
path_is_inside(const char *path, const char *dir)
{
	size_t n = 0;

	if (dir[0] == '/' && dir[1] == '\0')
		return path[0] == '/';
	/* Most directories that a path is compared with differ from it early. */
	while (dir[n] != '\0' && dir[n] == path[n])
		n++;
	return dir[n] == '\0' && (path[n] == '\0' || path[n] == '/');
}

bool
path_is_below(const char *path, const char *dir)
{
	return path_is_inside(path, dir) && strcmp(path, dir) != 0;
}

size_t
bytes_show(char *buf, size_t size, const void *data, size_t len)
{
	const uint8_t *s = data;
	size_t want = 0, put = 0;
	bool cut = false;

	for (size_t i = 0; i < len;) {
		char esc[16];
		const char *piece = esc;
		uint32_t c;
		size_t n = utf8_next(s + i, len - i, &c), piece_len;

		if (n == 0 || (n == 1 && is_deceptive(c))) {
			piece_len = (size_t)snprintf(esc, sizeof(esc), "\\x%02x", s[i]);
			n = 1;
		} else if (is_deceptive(c)) {
			piece_len = (size_t)snprintf(esc, sizeof(esc), "\\u{%x}", c);
		} else {
			piece = (const char *)s + i;
			piece_len = n;
		}
		i += n;
		want += piece_len;
		/* Half an escape or half a character would read as something else. */
		if (cut || put + piece_len >= size) {
			cut = true;
			continue;
		}
		memcpy(buf + put, piece, piece_len);
		put += piece_len;
	}
	if (size > 0)
		buf[put] = '\0';
	return want;
}
