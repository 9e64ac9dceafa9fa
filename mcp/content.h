/* The content that a read gave: in memory, or behind a descriptor. Read without waiting, of regular files only. */
#ifndef KODA_MCP_CONTENT_H
#define KODA_MCP_CONTENT_H

#include <stdbool.h>

#include "mcp/text.h"

/* At most max bytes from `from` on into t. -1 with *err set; what became shorter meanwhile is no error. */
int content_read(const struct koda_result *result, uint64_t from, size_t max, struct text *t,
    struct koda_error *err);

/* Lines first (from 1) to first + n - 1, of at most max bytes. */
struct content_lines {
	struct text text;
	uint64_t n;   /* how many came */
	bool more;    /* there are others behind them */
	bool cut;     /* the last one is not all of its line */
	bool has_nul; /* it is no text */
};
/* Looks at no more than this to find a line: what is larger is read by bytes. */
#define CONTENT_SEARCH_MAX (64u << 20)
int content_lines(const struct koda_result *result, uint64_t first, uint64_t n, size_t max,
    struct content_lines *ret, struct koda_error *err);

/* "image/png" ..., by how it begins; NULL: nothing that clients show. */
const char *content_image_type(const void *data, size_t len);

#endif
