/* SPDX-License-Identifier: Apache-2.0 */
/* The content that a read returned: in memory, or in a descriptor. Reads regular files only, and
 * never waits. */
#ifndef KODA_MCP_CONTENT_H
#define KODA_MCP_CONTENT_H

#include <stdbool.h>

#include "mcp/text.h"

/* Appends at most max bytes, starting at `from`, to t. Returns -1 with *err set on failure; a
 * file that became shorter meanwhile is not an error. */
int content_read(const struct koda_result *result, uint64_t from, size_t max, struct text *t,
    struct koda_error *err);

/* Lines first (from 1) to first + n - 1, at most max bytes of them. */
struct content_lines {
	struct text text;
	uint64_t n;   /* lines in text */
	bool more;    /* more lines follow */
	bool cut;     /* the last line is incomplete */
	bool has_nul; /* it is not text */
};
/* Maximum bytes to search for a line: a larger file is read by bytes. */
#define CONTENT_SEARCH_MAX (64u << 20)
int content_lines(const struct koda_result *result, uint64_t first, uint64_t n, size_t max,
    struct content_lines *ret, struct koda_error *err);

/* Returns "image/png" or similar, judged by the first bytes; NULL: not an image that clients
 * show. */
const char *content_image_type(const void *data, size_t len);

#endif
