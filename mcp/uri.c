/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mcp/memory.h"
#include "shared/base/hex.h"

char *
uri_to_path(const char *uri)
{
	static const char scheme[] = "file://", localhost[] = "localhost/";
	char *path, *out;

	if (strncasecmp(uri, scheme, sizeof(scheme) - 1) != 0)
		return NULL;
	uri += sizeof(scheme) - 1;
	if (strncasecmp(uri, localhost, sizeof(localhost) - 1) == 0)
		uri += sizeof(localhost) - 2;
	if (uri[0] != '/')
		return NULL;
	path = out = memory_string(uri);
	for (const char *p = uri; *p != '\0'; p++) {
		int high, low;

		if (*p == '?' || *p == '#')
			break;
		if (*p != '%') {
			*out++ = *p;
			continue;
		}
		high = hex_digit(p[1]);
		low = high < 0 ? -1 : hex_digit(p[2]);
		if (low < 0 || (high == 0 && low == 0)) {
			free(path);
			return NULL;
		}
		*out++ = (char)(high << 4 | low);
		p += 2;
	}
	*out = '\0';
	return path;
}

char *
uri_of_path(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-._~!$&'()*+,;=:@/";
	char *uri = memory_zero(sizeof("file://") + 3 * strlen(path));
	size_t n = (size_t)sprintf(uri, "file://");

	for (const char *p = path; *p != '\0'; p++) {
		if (strchr(plain, *p) != NULL)
			uri[n++] = *p;
		else
			n += (size_t)sprintf(uri + n, "%%%02X", (unsigned char)*p);
	}
	return uri;
}
